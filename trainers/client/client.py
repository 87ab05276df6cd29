"""The client and its leases, for `await`."""

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from wardian.trainers.client.errors import CapacityReached, ResetFailed
from wardian.trainers.client.link import Link, Server
from wardian.trainers.client.turns import Turn, failed_turn, turn_of

_log = logging.getLogger(__name__)
WAIT_S = 60.0
"""How long a reset asks again while no cell is free."""


@dataclass(slots=True)
class Session:
    """A lease: one episode at a time. `async with` closes it at the end."""

    link: Link
    client: "Client" = field(repr=False, compare=False)
    last: Turn | None = None
    """What the latest reset or step gave."""

    @property
    def name(self) -> str:
        """Of the lease; another process may take it up by that name."""
        return self.link.name

    async def reset(
        self,
        task_id: str | None = None,
        *,
        seed: int | None = None,
        split: str | None = None,
        index: int | None = None,
        policy_version: str | None = None,
        episode_id: str | None = None,
        snapshot: str | None = None,
        wait_s: float = WAIT_S,
    ) -> Turn:
        """Begin an episode of `task_id`, of the task at `index` of `split`, or of the next one in the server's list.

        `seed` is that of events and faults; `snapshot` the key of a state to begin from. Asks again for `wait_s` seconds while no cell
        is free.

        Raises:
            Refused: there is no such task, or it is of a split that is not served.
            CapacityReached: no cell became free in time.
            ResetFailed: the episode could not begin, through the server's fault.
            SessionLost, Unreachable: as `step`.
        """
        asked = {
            "task_id": task_id,
            "seed": seed,
            "split": split,
            "index": index,
            "policy_version": policy_version,
            "episode_id": episode_id,
            "injected_state": {"snapshot": snapshot} if snapshot else None,
        }
        data = {name: value for name, value in asked.items() if value is not None}
        self.last = turn_of(await asked_again(wait_s, lambda: self.link.call("reset", data)))
        return self.last

    async def step(self, action: dict[str, Any]) -> Turn:
        """Take one turn; see the server's `/schema` for actions. What failed through the server is a turn with `failure_kind`.

        Raises:
            Refused: it is no action.
            ServerError: no episode runs.
            SessionLost: the lease has ended.
            Unreachable: the server is gone.
        """
        try:
            self.last = turn_of(await self.link.call("step", action))
        except ResetFailed as failed:
            self.last = failed_turn({"message": str(failed), **failed.facts}, self.last)
        return self.last

    async def call(self, tool: str, arguments: dict[str, Any] | str | None = None, *, sample: dict[str, Any] | None = None) -> Turn:
        """Call one tool. `arguments` may be the model's own text. `sample` is what the model gave along: tokens, log-probabilities."""
        return await self.step(_with({"type": "call_tool", "tool_name": tool, "arguments": arguments or {}}, sample))

    async def say(self, text: str, *, sample: dict[str, Any] | None = None) -> Turn:
        """Send a message."""
        return await self.step(_with({"type": "message", "text": text}, sample))

    async def complete(self, text: str, format: str = "tags", *, sample: dict[str, Any] | None = None) -> Turn:
        """Take what a model wrote: calls in that format, or else a message. Formats: `json`, `tags`, `mistral`, `invoke`."""
        return await self.step(_with({"type": "completion", "text": text, "format": format}, sample))

    async def state(self) -> dict[str, Any]:
        """The lease and its episode."""
        return await self.link.call("state")

    async def heartbeat(self) -> None:
        """Say that the lease is in use. A lease with an open socket needs none."""
        await self.link.call("heartbeat")

    async def snapshot(self) -> str:
        """Keep the whole state on the server; gives its key."""
        return str((await self.link.call("snapshot"))["snapshot"])

    async def restore(self, snapshot: str) -> Turn:
        """Go on from a state that the server keeps, whichever lease it is of."""
        self.last = turn_of(await self.link.call("restore", {"snapshot": snapshot}))
        return self.last

    async def fork(self, count: int) -> "list[Session]":
        """Make `count` leases whose episodes go on from here. Close each."""
        made = (await self.link.call("fork", {"count": count}))["sessions"]
        link = self.link
        links = [Link(link.server, one["session_id"], link.world, link.policy_version, made=True) for one in made]
        return [self.client._noted(Session(one, self.client, last=self.last)) for one in links]

    async def close(self) -> None:
        """End the lease. Idempotent."""
        await self.link.close()
        self.client._made.pop(id(self), None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.shield(self.close())


@dataclass(slots=True)
class Client:
    """One server. `async with wardian.connect(url) as client`."""

    server: Server
    _made: dict[int, Session] = field(default_factory=dict)
    """Those to close; several threads of a blocking client add to it."""

    async def info(self) -> dict[str, Any]:
        """Worlds, splits and what the server can do."""
        found: dict[str, Any] = await self.server.ask("GET", "/metadata")
        return found

    async def tools(self, world: str | None = None) -> list[dict[str, Any]]:
        """All tools of a world, in the OpenAI format."""
        found: list[dict[str, Any]] = (await self.server.ask("GET", f"/{await self._world(world)}/tools"))["tools"]
        return found

    async def splits(self, world: str | None = None) -> list[str]:
        """Those that are served."""
        return [one["name"] for one in await self.server.ask("GET", f"/{await self._world(world)}/splits")]

    async def num_tasks(self, split: str = "train", world: str | None = None) -> int:
        """How many tasks a split lists."""
        return int((await self.server.ask("POST", f"/{await self._world(world)}/num_tasks", {"split": split}))["num_tasks"])

    async def tasks(
        self, split: str = "train", start: int | None = None, stop: int | None = None, world: str | None = None
    ) -> list[dict[str, Any]]:
        """Tasks by their place in the list: `index`, `split`, `task_id`, `family`, `difficulty`, `seed`."""
        asked = {"split": split, "start": start, "stop": stop}
        found: list[dict[str, Any]] = (await self.server.ask("POST", f"/{await self._world(world)}/task_range", asked))["tasks"]
        return found

    async def counters(self) -> dict[str, Any]:
        """What happened on the server."""
        found: dict[str, Any] = await self.server.ask("GET", "/counters")
        return found

    def session(self, name: str | None = None, *, world: str | None = None, policy_version: str = "", attach: bool = False) -> Session:
        """A lease, made at its first call; one of that name is taken up where it is there already.

        With `attach` it must be there, and an older socket of it is let go of.
        """
        link = Link(self.server, name or f"s-{secrets.token_hex(12)}", world, policy_version, made=attach)
        return self._noted(Session(link, self))

    async def lease(self, name: str | None = None, *, world: str | None = None, policy_version: str = "") -> dict[str, Any]:
        """Make a lease without a socket, for an agent program: `session_id`, `policy_token` and `mcp_path` of its tool server."""
        body = {"session_id": name, "world": world, "policy_version": policy_version}
        found: dict[str, Any] = await self.server.ask("POST", "/sessions", {key: value for key, value in body.items() if value})
        return found

    async def release(self, name: str) -> bool:
        """End a lease by its name; whether there was one."""
        return bool((await self.server.ask("DELETE", f"/sessions/{name}"))["closed"])

    async def group(
        self,
        size: int,
        task_id: str | None = None,
        *,
        seed: int | None = None,
        split: str | None = None,
        index: int | None = None,
        world: str | None = None,
        policy_version: str = "",
        wait_s: float = WAIT_S,
    ) -> list[tuple[Session, Turn]]:
        """Make `size` leases and reset them all to one task, in one request. Close each.

        Raises:
            Refused: so many can never be had, or there is no such task.
            CapacityReached: they did not become free in time.
        """
        asked = {"size": size, "task_id": task_id, "seed": seed, "split": split, "index": index, "world": world}
        body = {name: value for name, value in {**asked, "policy_version": policy_version}.items() if value is not None}
        made = (await asked_again(wait_s, lambda: self.server.ask("POST", "/groups", body)))["group"]
        found = []
        for one in made:
            first = turn_of(one["first"])
            link = Link(self.server, one["session_id"], world, policy_version, made=True)
            found.append((self._noted(Session(link, self, last=first)), first))
        return found

    async def close(self) -> None:
        """End all leases that were made here, and the connections. Idempotent."""
        made = [self._made.popitem()[1] for _ in range(len(self._made))]
        await asyncio.gather(*(session.close() for session in made))
        await self.server.close()

    def _noted(self, session: Session) -> Session:
        self._made[id(session)] = session
        return session

    async def _world(self, world: str | None) -> str:
        return world or str((await self.server.ask("GET", "/list_environments"))[0])


async def asked_again(wait_s: float, call: Any) -> Any:
    """Call until it is not answered by a lack of room, or the time is up."""
    until, told = time.monotonic() + wait_s, False
    while True:
        try:
            return await call()
        except CapacityReached as full:
            if time.monotonic() + full.retry_after_s > until:
                raise
            if not told:
                _log.info("%s; asking again for up to %g s", full, wait_s)
            told = True
            await asyncio.sleep(full.retry_after_s)


def _with(action: dict[str, Any], sample: dict[str, Any] | None) -> dict[str, Any]:
    return action if sample is None else {**action, "sample": sample}
