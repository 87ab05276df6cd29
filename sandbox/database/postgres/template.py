"""Sealed Postgres templates. A template is a database that nobody may connect to; its comment is the ready mark, written last.

It is built under another name, and renamed when it is whole, so what a killed builder leaves is never taken for one.
"""

import secrets
import time
from collections.abc import Sequence

import psycopg

from wardian.sandbox.database.base import FrozenDatabase, Template, TemplateSource, check_template
from wardian.sandbox.database.postgres.building import Sums, sums_of
from wardian.sandbox.database.postgres.cells import Wire, quoted
from wardian.sandbox.database.postgres.clone import PostgresDatabase, Sealed
from wardian.sandbox.database.postgres.dialect import PostgresEngine
from wardian.sandbox.database.postgres.keeper import Keeper
from wardian.sandbox.database.postgres.links import connected
from wardian.sandbox.database.postgres.problems import lost
from wardian.sandbox.database.postgres.recipe import DeclaredRecipe, Recipe
from wardian.sandbox.database.postgres.resources import Copy
from wardian.sandbox.database.postgres.sealing import Generated, Rehearsal, SealedCopy, generated_columns, rehearse, restore, window_in
from wardian.sandbox.database.postgres.server import LINKS_OF_A_CLONE, PREFIX, Server
from wardian.sandbox.database.rows import fingerprint_of
from wardian.sandbox.database.sealed import SealedDatabase, SealedState
from wardian.sandbox.errors import DatabaseLost, TemplateBroken

PATIENCE_S = 75.0
"""How long a clone waits for a server that is gone: longer than a successor may take to start."""


