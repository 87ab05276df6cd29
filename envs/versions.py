"""What the later course of an episode depends on beside its state: an episode goes on only where all of it is the same."""

from collections.abc import Mapping

from wardian.envs.definition import WorldDefinition
from wardian.envs.observation import RENDERER_VERSION
from wardian.sandbox.errors import SnapshotRefused
from wardian.sandbox.fingerprint import digest
from wardian.tools.schemas import openai_schema


def tools_digest(world: WorldDefinition) -> str:
    """Digest over the names, versions and schemas of all tools of the world."""
    tools = "\n".join(f"{tool.name} {tool.version} {openai_schema(tool)!r}" for tool in sorted(world.tools, key=lambda tool: tool.name))
    return digest(tools.encode("utf-8", "surrogatepass"))


def env_version(world: WorldDefinition) -> str:
    """World and version in one word."""
    return f"{world.name}@{world.version}"


def world_versions(world: WorldDefinition) -> dict[str, str]:
    """What depends on the world and this package alone."""
    return {"environment": env_version(world), "renderer": str(RENDERER_VERSION), "tools": tools_digest(world)}


def check_versions(found: Mapping[str, str], here: Mapping[str, str]) -> None:
    """Look whether a snapshot's versions are those of this environment.

    Raises:
        SnapshotRefused: they are not; names each.
    """
    wrong = [
        f"{name}: {found.get(name, 'none')}, and here it is {here.get(name, 'none')}"
        for name in sorted({*found, *here})
        if found.get(name) != here.get(name)
    ]
    if wrong:
        raise SnapshotRefused(f"the snapshot is of another environment: {'; '.join(wrong)}")
