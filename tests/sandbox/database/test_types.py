"""Values are kept exactly or refused, by one typed error, before the engine sees them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Numeric, Table, select
from sqlalchemy.types import JSON, DateTime, TypeEngine

from wardian.sandbox.database.base import TemplateSource, WorldDatabase
from wardian.sandbox.database.sqlite import SqliteTemplate
from wardian.sandbox.database.types import canonical_json, instant_text
from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind, TemplateBroken

from .conftest import both, customers, orders

GOOD = {"id": 50, "name": "Dora", "active": True, "since": None, "score": None, "extra": None}


def put(database: WorldDatabase, **values: Any) -> Any:
    with database.transaction() as session:
        session.execute(customers.insert().values(**{**GOOD, **values}))
    with database.transaction() as session:
        return session.execute(select(customers).where(customers.c.id == 50)).one()


@both
@pytest.mark.parametrize(
    "values",
    [
        {"id": 2**63},
        {"id": True},
        {"id": 1.0},
        {"name": "a\x00b"},
        {"name": "\ud800"},
        {"name": 5},
        {"active": 1},
        {"active": "yes"},
        {"since": datetime(2026, 1, 1)},
        {"since": "2026-01-01"},
        {"since": datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)},
        {"score": float("nan")},
        {"score": float("-inf")},
        {"score": "1"},
        {"extra": {"x": float("nan")}},
        {"extra": {"x": "\x00"}},
        {"extra": "\udfff"},
        {"extra": object},
    ],
    ids=str,
)
def test_what_cannot_be_kept_exactly_is_refused(database: WorldDatabase, values: dict[str, Any]) -> None:
    before = database.fingerprint()
    with pytest.raises(DatabaseProblem) as caught:
        put(database, **values)
    assert caught.value.kind is DatabaseProblemKind.INVALID_VALUE
    assert database.fingerprint() == before == database.recompute()


@both
@pytest.mark.parametrize("total", [10.1, 10.0, True, "10", -(2**63) - 1])
def test_money_is_whole_minor_units(database: WorldDatabase, total: Any) -> None:
    with pytest.raises(DatabaseProblem, match="minor units"), database.transaction() as session:
        session.execute(orders.update().values(total=total))


@pytest.mark.parametrize("value", ["a\x00b", "\ud800", 2**63, float("nan"), float("inf")])
def test_values_without_a_declared_type_are_checked_too(database: WorldDatabase, value: Any) -> None:
    with pytest.raises(DatabaseProblem) as caught, database.transaction() as session:
        session.connection().exec_driver_sql("UPDATE customers SET name = ?", (value,))
    assert caught.value.kind is DatabaseProblemKind.INVALID_VALUE


def test_tables_are_strict(database: WorldDatabase) -> None:
    with pytest.raises(DatabaseProblem) as caught, database.transaction() as session:
        session.connection().exec_driver_sql("UPDATE orders SET total = 'much'")
    assert caught.value.kind is DatabaseProblemKind.INVALID_VALUE


@both
def test_good_values_come_back_as_they_were(database: WorldDatabase) -> None:
    moment = datetime(2026, 3, 29, 2, 30, 0, 5000, tzinfo=timezone(timedelta(hours=2)))
    row = put(database, name="Zoë 𝄞", since=moment, score=-0.0, extra={"b": [1, None], "a": "é"})
    assert (row.name, row.since, row.since.tzinfo, row.extra) == ("Zoë 𝄞", moment, UTC, {"b": [1, None], "a": "é"})
    assert str(row.score) == "0.0"
    assert database.query("SELECT since, extra FROM customers WHERE id = 50").rows == (
        ("2026-03-29T00:30:00.005Z", '{"a":"é","b":[1,null]}'),
    )


@both
def test_records_of_changes_hold_canonical_values(database: WorldDatabase) -> None:
    put(database, score=0.5, since=datetime(2026, 1, 1, tzinfo=UTC), extra=[1])
    assert database.take_changes()[0].after == {
        "id": 50,
        "name": "Dora",
        "active": True,
        "since": "2026-01-01T00:00:00.000Z",
        "score": "0.5",
        "extra": "[1]",
    }


def test_instants_sort_as_their_texts() -> None:
    moments = [datetime(y, 1, 1, 0, 0, 0, ms * 1000, tzinfo=UTC) for y in (1, 999, 1970, 9999) for ms in (0, 5, 50)]
    texts = [instant_text(moment) for moment in moments]
    assert texts == sorted(texts)
    assert {len(text) for text in texts} == {24}


def test_equal_json_is_equal_text() -> None:
    assert canonical_json({"b": 1, "a": [1.5, None]}) == canonical_json({"a": [1.5, None], "b": 1}) == '{"a":[1.5,null],"b":1}'


@pytest.mark.parametrize("kind", [Numeric(10, 2), DateTime(), JSON()], ids=repr)
def test_a_schema_with_an_inexact_type_is_refused(kind: TypeEngine[Any], tmp_path: Any) -> None:
    metadata = MetaData()
    Table("t", metadata, Column("id", Integer, primary_key=True), Column("x", kind))
    with pytest.raises(TemplateBroken, match=r"t\.x"):
        SqliteTemplate.build(TemplateSource("t", metadata, lambda session, seed: None), tmp_path)
