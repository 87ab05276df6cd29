"""The episode of a lease as a tool server, at `/episodes/NAME/mcp`: for agent programs, which the lease's policy token lets in.

It acts, and it sees what an agent sees: no reward, no verdict, no reset. Needs the extra `mcp`; without it there is no such address.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from starlette.routing import Route

from wardian.envs.observation import first_observation
from wardian.tools.contract import Json
from wardian.trainers.mcp.handle import Answer, EpisodeBusy, EpisodeFailed, EpisodeOver
from wardian.trainers.server.problems import Code, Problem
from wardian.trainers.server.replies import Course
from wardian.trainers.server.session import Session
from wardian.trainers.server.sessions import Sessions
from wardian.trainers.server.wire import action_of

INSTALLED = find_spec("mcp_types") is not None
"""Whether tool servers can be had: since mcp 2."""


def routes(sessions: Sessions) -> list[Route]:
    """The address, where it can be had."""
    if not INSTALLED:
        return []
    from wardian.trainers.mcp.app import PATH, episode_app

    async def lookup(name: str, token: str) -> LeasedEpisode | None:
        try:
            session = sessions.find(name)
        except Problem:
            return None
        if not hmac.compare_digest(session.policy_token.encode(), token.encode()):
            return None
        session.touch()
        if session.course is None:
            raise Problem(Code.EXECUTION_ERROR, f"the lease {name} has no episode yet; its owner must reset it first", status=409)
        return LeasedEpisode(session, session.course)

    return [Route(PATH, episode_app(lookup), include_in_schema=False)]


@dataclass(slots=True)
class LeasedEpisode:
    """As `wardian.trainers.mcp.handle.EpisodeHandle` has it."""

    session: Session
    course: Course

    @property
    def schemas(self) -> Sequence[Mapping[str, Json]]:
        """Its tools, in the OpenAI function format."""
        return self.session.schemas()

    @property
    def instructions(self) -> str:
        """The first observation."""
        task = self.course.info.task
        return first_observation(task.instruction, self.session.world.world.policy, task.start).rendered

    async def call(self, name: str, arguments: Mapping[str, Json]) -> Answer:
        """Call one tool."""
        return await self._take({"type": "call_tool", "tool_name": name, "arguments": dict(arguments)})

    async def say(self, text: str) -> Answer:
        """Send a message."""
        return await self._take({"type": "message", "text": text})

    async def refuse(self, raw: str, reason: str) -> Answer:
        """Count output that holds no usable action."""
        return await self._take({"type": "malformed", "raw": raw, "reason": reason})

    async def _take(self, fields: dict[str, Any]) -> Answer:
        action = action_of(fields)
        async with self.session.turns:
            course = self.session.course
            if course is not self.course:  # this call waited, and was meant for the episode before
                raise EpisodeOver(self.course.end_cause)
            if course.done:
                raise _ended(course)
            try:
                reply = await self.session.answer("step", "", lambda: self.session.step(action))
            except Problem as problem:
                if kind := problem.facts.get("failure_kind"):
                    raise EpisodeFailed(str(kind)) from problem
                if problem.code is Code.SESSION_ERROR:
                    raise EpisodeOver("its lease was closed") from problem
                raise EpisodeBusy(problem.message) from problem
        seen, told = reply["observation"], reply["metadata"]
        if told["failure_kind"]:
            raise EpisodeFailed(told["failure_kind"])
        return Answer(seen["text"], seen["results"][0], seen["incoming"], told["end_cause"])


def _ended(course: Course) -> Exception:
    return EpisodeFailed(course.end_cause) if course.failed else EpisodeOver(course.end_cause)
