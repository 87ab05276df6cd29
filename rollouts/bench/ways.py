"""The usual ways to a fresh database on Postgres, on the same server and with the same rows: for comparison."""

import subprocess
from dataclasses import dataclass, field

import psycopg
from sqlalchemy import MetaData
from sqlalchemy.orm import Session

from wardian.rollouts.bench.samples import Samples
from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.postgres.building import schema_statements
from wardian.sandbox.database.postgres.capture import make_types
from wardian.sandbox.database.postgres.cells import quoted
from wardian.sandbox.database.postgres.dialect import PostgresEngine
from wardian.sandbox.database.postgres.links import Link, connected
from wardian.sandbox.database.postgres.server import Server

LARGE_BYTES = 100_000_000
DUMP = "pg_dump -U postgres {0} | psql -q -o /dev/null -U postgres -v ON_ERROR_STOP=1 {1}"


@dataclass(slots=True)
class UsualWays:
    """One world's schema and rows in a plain database of its own, and ways to have them again."""

    source: TemplateSource
    server: Server
    container: str
    name: str
    engine: PostgresEngine
    rounds_left: int | None = None
    """So many rounds are measured; `None`: all."""
    samples: dict[str, Samples] = field(default_factory=dict)

    @classmethod
    def prepare(cls, source: TemplateSource, server: Server, container: str, large_rounds: int) -> "UsualWays":
        """Make the plain database, and a copy of its rows beside them. The server is thrown away after use."""
        with connected(server.url) as link:
            engine = PostgresEngine(link)
        ways = cls(source, server, container, f"bench_{source.name}_{source.seed}", engine)
        ways._seeded(ways.name)
        if server.size_of(ways.name) > LARGE_BYTES:
            ways.rounds_left = large_rounds
        return ways

    def round(self) -> None:
        """Each way once."""
        if self.rounds_left == 0:
            return
        if self.rounds_left is not None:
            self.rounds_left -= 1
        with self._sample("migrate and seed per episode"):
            self._seeded("bench_again")
        with self._sample("pg_dump | psql"):
            self._execute("DROP DATABASE bench_again WITH (FORCE)", "CREATE DATABASE bench_again TEMPLATE template0")
            shell = ["sh", "-ec", DUMP.format(self.name, "bench_again")]
            subprocess.run(["docker", "exec", "-u", "postgres", self.container, *shell], check=True)
        self._execute("DROP DATABASE bench_again WITH (FORCE)")
        with connected(self.server.url_of(self.name)) as link:
            self._keep(link)
            with self._sample("TRUNCATE and reload"):
                self._reload(link)
            link.execute("DROP SCHEMA kept CASCADE")

    def _sample(self, way: str):  # type: ignore[no-untyped-def]
        return self.samples.setdefault(way, Samples()).timed()

    def _execute(self, *statements: str) -> None:
        with psycopg.connect(self.server.url, autocommit=True) as admin:
            for statement in statements:
                admin.execute(statement.encode())

    def _seeded(self, name: str) -> None:
        self._execute(f"CREATE DATABASE {name} TEMPLATE template0")
        with connected(self.server.url_of(name)) as link:
            link.execute("SET search_path = public")
            make_types(link)
            for statement in schema_statements(self.source.metadata, self.engine):
                link.execute(statement.encode())
            with link.transaction(), self.engine.connect(link) as connection, Session(connection) as session:
                self.source.seed_rows(session, self.source.seed)
                session.flush()

    def _keep(self, link: Link) -> None:
        link.execute("CREATE SCHEMA kept")
        for name in _names(self.source.metadata):
            link.execute(f"CREATE TABLE kept.{name} AS TABLE public.{name}".encode())

    def _reload(self, link: Link) -> None:
        names = _names(self.source.metadata)
        with link.transaction():
            link.execute(f"TRUNCATE {', '.join(f'public.{name}' for name in names)}".encode())
            for name in names:
                link.execute(f"INSERT INTO public.{name} SELECT * FROM kept.{name}".encode())


def _names(metadata: MetaData) -> list[str]:
    """Tables, those that others point to first."""
    return [quoted(table.name) for table in metadata.sorted_tables]
