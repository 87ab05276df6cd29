"""What a Postgres template is made of: a declared schema with seed rows, or something else that fills an empty database."""

from abc import ABC, abstractmethod

import psycopg

from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.keys import template_key
from wardian.sandbox.database.postgres.building import Sums, build, schema_statements
from wardian.sandbox.database.postgres.cells import Wire, wires_of
from wardian.sandbox.database.postgres.dialect import PostgresEngine
from wardian.sandbox.database.postgres.links import connected
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.errors import TemplateBroken


class Recipe(ABC):
    """Makes the same database each time."""

    name: str
    wires: tuple[Wire, ...]
    """Its tables by name, with `SEQUENCES` last."""
    timed: bool = False
    """Whether the database may fill in the world's time by itself, from the table `wardian_clock`."""

    @abstractmethod
    def key(self, version: int, engine: PostgresEngine) -> str:
        """Content address on a server of that version: 32 hex characters."""

    @abstractmethod
    def fill(self, server: Server, database: str, engine: PostgresEngine) -> Sums:
        """Make a world of an empty database of the server.

        Raises:
            TemplateBroken: what it is made of cannot be kept exactly.
            DatabaseLost: the server does not answer or cannot go on.
        """


class DeclaredRecipe(Recipe):
    """Schema and seed rows of a world."""

    def __init__(self, source: TemplateSource) -> None:
        self.name = source.name
        self.wires = wires_of(source.metadata)
        self._source = source

    def key(self, version: int, engine: PostgresEngine) -> str:
        schema = "\n".join(schema_statements(self._source.metadata, engine))
        return template_key(self._source, schema, f"postgres {version}")

    def fill(self, server: Server, database: str, engine: PostgresEngine) -> Sums:
        try:
            with connected(server.url_of(database)) as link:
                return build(link, self._source, self.wires, engine)
        except psycopg.Error as error:
            raise TemplateBroken(f"template {self.name}: {' '.join(str(error).split())}") from error
