"""Mutants of a solved database: one row otherwise, made in the episode's own clone and undone after each look."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeAlias

from sqlalchemy import Column, ColumnElement, Executable, MetaData, Table, and_, delete, insert, select, update
from sqlalchemy.types import NullType

from wardian.envs.definition import WorldDefinition
from wardian.envs.verifier import FinalState
from wardian.sandbox.changes import RowKey, key_of
from wardian.sandbox.database.base import RowChange, WorldDatabase, order_of
from wardian.sandbox.errors import DatabaseProblem

Row: TypeAlias = Mapping[str, Any]
OTHERS = 6
"""Rows of each table, of those that the agent did not touch, that are changed."""
LOOK_ALIKES = str.maketrans("aceopxyACEOP", "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0410\u0421\u0415\u041e\u0420")
"""Letters that look the same in another alphabet."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of rows and its undoing."""

    name: str
    detail: str
    do: tuple[Executable, ...]
    undo: tuple[Executable, ...]


class Rows:
    """The rows of a solved episode, and its mutants in them."""

    def __init__(self, live: WorldDatabase, tables: Sequence[Table], state: FinalState, rng: Random) -> None:
        self._live, self._state, self._rng = live, state, rng
        with live.transaction() as session:
            self._rows = {table: [dict(row) for row in session.execute(select(table)).mappings()] for table in tables}
        live.take_changes()
        self._own = {key_of(change) for change in state.agent_changes}

    def edits(self) -> Iterator[Edit]:
        """All that is done to the rows, one at a time."""
        for table, rows in self._rows.items():
            own = [row for row in rows if self._key(table, row) in self._own]
            others = [row for row in rows if self._key(table, row) not in self._own]
            for row in own:
                yield from self._of_row(table, row, "own", table.columns.keys())
            for row in self._rng.sample(others, min(OTHERS, len(others))):
                yield from self._of_row(table, row, "other", self._rng.sample(table.columns.keys(), 2))
        for change in self._state.agent_changes:
            yield from self._reverted(change)

    def _of_row(self, table: Table, row: Row, whose: str, columns: Sequence[str]) -> Iterator[Edit]:
        key = [column.name for column in table.primary_key.columns]
        place = f"{table.name}{[row[name] for name in key]}"
        yield Edit(f"removed {whose} {table.name}", place, (delete(table).where(_is(table, row)),), (insert(table).values(row),))
        if added := _another(table, row, self._rows[table], key):
            yield Edit(f"doubled {whose} {table.name}", place, (insert(table).values(added),), (delete(table).where(_is(table, added)),))
        for name in (name for name in columns if name not in key):
            others = [one[name] for one in self._rows[table] if one[name] != row[name]]
            for operator, value in _values(row[name], others, self._rng):
                do, undo = (update(table).where(_is(table, row)).values({name: one}) for one in (value, row[name]))
                yield Edit(f"{operator} {whose} {table.name}.{name}", f"{place}: {row[name]!r} -> {value!r}"[:200], (do,), (undo,))
        yield from self._swapped(table, row, whose, place, [name for name in columns if name not in key])

    def _swapped(self, table: Table, row: Row, whose: str, place: str, columns: Sequence[str]) -> Iterator[Edit]:
        """The value of a column changed round with that of another row."""
        for name in columns:
            others = [one for one in self._rows[table] if one[name] != row[name]]
            if not others:
                continue
            other = self._rng.choice(others)
            one, two = update(table).where(_is(table, row)), update(table).where(_is(table, other))
            do = (one.values({name: other[name]}), two.values({name: row[name]}))
            undo = (one.values({name: row[name]}), two.values({name: other[name]}))
            yield Edit(f"swapped {whose} {table.name}.{name}", f"{place}: {row[name]!r} <-> {other[name]!r}"[:200], do, undo)

    def _reverted(self, change: RowChange) -> Iterator[Edit]:
        """A row that the agent changed, as it was before; typed values are those of the row as it is."""
        table = next(table for table in self._rows if table.name == change.table)
        row = next((row for row in self._rows[table] if self._key(table, row) == key_of(change)), None)
        if change.before is None or change.after is None or row is None:
            return
        differing = {name for name, value in change.after.items() if change.before[name] != value}
        simple = {name: change.before[name] for name in differing if not isinstance(row[name], datetime)}
        if not simple:
            return
        do, undo = (update(table).where(_is(table, row)).values(values) for values in (simple, {name: row[name] for name in simple}))
        yield Edit(f"reverted own {table.name}", f"{table.name}{list(change.key)}: {simple}"[:200], (do,), (undo,))

    def _key(self, table: Table, row: Row) -> RowKey:
        return table.name, tuple(row[column.name] for column in table.primary_key.columns)

    @contextmanager
    def edited(self, edit: Edit) -> Iterator[FinalState | None]:
        """The state with that edit, which is undone at the end; `None` where the database refuses it."""
        before = self._live.fingerprint()
        try:
            self._run(edit.do)
        except DatabaseProblem:
            self._live.take_changes()
            yield None
            return
        delta = self._live.take_changes()
        frozen = self._live.freeze()
        try:
            state = self._state
            changes, by_agent = (patched(known, delta) for known in (state.changes, state.agent_changes))
            yield replace(state, database=frozen, changes=changes, agent_changes=by_agent)
        finally:
            frozen.close()
            self._run(edit.undo)
            self._live.take_changes()
            assert not self._live.fingerprint().differences(before), f"{edit.name} was not undone"

    def _run(self, statements: Sequence[Executable]) -> None:
        with self._live.transaction() as session:
            for statement in statements:
                session.execute(statement)


