"""One Postgres server, as its administrator sees it: databases made and dropped, logins, connections counted, and labels on all of it.

Only what carries our prefix and our labels is ever dropped.
"""

import logging
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Lock
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from wardian.sandbox.database.postgres.facts import KEPT_CONNECTIONS, ZONES, facts_of
from wardian.sandbox.database.postgres.labelling import labelling, labels_in
from wardian.sandbox.database.postgres.links import ADMIN, SESSION, Link, connected, opened
from wardian.sandbox.database.postgres.problems import lost, shown
from wardian.sandbox.database.postgres.roles import AGENTS, CLONES, GROUP, GROUPS, OWNER, TOOLS, drop_role, ensure_group, ensure_login
from wardian.sandbox.errors import DatabaseLost
from wardian.sandbox.labels import KIND, is_ours, labels_for
from wardian.sandbox.reap import ReapReport, is_orphan

_log = logging.getLogger(__name__)
PREFIX = "wardian_"
OWNER_RESTORES = 150000
"""From this version on who works in a clone may be allowed to put rows back without a look at foreign keys; before, only a superuser is."""
LINKS_OF_A_CLONE = 3
"""Its own connection, and those of a lagging replica and a verifier."""
WAIT_S = 30.0
"""How long a caller waits for one of our connections to become free, or for the server to have one."""
RETRY_S = 0.1
NO_CONNECTION = "53300"
CROWDED = 3
"""With fewer connections free at this moment, a connection was refused for that reason."""


