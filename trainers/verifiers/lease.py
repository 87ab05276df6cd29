"""A lease that several processes use by its name, each call by itself: the hooks of a rollout here, its tool server there."""

import asyncio
import secrets
from dataclasses import dataclass
from typing import Any

from wardian.trainers.client import Client, ResetFailed, SessionBusy, Turn, Unreachable
from wardian.trainers.client.client import asked_again
from wardian.trainers.client.turns import failed_turn, turn_of

AGAIN_S = (0.2, 1.0, 3.0)
"""After a lost connection a call is made again with its id, and the server does it once."""


@dataclass(frozen=True, slots=True)
class Lease:
    client: Client
    name: str

    async def make(self, world: str, policy_version: str, wait_s: float) -> float:
        """Make it, or find it made; gives after how many seconds without use it lapses. Asks for `wait_s` seconds while there is no room.

        Raises:
            CapacityReached: there was no room in all that time.
            ServerError: as `Client.lease`.
        """
        made = await asked_again(wait_s, lambda: self.client.lease(self.name, world=world, policy_version=policy_version))
        return float(made["ttl_s"])

    async def reset(self, task_id: str, seed: int, wait_s: float) -> Turn:
        """Begin the episode. Asks for `wait_s` seconds while no cell is free.

        Raises:
            ServerError: as `Session.reset`.
        """
        return turn_of(await asked_again(wait_s, lambda: self._call("reset", {"task_id": task_id, "seed": seed})))

    async def step(self, action: dict[str, Any]) -> Turn:
        """Take a step; waits for one that is still under way, such as a call of a program that was ended.

        Raises:
            ServerError: as `Session.step`.
        """
        while True:
            try:
                return turn_of(await self._call("step", {"action": action}))
            except ResetFailed as failed:
                return failed_turn({"message": str(failed), **failed.facts}, None)
            except SessionBusy as busy:
                await asyncio.sleep(float(busy.facts.get("retry_after_s", 1.0)))

    async def heartbeat(self) -> None:
        """Say that it is in use.

        Raises:
            ServerError: it has ended, or the server does not answer.
        """
        await self._call("heartbeat", {})

    async def close(self) -> None:
        """End it and its episode. Idempotent.

        Raises:
            ServerError: the server does not answer; then it lapses.
        """
        await self.client.release(self.name)

    async def _call(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        marked = {**body, "id": secrets.token_hex(8)}
        for wait_s in AGAIN_S:
            try:
                return await self._ask(kind, marked)
            except Unreachable:
                await asyncio.sleep(wait_s)
        return await self._ask(kind, marked)

    async def _ask(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = await self.client.server.ask("POST", f"/sessions/{self.name}/{kind}", body)
        return found
