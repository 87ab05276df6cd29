"""What an author or an agent gets wrong at the edges: each leaves the clone whole and says what it is."""

import time
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest
from sqlalchemy import Column, ForeignKey, MetaData, Table, bindparam, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.types import TypeEngine

from wardian.sandbox.database.base import QueryLimits, TemplateSource, WorldDatabase
from wardian.sandbox.database.sqlite import SqliteTemplate
from wardian.sandbox.database.types import MAX_TEXT_BYTES, Id, Instant, JsonValue, Real, Text, canonical_json, check_text, instant_text
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

TYPES: dict[str, TypeEngine[Any]] = {"score": Real(), "since": Instant(), "extra": JsonValue(), "name": Text()}
linked = MetaData()
Table("parents", linked, Column("id", Id, primary_key=True, autoincrement=False))
Table(
    "children",
    linked,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("parent_id", Id, ForeignKey("parents.id", deferrable=True, initially="DEFERRED")),
)


class Base(DeclarativeBase):
    pass


class Setting(Base):
    __tablename__ = "settings"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    value: Mapped[Any] = mapped_column(JsonValue)


class NoOffset(tzinfo):
    """A zone that says nothing: its times are naive."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return None

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        return None


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def no_rows(session: Session, seed: int) -> None:
    """Leave the tables empty."""


def one_setting(session: Session, seed: int) -> None:
    session.add(Setting(id=1, value={"on": 1}))


def rolled_back_by_itself(session: Session) -> None:
    """A statement whose conflict clause ends the whole transaction, and whose error is swallowed."""
    session.execute(text("UPDATE orders SET total = 5 WHERE id = 1"))
    with pytest.raises(Exception, match="UNIQUE"):
        session.execute(text("INSERT OR ROLLBACK INTO customers (id, name, active) VALUES (9, 'Ada', 1)"))


def go_on_after_a_rollback(database: WorldDatabase) -> None:
    with database.transaction() as session:
        rolled_back_by_itself(session)
        session.execute(text("UPDATE orders SET total = 6 WHERE id = 2"))


def test_nothing_is_written_after_a_statement_that_rolled_the_call_back(database: WorldDatabase) -> None:
    before = database.fingerprint()
    with pytest.raises(DatabaseProblem, match="rolled back"):
        go_on_after_a_rollback(database)
    assert database.recompute() == database.fingerprint() == before
    assert database.take_changes() == ()


def test_a_call_that_was_rolled_back_inside_does_not_end_well(database: WorldDatabase) -> None:
    with pytest.raises(DatabaseProblem, match="rolled back"), database.transaction() as session:
        rolled_back_by_itself(session)
    assert database.recompute() == database.fingerprint()


def test_a_refused_commit_is_a_problem_and_undoes_the_call(tmp_path: Any) -> None:
    database = SqliteTemplate.build(TemplateSource("linked", linked, no_rows), tmp_path).clone()
    held = database.freeze()
    with pytest.raises(DatabaseProblem, match="FOREIGN KEY") as caught, database.transaction() as session:
        session.execute(text("INSERT INTO children VALUES (1, 999)"))
    assert caught.value.kind is DatabaseProblemKind.CONSTRAINT
    assert database.recompute() == database.fingerprint()
    for frozen in (held, database.freeze()):
        with frozen.session() as session:
            assert session.execute(text("SELECT count(*) FROM children")).scalar() == 0
    database.close()


@pytest.mark.parametrize(
    "call",
    [
        "date(x'6e6f77')",
        "julianday(CAST('now' AS BLOB))",
        "datetime('now' || char(0) || 'x')",
        "strftime('%Y', x'4e4f57')",
        "datetime('2026-01-01', x'6c6f63616c74696d65')",
        "datetime('2026-01-01', 'utc' || char(0))",
        "unixepoch('subsec')",
    ],
)
def test_no_disguise_of_now_is_let_through(database: WorldDatabase, call: str) -> None:
    with pytest.raises(DatabaseProblem) as caught:
        database.query(f"SELECT {call}")
    assert caught.value.kind is DatabaseProblemKind.FORBIDDEN


def test_explain_shows_a_plan_and_no_addresses(database: WorldDatabase) -> None:
    assert database.query("EXPLAIN QUERY PLAN SELECT * FROM orders").rows
    with pytest.raises(DatabaseProblem, match="EXPLAIN QUERY PLAN"):
        database.query("/* a */ EXPLAIN SELECT * FROM json_each('[1]')")


@pytest.mark.parametrize("work", ["instr({text}, {part})", "length(replace({text}, {part}, ''))"])
def test_slow_functions_do_not_outrun_the_time_limit(database: WorldDatabase, work: str) -> None:
    call = work.format(text="printf('%0250000d', x * 0)", part="printf('%0125000d', 0) || '1'")
    started = time.monotonic()
    with pytest.raises(DatabaseProblem) as caught:
        database.query(
            f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 200) SELECT sum({call}) FROM n",
            limits=QueryLimits(time_s=0.2),
        )
    assert caught.value.kind is DatabaseProblemKind.TOO_SLOW
    assert time.monotonic() - started < 8


def test_a_statement_stops_at_one_place_however_often_it_ran(database: WorldDatabase) -> None:
    def ends(steps: int) -> bool:
        sql = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 100) SELECT count(*) FROM n"
        try:
            return bool(database.query(sql, limits=QueryLimits(steps=steps)).rows)
        except DatabaseProblem:
            return False

    runs = [[ends(steps) for steps in range(1000, 3000, 50)] for _ in range(5)]
    assert runs == [sorted(runs[0])] * 5
    assert set(runs[0]) == {False, True}


@pytest.mark.parametrize(
    "values",
    [
        {"score": 10**400},
        {"since": datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5)))},
        {"since": datetime(2026, 1, 1, tzinfo=NoOffset())},
        {"extra": nested(100_000)},
        {"extra": {1: "a key that is no text"}},
        {"extra": ["a\x00"]},
        {"name": "x" * (MAX_TEXT_BYTES + 1)},
        {"name": "é" * (MAX_TEXT_BYTES // 2 + 1)},
    ],
    ids=lambda values: next(iter(values)),
)
def test_what_no_type_can_keep_is_an_invalid_value(database: WorldDatabase, values: dict[str, Any]) -> None:
    (name, value), *_ = values.items()
    statement = text(f"UPDATE customers SET {name} = :value WHERE id = 1").bindparams(bindparam("value", type_=TYPES[name]))
    with pytest.raises(DatabaseProblem) as caught, database.transaction() as session:
        session.execute(statement, {"value": value})
    assert caught.value.kind is DatabaseProblemKind.INVALID_VALUE
    assert database.take_changes() == ()


def test_json_has_one_text_for_each_value() -> None:
    assert canonical_json({"b": [1.0, -0.0], "a": 1e300}) == '{"a":1e+300,"b":[1,0]}'
    assert canonical_json("\\u0000") == '"\\\\u0000"'


def test_an_instant_of_an_early_year_is_as_wide_as_any() -> None:
    assert instant_text(datetime(33, 4, 3, tzinfo=UTC)) == "0033-04-03T00:00:00.000Z"


def test_text_up_to_the_cap_is_kept() -> None:
    assert len(check_text("x" * MAX_TEXT_BYTES)) == MAX_TEXT_BYTES


def test_a_change_of_json_that_python_calls_equal_is_written(tmp_path: Any) -> None:
    database = SqliteTemplate.build(TemplateSource("settings", Base.metadata, one_setting), tmp_path).clone()
    with database.transaction() as session:
        setting = session.get(Setting, 1)
        assert setting is not None
        setting.value = {"on": True}
    assert [change.after for change in database.take_changes()] == [{"id": 1, "value": '{"on":true}'}]
    database.close()
