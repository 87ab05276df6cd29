"""A copy of a template on the server, and the connections to it. It is dropped when nobody holds it any more."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock

import psycopg

from wardian.sandbox.database.postgres.problems import shown
from wardian.sandbox.database.postgres.server import PREFIX, Link, Server
from wardian.sandbox.errors import DatabaseLost

Later = Callable[[Callable[[], None]], None]
PLACE_S = 300.0
"""How long a clone waits for its place; as long as an episode waits for its cell."""


@dataclass(slots=True, eq=False)
class Copy:
    """One database of ours. Holders are its clone, and every frozen copy that has a snapshot of it."""

    server: Server
    name: str
    link: Link
    """The clone's own connection."""
    later: Later | None
    """Where the drop goes; `None`: done at once."""
    holders: int = 1
    idle: list[Link] = field(default_factory=list)
    """Readers that no snapshot uses."""
    lock: RLock = field(default_factory=RLock)

    @classmethod
    def make(cls, server: Server, template: str, later: Later | None, check: Callable[[Link], None], wait_s: float = PLACE_S) -> "Copy":
        """Make, connect and check one; waits for its place among the server's connections.

        Raises:
            DatabaseLost: the server does not answer or cannot go on, or no place became free in `wait_s`.
            TemplateBroken: it is not what was sealed.
        """
        if not server.places.acquire(timeout=wait_s):
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
        copy = cls(server, name, link, later)
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
        self.server.disconnect(self.link)
        self.release()

    def release(self) -> None:
        """One holder fewer; with the last one the database goes."""
        with self.lock:
            self.holders -= 1
            if self.holders:
                return
            while self.idle:
                self.server.disconnect(self.idle.pop())
        self.server.places.release()
        if self.later is None:
            self._drop()
        else:
            self.later(self._drop)

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
