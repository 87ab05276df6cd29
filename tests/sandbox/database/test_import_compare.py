"""Values in one spelling, and what is said of two tables side by side."""

import pytest

from wardian.sandbox.database.imports.compare import Verdict, compare
from wardian.sandbox.database.imports.report import Column, Kind, Manifest, Report, Source, Table
from wardian.sandbox.database.imports.values import ColumnDigests, spelled
from wardian.sandbox.database.rows import Stored


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        (Kind.DECIMAL, 0.99, "0.99"),
        (Kind.DECIMAL, 13, "13.00"),
        (Kind.DECIMAL, 1e20, "100000000000000000000"),
        (Kind.DECIMAL, 0.1 + 0.2, "0.30"),
        (Kind.REAL, -0.0, 0),
        (Kind.FLAG, 1, True),
        (Kind.TIMESTAMP, "2026-03-01T09:00", "2026-03-01 09:00:00"),
        (Kind.TIMESTAMP, "2026-03-01", "2026-03-01 00:00:00"),
        (Kind.INSTANT, "2026-03-01T09:00:00.500Z", "2026-03-01 09:00:00.5+00"),
        (Kind.TEXT, "padded  ", "padded"),
        (Kind.BYTES, b"\x00", "\\x00"),
        (Kind.TEXT, None, None),
    ],
)
def test_values_that_say_the_same_are_spelled_the_same(kind: Kind, left: Stored, right: Stored) -> None:
    assert spelled(left, kind) == spelled(right, kind)


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        (Kind.INTEGER, 9007199254740993, 9007199254740992),
        (Kind.DECIMAL, "0.99", "0.98"),
        (Kind.TEXT, "1.0", "1"),
        (Kind.TEXT, "", None),
        (Kind.TEXT, " a", "a"),
        (Kind.TIMESTAMP, "2026-03-01 09:00:00", "2026-03-01 09:00:01"),
    ],
)
def test_values_that_say_something_else_are_not(kind: Kind, left: Stored, right: Stored) -> None:
    assert spelled(left, kind) != spelled(right, kind)


def manifest(engine: str, rows: list[tuple[Stored, ...]], second: Column, name: str = "AlbumId", fingerprint: str = "") -> Manifest:
    kinds = [Kind.INTEGER, second.kind]
    digests = ColumnDigests(kinds, (0,))
    digests.add(rows)
    first = Column(name=name, declared="int", kind=Kind.INTEGER, digest=digests.digests[0])
    columns = (first, second.model_copy(update={"digest": digests.digests[1]}))
    table = Table(name="Album_", rows=len(rows), key=(name,), columns=columns, fingerprint=fingerprint or f"{engine} {rows}")
    return Manifest(
        name="x", engine=engine, engine_version="", source=Source(kind="", name=""), artifact="", artifact_bytes=0, artifact_digest="",
        template_bytes=0, report=Report(tables=(table,)),
    )  # fmt: skip


PRICE = Column(name="price", declared="NUMERIC", kind=Kind.DECIMAL, cannot_agree="binary")
MOOD = Column(name="mood", declared="jsonb", kind=Kind.OTHER, cannot_agree="no such type")
WORD = Column(name="word", declared="text", kind=Kind.TEXT)


def verdict(left: Manifest, right: Manifest) -> tuple[Verdict, tuple[str, ...]]:
    (found,) = compare(left, right)
    return found.verdict, found.reasons


def test_the_same_price_in_two_forms_has_the_same_value() -> None:
    left, right = manifest("sqlite", [(1, 0.99)], PRICE), manifest("postgres", [(1, "0.990")], PRICE, "album_id")
    assert verdict(left, right) == (Verdict.SAME_VALUES, ("price: NUMERIC and NUMERIC: binary",))


def test_another_price_differs_whatever_its_form() -> None:
    assert verdict(manifest("sqlite", [(1, 0.99)], PRICE), manifest("postgres", [(1, "0.98")], PRICE)) == (
        Verdict.DIFFERS,
        ("values of price",),
    )


def test_values_that_cannot_be_compared_cannot_agree_between_engines() -> None:
    rows: list[tuple[Stored, ...]] = [(1, '{"a":1}')]
    spaced: list[tuple[Stored, ...]] = [(1, '{"a": 1}')]
    assert verdict(manifest("sqlite", rows, MOOD), manifest("postgres", spaced, MOOD))[0] is Verdict.CANNOT_AGREE
    assert verdict(manifest("postgres", rows, MOOD), manifest("postgres", spaced, MOOD))[0] is Verdict.DIFFERS


def test_equal_fingerprints_are_equal_whatever_the_names() -> None:
    left, right = (manifest(engine, [(1, "a")], WORD, fingerprint="1 rows 00") for engine in ("sqlite", "postgres"))
    assert verdict(left, right) == (Verdict.EQUAL, ())


@pytest.mark.parametrize(
    ("right", "reason"),
    [
        (manifest("sqlite", [(1, "a"), (2, "b")], WORD), "1 rows and 2"),
        (manifest("sqlite", [(2, "a")], WORD), "values of AlbumId"),
        (manifest("sqlite", [(1, "b")], WORD), "values of word"),
        (manifest("sqlite", [(1, "a")], WORD.model_copy(update={"name": "other"}), fingerprint="-"), "only one has"),
        (manifest("sqlite", [(1, "a")], WORD, "id", "-"), "only one has"),
    ],
)
def test_a_difference_is_named(right: Manifest, reason: str) -> None:
    found, reasons = verdict(manifest("sqlite", [(1, "a")], WORD), right)
    assert found is Verdict.DIFFERS
    assert reasons[0].startswith(reason)


def test_a_table_that_only_one_has_is_missing() -> None:
    empty = manifest("sqlite", [], WORD).model_copy(update={"report": Report(tables=())})
    assert verdict(manifest("sqlite", [], WORD), empty)[0] is Verdict.MISSING
