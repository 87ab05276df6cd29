"""Fills an empty database: walls, schema, seed rows, capture; then verifies and sums it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import MetaData
from sqlalchemy.schema import CreateIndex, CreateTable

from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.calls import CallSession
from wardian.sandbox.database.engines import IN_CALL
from wardian.sandbox.database.postgres import capture, walls
from wardian.sandbox.database.postgres.cells import Wire, quoted
from wardian.sandbox.database.postgres.dialect import PostgresEngine
from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.database.postgres.roles import OWNER, TOOLS
from wardian.sandbox.database.rows import summed

BATCH = 2000


@dataclass(frozen=True, slots=True)
class Sums:
    """What the rows of a template must be, table by table."""

    counts: tuple[int, ...]
    totals: tuple[int, ...]


def schema_statements(metadata: MetaData, engine: PostgresEngine) -> list[str]:
    """What makes the schema: tables, then indexes, then references, which may point anywhere."""
    dialect = engine.engine.dialect
    tables = sorted(metadata.tables.values(), key=lambda table: table.name)
    statements = [str(CreateTable(table, include_foreign_key_constraints=[]).compile(dialect=dialect)) for table in tables]
    for table in tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        statements += [str(CreateIndex(index).compile(dialect=dialect)) for index in indexes]
    compiler = dialect.ddl_compiler(dialect, None)  # type: ignore[arg-type]
    for table in tables:
        for constraint in sorted(table.foreign_key_constraints, key=lambda one: str(one.column_keys)):
            statements.append(f"ALTER TABLE public.{quoted(table.name)} ADD {compiler.process(constraint)}")
    return statements


def build(link: Link, source: TemplateSource, wires: Sequence[Wire], engine: PostgresEngine) -> Sums:
    """Make a world of the empty database behind `link`, an administrator's.

    Raises:
        Exception: whatever `seed_rows` raises, or the server says of the schema.
    """
    link.execute("SET search_path = public")  # all that is in it is the world's own
    walls.close_schemas(link)
    with acting_as(link, OWNER):
        capture.make_types(link)
        for statement in schema_statements(source.metadata, engine):
            link.execute(statement.encode())
        capture.make_journal(link)
    walls.describe(link, source.metadata.tables)
    walls.take_functions_away(link)
    walls.open_tables(link, source.metadata.tables)
    _seed(link, source, engine)
    with acting_as(link, OWNER):
        capture.fill_sequences(link, wires)
        capture.install_triggers(link, wires)
    link.execute("VACUUM (FULL, FREEZE, ANALYZE)")  # a copy takes as long as there are files and bytes
    return sums_of(link, wires)


@contextmanager
def acting_as(link: Link, role: str) -> Iterator[None]:
    """Run the statements of a block as another role."""
    link.execute(f"SET ROLE {role}")
    yield
    link.execute("RESET ROLE")


def _seed(link: Link, source: TemplateSource, engine: PostgresEngine) -> None:
    with link.transaction():
        link.execute(f"SET LOCAL ROLE {TOOLS}")
        with engine.connect(link) as connection:
            connection.execution_options(**{IN_CALL: True})
            with CallSession(connection) as session:
                source.seed_rows(session, source.seed)
                session.flush()


def rows_of(link: Link, wire: Wire) -> Iterator[Sequence[object]]:
    """Every row of a table, read in batches; within a transaction."""
    with link.cursor(name="wardian_rows") as cursor:
        cursor.itersize = BATCH
        cursor.execute(f"SELECT {wire.array} FROM public.{quoted(wire.shape.name)}".encode())
        for (cells,) in cursor:
            yield wire.read(cells)


def sums_of(link: Link, wires: Sequence[Wire]) -> Sums:
    """Number of rows, and sum of their hashes, by reading every row."""
    with link.transaction():
        found = [summed(wire.shape, rows_of(link, wire)) for wire in wires]  # type: ignore[arg-type]
    return Sums(tuple(count for count, _ in found), tuple(total for _, total in found))
