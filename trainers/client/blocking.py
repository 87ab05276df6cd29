"""The client without `await`: the same calls, run in an event loop in a thread of its own. Safe to use from several threads."""

from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from wardian.trainers.client.client import WAIT_S, Client, Session
from wardian.trainers.client.errors import Unreachable
from wardian.trainers.client.turns import Turn
from wardian.trainers.held import Held


@dataclass(slots=True)
class BlockingSession:
    """As `Session`; `with` closes it at the end."""

    inner: Session
    held: Held[Client]

    @property
    def name(self) -> str:
        """Of the lease."""
        return self.inner.name

    @property
    def last(self) -> Turn | None:
        """What the latest reset or step gave."""
        return self.inner.last

    def reset(
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
        """See `Session.reset`."""
        return self.held.call(
            partial(
                self.inner.reset,
                task_id,
                seed=seed,
                split=split,
                index=index,
                policy_version=policy_version,
                episode_id=episode_id,
                snapshot=snapshot,
                wait_s=wait_s,
            )
        )

    def step(self, action: dict[str, Any]) -> Turn:
        """See `Session.step`."""
        return self.held.call(self.inner.step, action)

    def call(self, tool: str, arguments: dict[str, Any] | str | None = None, *, sample: dict[str, Any] | None = None) -> Turn:
        """See `Session.call`."""
        return self.held.call(partial(self.inner.call, tool, arguments, sample=sample))

    def say(self, text: str, *, sample: dict[str, Any] | None = None) -> Turn:
        """See `Session.say`."""
        return self.held.call(partial(self.inner.say, text, sample=sample))

    def complete(self, text: str, format: str = "tags", *, sample: dict[str, Any] | None = None) -> Turn:
        """See `Session.complete`."""
        return self.held.call(partial(self.inner.complete, text, format, sample=sample))

    def state(self) -> dict[str, Any]:
        """See `Session.state`."""
        return self.held.call(self.inner.state)

    def heartbeat(self) -> None:
        """See `Session.heartbeat`."""
        self.held.call(self.inner.heartbeat)

    def snapshot(self) -> str:
        """See `Session.snapshot`."""
        return self.held.call(self.inner.snapshot)

    def restore(self, snapshot: str) -> Turn:
        """See `Session.restore`."""
        return self.held.call(self.inner.restore, snapshot)

    def fork(self, count: int) -> "list[BlockingSession]":
        """See `Session.fork`."""
        return [BlockingSession(one, self.held) for one in self.held.call(self.inner.fork, count)]

    def close(self) -> None:
        """See `Session.close`. Harmless after the client was closed."""
        try:
            self.held.call(self.inner.close)
        except (RuntimeError, CancelledError, Unreachable):
            return  # with its client, which ended all of its leases

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@dataclass(slots=True)
class BlockingClient:
    """As `Client`. `with wardian.connect(url) as client`."""

    held: Held[Client]

    def info(self) -> dict[str, Any]:
        """See `Client.info`."""
        return self.held.call(self.held.value.info)

    def tools(self, world: str | None = None) -> list[dict[str, Any]]:
        """See `Client.tools`."""
        return self.held.call(self.held.value.tools, world)

    def splits(self, world: str | None = None) -> list[str]:
        """See `Client.splits`."""
        return self.held.call(self.held.value.splits, world)

    def num_tasks(self, split: str = "train", world: str | None = None) -> int:
        """See `Client.num_tasks`."""
        return self.held.call(self.held.value.num_tasks, split, world)

    def tasks(
        self, split: str = "train", start: int | None = None, stop: int | None = None, world: str | None = None
    ) -> list[dict[str, Any]]:
        """See `Client.tasks`."""
        return self.held.call(self.held.value.tasks, split, start, stop, world)

    def counters(self) -> dict[str, Any]:
        """See `Client.counters`."""
        return self.held.call(self.held.value.counters)

    def session(
        self, name: str | None = None, *, world: str | None = None, policy_version: str = "", attach: bool = False
    ) -> BlockingSession:
        """See `Client.session`."""
        made = self.held.value.session(name, world=world, policy_version=policy_version, attach=attach)
        return BlockingSession(made, self.held)

    def lease(self, name: str | None = None, *, world: str | None = None, policy_version: str = "") -> dict[str, Any]:
        """See `Client.lease`."""
        return self.held.call(partial(self.held.value.lease, name, world=world, policy_version=policy_version))

    def release(self, name: str) -> bool:
        """See `Client.release`."""
        return self.held.call(self.held.value.release, name)

    def group(
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
    ) -> list[tuple[BlockingSession, Turn]]:
        """See `Client.group`."""
        made = self.held.call(
            partial(
                self.held.value.group,
                size,
                task_id,
                seed=seed,
                split=split,
                index=index,
                world=world,
                policy_version=policy_version,
                wait_s=wait_s,
            )
        )
        return [(BlockingSession(session, self.held), turn) for session, turn in made]

    def close(self) -> None:
        """See `Client.close`. Idempotent."""
        self.held.close()
