"""A copy of a template on the server, and the connections to it. They end when nobody holds it any more, and then it is dropped."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import psycopg

from wardian.sandbox.database.postgres.keeper import Keeper
from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.database.postgres.problems import shown
from wardian.sandbox.database.postgres.server import PREFIX, Server
from wardian.sandbox.errors import DatabaseLost

PLACE_S = 300.0
"""How long a clone waits for its place; as long as an episode waits for its cell."""


@dataclass(slots=True, eq=False)
class Copy:
    """One database of ours. Holders are its clone, and every frozen copy that has a snapshot of it."""

    server: Server
    name: str
    link: Link
    """The clone's own connection."""
    keeper: Keeper[Any] | None
    """Who ends its connections and drops it; `None`: done at once."""
    holders: int = 1
    idle: list[Link] = field(default_factory=list)
    """Connections that nobody uses."""
    lock: RLock = field(default_factory=RLock)

    @classmethod
    def make(
        cls, server: Server, template: str, keeper: Keeper[Any] | None, check: Callable[[Link], None], wait_s: float = PLACE_S
    ) -> "Copy":
        """Make, connect and check one; waits for its place among the server's connections.

        Raises:
            DatabaseLost: the server does not answer or cannot go on, or no place became free in `wait_s`.
            TemplateBroken: it is not what was sealed.
        """
        if not _placed(server, keeper, wait_s):
            raise DatabaseLost(
                f"the database server {shown(server.url)}: no clone ended in {wait_s:g} s, and its {server.connections} connections"
                " are enough for no more of them; raise max_connections, or use fewer cells"
            )
        name = server.episode_name(PREFIX)
        try:
            link = _made(server, name, template)
        except BaseException:
            server.places.release()
            raise
        copy = cls(server, name, link, keeper)
        try:
            check(link)
        except psycopg.Error as error:
            copy.close()
            raise DatabaseLost(str(error)) from error
        except BaseException:
            copy.close()
            raise
        return copy

    def answers(self) -> bool:
        """Whether its connection still works."""
        try:
            self.link.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def reader(self) -> Link:
        """A further connection, which `give_back` or `lose` ends the use of.

        Raises:
            DatabaseLost: the server has none to give.
        """
        with self.lock:
            found = self.idle.pop() if self.idle else self.server.connect(self.name)
            self.holders += 1
            return found

    def give_back(self, link: Link) -> None:
        """End the use of a reader: its transaction is over, and another snapshot may have it."""
        with self.lock:
            try:
                link.execute("ROLLBACK")
                self.idle.append(link)
            except psycopg.Error:
                self.server.disconnect(link)
            self.release()

    def close(self) -> None:
        """The clone is done with it. Once."""
        with self.lock:
            if self.holders == 1:
                self.idle.append(self.link)
            else:
                self.server.disconnect(self.link)  # frozen copies go on, and need no place for it
            self.release()

    def release(self) -> None:
        """One holder fewer; with the last one the connections end, and the database goes."""
        with self.lock:
            self.holders -= 1
            if self.holders:
                return
        if self.keeper is None:
            self._leave()
        else:
            self.keeper.end(self._leave)

    def _leave(self) -> None:
        while self.idle:
            self.server.disconnect(self.idle.pop())
        self.server.places.release()
        if self.keeper is None:
            self._drop()
        else:
            self.keeper.later(self._drop)

    def _drop(self) -> None:
        with suppress(DatabaseLost):  # gone with its server; else `reap` finds it
            self.server.drop(self.name)


def _made(server: Server, name: str, template: str) -> Link:
    server.create(name, template)
    try:
        return server.connect(name)
    except DatabaseLost:
        server.drop(name)
        raise


def _placed(server: Server, keeper: Keeper[Any] | None, wait_s: float) -> bool:
    if server.places.acquire(blocking=False):
        return True
    if keeper is not None:
        keeper.hurry()
    return server.places.acquire(timeout=wait_s)