def patched(changes: Sequence[RowChange], delta: Sequence[RowChange]) -> tuple[RowChange, ...]:
    """Changes from a start to now, when after them `delta` happened too."""
    found = {key_of(change): change for change in changes}
    for change in delta:
        known = found.pop(key_of(change), None)
        before = known.before if known is not None else change.before
        if before != change.after:
            found[key_of(change)] = RowChange(change.table, change.key, before, change.after)
    return tuple(sorted(found.values(), key=order_of))


def _is(table: Table, row: Row) -> ColumnElement[bool]:
    return and_(*(column == row[column.name] for column in table.primary_key.columns))


def _another(table: Table, row: Row, rows: Sequence[Row], key: Sequence[str]) -> Row | None:
    """The same row under a new key, and with new values where they have to be unique."""
    fresh = {name: _fresh(row[name], [one[name] for one in rows]) for name in (*key[-1:], *(c.name for c in table.columns if c.unique))}
    return None if None in fresh.values() else {**row, **fresh}


def _fresh(value: Any, others: Sequence[Any]) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return max(others) + 1
    return f"{value}-2" if isinstance(value, str) else None


def _values(value: Any, others: Sequence[Any], rng: Random) -> Iterator[tuple[str, Any]]:
    """What else could stand there, each with the operator's name."""
    nudged = _nudged(value)
    if nudged is not None and nudged != value:
        yield "nudged", nudged
    if isinstance(value, str) and value.translate(LOOK_ALIKES) != value:
        yield "look_alike", value.translate(LOOK_ALIKES)
    if others:
        yield "replaced", rng.choice(others)
    if isinstance(value, str | int) and not isinstance(value, bool) and value:
        yield "emptied", type(value)()
    if value is not None:
        yield "nulled", None


def _nudged(value: Any) -> Any:
    """The smallest change."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.01 + 0.01
        case datetime():
            return value + timedelta(seconds=1)
        case str() if value:
            return value[:-1] + ("x" if value[-1] != "x" else "y")
        case dict() if value:
            name = sorted(value)[0]
            return {**value, name: _nudged(value[name])}
        case list() if value:
            return value[:-1]
    return None


def tables_of(world: WorldDefinition) -> Sequence[Table]:
    """The tables of a world's database; of an imported one by its report, with values as the engine's driver gives them."""
    if world.imported is None:
        return world.template.metadata.sorted_tables
    found = MetaData()
    for one in world.imported.report.tables:
        Table(one.name, found, *(Column(column.name, NullType, primary_key=column.name in one.key) for column in one.columns))
    return found.sorted_tables