@dataclass(slots=True)
class Server:
    """A server and this process's logins on it. Thread-safe."""

    url: str
    """Of a superuser: the walls of a template are made of rights that only one can take away."""
    version: int
    """As Postgres counts: 150020 is 15.20."""
    connections: int
    """How many we may hold at once."""
    room_bytes: int | None
    """How much all databases may take; `None` where it is not known."""
    login: str
    """Of who makes templates, and owns what is in them."""
    worker: str
    """Of who works in clones, and lets tools and agents work: what they call must not find a way to what its owner may."""
    password: str
    """Of both."""
    _free: BoundedSemaphore
    places: BoundedSemaphore
    """One for each copy, so that enough connections are left for those who look at copies."""
    options: str = SESSION
    """Of a clone's connections; no role of a clone may change them."""
    _admin: Link | None = None
    _lock: Lock = field(default_factory=Lock)
    _held: set[Link] = field(default_factory=set)
    """Connections that `connect` gave and `disconnect` has not taken back."""
    _counted: Lock = field(default_factory=Lock)
    made: dict[str, str] = field(default_factory=dict)
    """Databases that were made and not dropped yet, and what each is a copy of."""

    @staticmethod
    def episode_name(prefix: str) -> str:
        """A name for a copy: random, and short enough for every server."""
        return f"{prefix}e_{secrets.token_hex(8)}"

    @classmethod
    def open(cls, url: str, room_bytes: int | None = None, *, prepare: bool = True) -> "Server":
        """Connect, look what the server allows, drop what dead runs left, and make this process's login.

        `room_bytes` is how much all databases may take, where that is known. Without `prepare` nothing on the server is changed.

        Raises:
            DatabaseLost: it cannot be reached, is too old, or its user is no superuser.
        """
        with connected(url) as link:
            facts = facts_of(link)
        if problem := facts.problem():
            raise DatabaseLost(f"the database server {shown(url)}: {problem}")
        number, free = secrets.token_hex(8), facts.connections
        login, worker = f"{PREFIX}r_{number}", f"{PREFIX}w_{number}"
        places = BoundedSemaphore(max(1, free // LINKS_OF_A_CLONE))
        server = cls(url, facts.version, free, room_bytes, login, worker, secrets.token_hex(24), BoundedSemaphore(free), places)
        if facts.without_now:
            server.options += f" -c timezone_abbreviations={ZONES}"
        if server.version >= OWNER_RESTORES:
            server.options += " -c session_replication_role=origin"  # a function of an import may have said otherwise for its login
        if prepare:
            try:
                server.prepare()
            except BaseException:
                server.close()
                raise
        return server

    def prepare(self) -> None:
        """Make the roles, where the server lacks them; again after it was replaced by an empty one."""
        reap_server(self)
        with self.admin() as admin:
            for name in GROUPS:
                ensure_group(admin, name)
            if self.version >= OWNER_RESTORES:
                admin.execute(f"GRANT SET ON PARAMETER session_replication_role TO {CLONES}".encode())
            ensure_login(admin, self.login, self.password, (OWNER, CLONES, TOOLS, AGENTS))
            ensure_login(admin, self.worker, self.password, (CLONES, TOOLS, AGENTS))

    def moved(self, url: str) -> None:
        """Another server, an empty one, took the place of this: make our roles there. One that is lost again has a successor too."""
        with self._lock:
            if self._admin is not None:
                self._admin.close()
            self.url, self._admin = url, None
            self.made.clear()
        try:
            self.prepare()
        except (DatabaseLost, psycopg.Error):
            _log.warning("the database server %s, a successor, is lost before it was prepared", shown(url))

    def close(self) -> None:
        """Drop the logins and let go of the server. Idempotent; a server that is gone is fine."""
        try:
            with self.admin() as admin:
                for login in (self.worker, self.login):
                    admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(login)))
        except (DatabaseLost, psycopg.Error):
            pass  # gone with the server, or still in use: then `reap` finds it
        with self._lock:
            admin_link, self._admin = self._admin, None
            if admin_link is not None:
                admin_link.close()

    @contextmanager
    def admin(self) -> Iterator[Link]:
        """The administrator's connection to the maintenance database; one caller at a time. A lost one is made again.

        Raises:
            DatabaseLost: the server does not answer, or cannot do it.
        """
        with self._lock:
            try:
                if self._admin is None or self._admin.closed:
                    self._admin = opened(self.url, ADMIN)
                yield self._admin
            except psycopg.OperationalError as error:
                if self._admin is not None and self._admin.closed:
                    self._admin = None
                raise lost(self.url, error) from error

    def url_of(self, database: str, *, as_login: bool = False, as_worker: bool = False) -> str:
        """The connection string of a database of this server: the administrator's, or that of one of our logins."""
        parts: dict[str, Any] = {**conninfo_to_dict(self.url), "dbname": database}
        if as_login or as_worker:
            parts |= {"user": self.worker if as_worker else self.login, "password": self.password}
        return make_conninfo("", **parts)

    def connect(self, database: str) -> Link:
        """A connection of who works in clones; waits for a free one. Give it to `disconnect`.

        Raises:
            DatabaseLost: none became free in time, or the server does not answer.
        """
        if not self._free.acquire(timeout=WAIT_S):
            raise DatabaseLost(
                f"the database server {shown(self.url)}: all {self.connections} connections are in use;"
                " raise max_connections, or use fewer cells"
            )
        try:
            link = self._connected(self.url_of(database, as_worker=True))
        except BaseException:
            self._free.release()
            raise
        with self._counted:
            self._held.add(link)
        return link

    def _connected(self, url: str) -> Link:
        until, admitted = time.monotonic() + WAIT_S, False
        while True:
            try:
                return opened(url, self.options, prepare_threshold=None)
            except psycopg.OperationalError as error:
                if not admitted:
                    self.admit()
                    admitted = True
                    continue
                if not self._crowded():
                    raise lost(self.url, error) from error
                if time.monotonic() > until:
                    raise lost(self.url, error, NO_CONNECTION) from error
                time.sleep(RETRY_S)

    def admit(self) -> None:
        """Give our logins their passwords again: a function of an import may have set others.

        Logins that are gone are made again: a successor of the server has none of ours, though it may have the template already, by
        another process.

        Raises:
            DatabaseLost: the server does not answer.
        """
        try:
            with self.admin() as admin:
                for login in (self.login, self.worker):
                    admin.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(login), sql.Literal(self.password)))
        except psycopg.errors.UndefinedObject:
            self.prepare()
        except psycopg.Error as error:
            raise lost(self.url, error) from error

    def _crowded(self) -> bool:
        """Whether others hold the connections that were free when we counted. A refusal of a connection has words and no code."""
        with self.admin() as admin:
            return facts_of(admin).connections < CROWDED - KEPT_CONNECTIONS

    def disconnect(self, link: Link) -> None:
        """Close a connection of `connect`. Idempotent."""
        link.close()
        with self._counted:
            if link not in self._held:
                return
            self._held.discard(link)
        self._free.release()

    def create(self, name: str, template: str) -> None:
        """Make a database of `template`, closed to others. What a template's grants and comment say does not come with a copy.

        No transaction makes and labels one. Until it has its own label its owner is our login, which has one.

        Raises:
            DatabaseLost: the server cannot; with its words.
        """
        try:
            self._create(name, template)
        except psycopg.errors.UndefinedObject:  # a successor of the server, which has the template by another process, lacks our login
            self.prepare()
            self._create(name, template)

    def _create(self, name: str, template: str) -> None:
        strategy = " STRATEGY FILE_COPY" if self.version >= 150000 and template != "template0" else ""
        plain = " ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'" if template == "template0" else ""
        make = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {}" + plain + strategy)
        with self.admin() as admin:
            try:
                self.made[name] = template
                admin.execute(make.format(*map(sql.Identifier, (name, self.login, template))))
                marks = (
                    "{}; ALTER DATABASE {name} OWNER TO CURRENT_USER; REVOKE ALL ON DATABASE {name} FROM PUBLIC;"
                    " GRANT CONNECT ON DATABASE {name} TO {}, {}"
                )
                label = labelling("DATABASE", name, labels_for("database"))
                admin.execute(sql.SQL(marks).format(label, *map(sql.Identifier, (OWNER, CLONES)), name=sql.Identifier(name)))
            except psycopg.errors.UndefinedObject:
                raise
            except psycopg.Error as error:
                raise lost(self.url, error) from error

    def drop(self, name: str) -> None:
        """End all connections to a database of ours and drop it. One that is gone is fine.

        Raises:
            DatabaseLost: the server cannot, or does not answer.
        """
        if not name.startswith(PREFIX):
            raise ValueError(f"{name!r} is not of ours")
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        with self.admin() as admin:
            try:
                try:
                    admin.execute(drop)
                except psycopg.errors.WrongObjectType:  # a template must be none first
                    admin.execute(sql.SQL("ALTER DATABASE {} IS_TEMPLATE false").format(sql.Identifier(name)))
                    admin.execute(drop)
            except psycopg.Error as error:
                raise lost(self.url, error) from error
        self.made.pop(name, None)

    def seal(self, name: str, final: str, mark: Mapping[str, Any]) -> None:
        """Rename a built database, close it to connections, and write the ready mark last.

        Raises:
            DatabaseLost: the server cannot.
        """
        with self.admin() as admin:
            try:
                admin.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(name), sql.Identifier(final)))
                admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false IS_TEMPLATE true").format(sql.Identifier(final)))
                admin.execute(labelling("DATABASE", final, {**labels_for("database template"), **mark}))
            except psycopg.Error as error:
                raise lost(self.url, error) from error
        self.made.pop(name, None)

    def size_of(self, name: str) -> int:
        """Bytes of a database; 0 when there is none."""
        with self.admin() as admin:
            row = admin.execute("SELECT pg_database_size(oid) FROM pg_database WHERE datname = %s", (name,)).fetchone()
        return int(row[0]) if row else 0

    def comment_of(self, name: str) -> dict[str, Any] | None:
        """What is written on a database of ours; empty where it is nothing of ours; `None` when there is no such database."""
        with self.admin() as admin:
            row = admin.execute("SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s", (name,)).fetchone()
        return None if row is None else labels_in(row[0])

    def ours(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Labels of every database and login with our prefix, by (`DATABASE` or `ROLE`, name); empty ones where it has none of ours."""
        with self.admin() as admin:
            rows = admin.execute(
                "SELECT 'DATABASE', datname, coalesce(shobj_description(oid, 'pg_database'), shobj_description(datdba, 'pg_authid'))"
                " FROM pg_database WHERE starts_with(datname, %(prefix)s)"
                " UNION ALL SELECT 'ROLE', rolname, shobj_description(oid, 'pg_authid') FROM pg_roles"
                " WHERE starts_with(rolname, %(prefix)s)",
                {"prefix": PREFIX},
            ).fetchall()
        return {(what, name): labels_in(comment) for what, name, comment in rows}

    @contextmanager
    def building(self, key: str) -> Iterator[None]:
        """Keep other processes from building the same template: a lock that ends with its connection.

        Raises:
            DatabaseLost: the server does not answer.
        """
        with connected(self.url) as link:
            link.execute("SET statement_timeout = 0")
            link.execute("SET lock_timeout = 0")
            link.execute("SELECT pg_advisory_lock(%s)", (int(key[:15], 16),))
            yield


def reap_server(server: Server, *, everything: bool = False, older_than_s: float | None = None, dry_run: bool = False) -> ReapReport:
    """Drop databases and logins of ours whose owner is dead; see `wardian.sandbox.reap.reap`. Idempotent.

    Groups are nobody's: they go with `everything` alone.

    Raises:
        DatabaseLost: the server could not even list what it has.
    """
    removed, kept, problems = [], [], []
    for (what, name), labels in sorted(server.ours().items()):
        if not is_ours(labels):
            continue
        line = f"{what.lower()} {name} on {shown(server.url)}"
        if not everything and (labels[KIND] == GROUP or not is_orphan(labels, older_than_s)):
            kept.append(line)
            continue
        if dry_run:
            removed.append(line)
            continue
        try:
            if what == "DATABASE":
                server.drop(name)
            else:
                with server.admin() as admin:
                    drop_role(admin, name)
        except psycopg.errors.UndefinedObject:
            continue  # another process was faster
        except (DatabaseLost, psycopg.Error) as error:
            problems.append(f"{line}: {error}")
        else:
            removed.append(line)
    return ReapReport(tuple(removed), tuple(kept), tuple(problems))