class PostgresTemplate(Template):
    """A sealed start state on a server. `close` it: then its clones, spares and itself are dropped."""

    engine = "postgres"
    blocks = True

    def __init__(self, recipe: Recipe, server: Server, spares: int) -> None:
        with connected(server.url) as link:
            engine = PostgresEngine(link)
        wires = recipe.wires
        self._generated: frozenset[Generated] | None = None
        """Looked up at the first restore."""
        self._rehearsal: Rehearsal = {}
        """What restores have done; nothing before the first one, so that nobody else pays for it."""
        self._recipe, self._server, self._engine = recipe, server, engine
        self.key = recipe.key(server.version, engine)
        self._name = f"{PREFIX}t_{self.key}"
        sums, built_here = self._found_or_built(wires)
        self.size_bytes = server.size_of(self._name)
        self._sealed = Sealed(self.key, wires, sums.counts, sums.totals, engine, server, self.size_bytes, recipe.timed)
        self.fingerprint = fingerprint_of([wire.shape for wire in wires], zip(sums.counts, sums.totals, strict=True))
        if not built_here:
            self._check(sums)
        self._keeper: Keeper[Copy] = Keeper(self._fitting(spares), self._spare_copy)
        self._keeper.start()

    @classmethod
    def build(cls, source: TemplateSource | Recipe, server: Server, spares: int = 1) -> "PostgresTemplate":
        """The template of `source`: the one that the server has, else built. Processes wait for each other.

        `spares` clones are kept ready; fewer, where connections or room are enough for no more beside as many in use.

        Raises:
            TemplateBroken: the source cannot be kept exactly, or what the server has is not what was sealed.
            DatabaseLost: the server does not answer or cannot go on.
        """
        return cls(source if isinstance(source, Recipe) else DeclaredRecipe(source), server, spares)

    def clone(self) -> PostgresDatabase:
        """A clone of its own: a spare where one is ready, else made at once. Blocks while the server restarts.

        Raises:
            DatabaseLost: the server does not answer or cannot go on.
            TemplateBroken: the copy is not what was sealed.
        """
        until = time.monotonic() + PATIENCE_S
        with self._keeper.asked():
            while True:
                try:
                    return PostgresDatabase(self._sealed, self._spare() or self._copy_or_rebuilt())
                except DatabaseLost:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.2)  # a server that restarts, or whose successor starts, is worth waiting for

    def restore(self, sealed: SealedDatabase) -> tuple[PostgresDatabase, tuple[FrozenDatabase, ...]]:
        check_template(self, sealed)
        wires = self._sealed.wires
        copies = tuple(SealedCopy(self._clone_at, state, window_in(state, wires)) for state in sealed.copies)
        return self._clone_at(sealed.present), copies

    def _clone_at(self, state: SealedState) -> PostgresDatabase:
        with self._keeper.asked():
            database = self.clone()
            try:
                if self._generated is None:
                    self._generated = generated_columns(self._server.url_of(database.name))
                self._rehearsal = self._rehearsal | restore(database, self._server, state, self._generated)
            except BaseException:
                database.close()
                raise
            return database

    def clone_at_once(self) -> PostgresDatabase:
        """A clone that is made now, whatever spares there are.

        Raises:
            DatabaseLost, TemplateBroken: as `clone`.
        """
        return PostgresDatabase(self._sealed, self._copy())

    def _spare(self) -> Copy | None:
        while (spare := self._keeper.take()) is not None:
            if spare.answers():
                return spare
            spare.close()  # the server was restarted meanwhile
        return None

    @property
    def settled(self) -> bool:
        return self._keeper.settled

    def close(self) -> None:
        """Drop the spares, what clones were left, and the template. A server that is gone is fine."""
        for spare in self._keeper.close():
            spare.close()
        copies = [name for name, of in list(self._server.made.items()) if of == self._name]
        for name in [*copies, self._name]:
            try:
                self._server.drop(name)
            except DatabaseLost:
                continue  # gone with the server, or another process copies it just now: `reap` finds it

    def _copy_or_rebuilt(self) -> Copy:
        """A copy; where the template is gone (the server was replaced, or another process dropped it), of one that is built again."""
        try:
            return self._copy()
        except DatabaseLost:
            if self._server.comment_of(self._name) is not None:
                raise
        self._server.prepare()
        sums, _ = self._found_or_built(self._sealed.wires)
        if (sums.counts, sums.totals) != (self._sealed.counts, self._sealed.totals):
            raise TemplateBroken(
                f"template {self._name}: it was built again and is another one; its seed rows depend on more than their inputs"
            )
        return self._copy()

    def _copy(self) -> Copy:
        return Copy.make(self._server, self._name, self._keeper, self._check_counts)

    def _spare_copy(self) -> Copy:
        return Copy.make(self._server, self._name, self._keeper, self._check_and_rehearse, wait_s=0)

    def _fitting(self, spares: int) -> int:
        """How many spares leave enough for as many clones in use, and for those that wait to be dropped."""
        fit = self._server.connections // LINKS_OF_A_CLONE - spares
        if self._server.room_bytes is not None:
            fit = min(fit, self._server.room_bytes // max(self.size_bytes, 1) - 1 - 2 * spares)
        return max(0, min(spares, fit))

    def _check_counts(self, link: psycopg.Connection[tuple[object, ...]]) -> None:
        """Compare the tables and their numbers of rows: a copy without its data must never be handed out."""
        wires = self._sealed.wires
        counts = ", ".join(f"(SELECT count(*) FROM public.{quoted(wire.shape.name)})" for wire in wires)
        try:
            found = link.execute(f"SELECT {counts}".encode()).fetchone()
        except psycopg.errors.UndefinedTable as error:
            raise TemplateBroken(f"a copy of {self._name} lacks a table: {error}") from error
        if found != self._sealed.counts:
            raise TemplateBroken(f"a copy of {self._name} has {found} rows in its tables and not {self._sealed.counts}")

    def _check_and_rehearse(self, link: psycopg.Connection[tuple[object, ...]]) -> None:
        self._check_counts(link)
        if self._rehearsal:
            rehearse(link, self._rehearsal)

    def _found_or_built(self, wires: Sequence[Wire]) -> tuple[Sums, bool]:
        """The sums of the template, and whether it was built here."""
        with self._server.building(self.key):
            found = self._server.comment_of(self._name)
            if found and "tables" in found:
                return self._marked(found["tables"], wires), False
            if found is not None:
                self._server.drop(self._name)  # half built: renamed, and not yet marked
            return self._built(wires), True

    def _marked(self, tables: dict[str, list[str]], wires: Sequence[Wire]) -> Sums:
        if sorted(tables) != sorted(wire.shape.name for wire in wires):
            raise self._broken("its mark names other tables")
        marked = [tables[wire.shape.name] for wire in wires]
        return Sums(tuple(int(count) for count, _ in marked), tuple(int(total, 16) for _, total in marked))

    def _built(self, wires: Sequence[Wire]) -> Sums:
        name = f"{PREFIX}b_{secrets.token_hex(8)}"
        self._server.create(name, "template0")
        try:
            sums = self._recipe.fill(self._server, name, self._engine)
            with connected(self._server.url_of(name)):
                pass  # leaves a file of the server's in it, which the first connection to each copy need not make then
            tables = zip(wires, sums.counts, sums.totals, strict=True)
            self._server.seal(name, self._name, {"tables": {wire.shape.name: [count, f"{total:032x}"] for wire, count, total in tables}})
        except psycopg.Error as error:
            raise lost(self._server.url, error) from error
        finally:
            self._server.drop(name)  # gone already when it was sealed
        return sums

    def _check(self, sums: Sums) -> None:
        """Read every row of a template that was found, once."""
        copy = Copy.make(self._server, self._name, None, self._check_counts)
        try:
            if sums_of(copy.link, self._sealed.wires) != sums:
                raise self._broken("its rows are not those that were sealed")
        except psycopg.Error as error:
            raise lost(self._server.url, error) from error
        finally:
            copy.close()

    def _broken(self, what: str) -> TemplateBroken:
        return TemplateBroken(
            f"template database {self._name}: {what}; drop it to have it built again (`wardian reap --db-url URL --everything --yes`)"
        )
