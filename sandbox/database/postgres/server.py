"""What is asked of a server as its administrator: names, databases made and dropped, roles, and the labels on all of it.

Only what carries our prefix and our labels is ever dropped. Labels stand as JSON in the comment of a database or role, so that `reap` can
tell the living owner's things from a dead one's, also on a server that others use.
"""

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Lock

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from wardian.sandbox.errors import DatabaseLost
from wardian.sandbox.labels import is_ours, labels_for

PREFIX = "wardian_"
CONNECT_S = 10
STATEMENT_S = 60
"""For a statement of the administrator."""
KEPT_CONNECTIONS = 8
"""Left to others of the server's `max_connections`."""
CREATES_AT_ONCE = 2
"""More make a server slower, not faster."""


@dataclass(slots=True)
class Logins:
    """Two users of this process: what tools write through, and what the agent's own SQL runs as."""

    tools: str
    agent: str
    password: str


@dataclass(slots=True)
class Server:
    """One Postgres server. Thread-safe; each administrative statement has a connection of its own or the shared one."""

    url: str
    """Of a user that may create databases and roles."""
    connections: BoundedSemaphore
    """One for each connection that we may hold."""
    version: int
    """As Postgres counts: 150020 is 15.20."""
    creates: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(CREATES_AT_ONCE))
    _admin: psycopg.Connection | None = None
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def open(cls, url: str) -> "Server":
        """Connect, and look what the server allows.

        Raises:
            DatabaseLost: it cannot be reached, or the user may not create databases and roles.
        """
        with connected(url) as connection:
            row = connection.execute(
                "SELECT current_setting('max_connections')::int - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),"
                " current_setting('server_version_num')::int, rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = current_user"
            ).fetchone()
        assert row is not None
        free, version, is_super, may_databases, may_roles = row
        if not (is_super or (may_databases and may_roles)):
            raise DatabaseLost(
                f"{shown(url)}: its user may not create databases and roles; give it CREATEDB and CREATEROLE, or another user"
            )
        if free - KEPT_CONNECTIONS < 4:
            raise DatabaseLost(f"{shown(url)}: only {free} connections are free; raise max_connections")
        return cls(url, BoundedSemaphore(free - KEPT_CONNECTIONS), version)

    def close(self) -> None:
        """Let go of the administrator's connection. Idempotent."""
        with self._lock:
            admin, self._admin = self._admin, None
            if admin is not None:
                admin.close()

    @contextmanager
    def admin(self) -> Iterator[psycopg.Connection]:
        """The administrator's connection to the maintenance database; one caller at a time. A lost one is made again.

        Raises:
            DatabaseLost: the server does not answer.
        """
        with self._lock:
            try:
                if self._admin is None or self._admin.closed:
                    self._admin = psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_S, options=OPTIONS)
                yield self._admin
            except psycopg.OperationalError as error:
                admin, self._admin = self._admin, None
                if admin is not None:
                    admin.close()
                raise lost(self.url, error) from error

    def url_of(self, database: str, user: str | None = None, password: str | None = None) -> str:
        """The connection string of a database of this server."""
        parts: dict[str, object] = {**conninfo_to_dict(self.url), "dbname": database}
        if user is not None:
            parts |= {"user": user, "password": password}
        return make_conninfo("", **parts)  # type: ignore[arg-type]

    def create(self, name: str, template: str, labels: Mapping[str, str]) -> None:
        """Make a database, labelled in the next statement.

        Raises:
            DatabaseLost: the server cannot; with its words.
        """
        with self.creates, self.admin() as admin:
            try:
                admin.execute(
                    sql.SQL(
                        "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY" if self.version >= 150000 else "CREATE DATABASE {} TEMPLATE {}"
                    ).format(sql.Identifier(name), sql.Identifier(template))
                )
                self._label(admin, "DATABASE", name, labels)
            except psycopg.Error as error:
                raise lost(self.url, error) from error

    def drop(self, name: str) -> None:
        """End all connections to a database of ours and drop it. One that is gone is fine.

        Raises:
            DatabaseLost: the server cannot, or does not answer.
        """
        if not name.startswith(PREFIX):
            raise ValueError(f"{name!r} is not of ours")
        with self.admin() as admin:
            try:
                admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
            except psycopg.Error as error:
                raise lost(self.url, error) from error

    def ours(self) -> dict[str, dict[str, str]]:
        """Labels of every database with our prefix, by name; empty ones where it has none of ours."""
        with self.admin() as admin:
            rows = admin.execute(
                "SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database WHERE starts_with(datname, %s)", (PREFIX,)
            ).fetchall()
        return {name: read_labels(comment) for name, comment in rows}

    def label(self, name: str, labels: Mapping[str, str]) -> None:
        """Write the labels of a database anew."""
        with self.admin() as admin:
            self._label(admin, "DATABASE", name, labels)

    @staticmethod
    def _label(admin: psycopg.Connection, what: str, name: str, labels: Mapping[str, str]) -> None:
        text = json.dumps(dict(labels), sort_keys=True)
        admin.execute(sql.SQL("COMMENT ON {} {} IS {}").format(sql.SQL(what), sql.Identifier(name), sql.Literal(text)))


OPTIONS = f"-c statement_timeout={STATEMENT_S * 1000} -c lock_timeout=30000 -c TimeZone=UTC -c client_min_messages=warning"


def episode_name() -> str:
    """A name for a clone; random, and short enough for every server."""
    return f"{PREFIX}e_{secrets.token_hex(8)}"


def template_name(key: str) -> str:
    """The name of a sealed template."""
    return f"{PREFIX}t_{key}"


def episode_labels() -> dict[str, str]:
    return labels_for("database")


def read_labels(comment: str | None) -> dict[str, str]:
    """The labels in a comment; empty where it holds none of ours."""
    try:
        found = json.loads(comment or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and is_ours(found) else {}


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection]:
    """A connection of one block, each statement by itself.

    Raises:
        DatabaseLost: the server does not answer, or went away.
    """
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_S, options=OPTIONS) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise lost(url, error) from error


def lost(url: str, error: psycopg.Error) -> DatabaseLost:
    """The error of a server that cannot serve, in words that say what to do."""
    state, words = error.sqlstate or "", " ".join(str(error).split())
    hints = {
        "53300": "; it has no connection left: raise max_connections, or use fewer cells",
        "53100": "; its disk is full",
        "53200": "; it is out of memory",
        "3D000": "; the template is gone and is made again at the next start",
    }
    return DatabaseLost(f"the database server {shown(url)}: {words}{hints.get(state, '')}")


def shown(url: str) -> str:
    """Where a server is, without its password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return "(unreadable URL)"
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
