"""The schemas of the tools that an episode had, from its log, or from the world where that still has the same tools."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wardian.envs.registry import load_world
from wardian.envs.versions import tools_digest
from wardian.rollouts.export.errors import SchemasLost
from wardian.rollouts.records import EpisodeStart, Json
from wardian.rollouts.trajectory import TrajectoryLog
from wardian.tools.schemas import openai_schema


@dataclass(slots=True)
class ToolSchemas:
    log: TrajectoryLog
    _known: dict[str, Mapping[str, dict[str, Json]]] = field(default_factory=dict)
    """Schemas by name, by digest of a world's tools."""

    def of(self, start: EpisodeStart) -> list[dict[str, Json]]:
        """Schemas in the OpenAI function format, in the order in which the agent had them.

        Raises:
            SchemasLost: neither the log nor the world has them.
        """
        wanted = start.versions.tools
        if wanted not in self._known:
            self._known[wanted] = self._from_log(wanted) or self._from_world(start)
        return [self._known[wanted][name] for name in start.tools]

    def _from_log(self, wanted: str) -> Mapping[str, dict[str, Json]]:
        for _, run in self.log.runs:
            if run.versions.tools == wanted:
                return {schema["function"]["name"]: schema for schema in run.tool_schemas}
        return {}

    def _from_world(self, start: EpisodeStart) -> Mapping[str, dict[str, Json]]:
        world = load_world(start.world)
        if tools_digest(world) != start.versions.tools:
            raise SchemasLost(f"{start.episode_id}: the log has no schemas of its tools, and the world {start.world} has others here now")
        return {tool.name: openai_schema(tool) for tool in world.tools}
