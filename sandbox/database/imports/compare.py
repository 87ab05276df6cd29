"""Two imports side by side, table by table: whether they hold the same, from their reports alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from wardian.sandbox.database.imports.report import Column, Kind, Manifest, Table

_COMPARABLE = frozenset({Kind.INTEGER, Kind.REAL, Kind.DECIMAL, Kind.FLAG})
"""Kinds whose values are numbers on both engines: where these differ, they say something else."""


class Verdict(StrEnum):
    EQUAL = "equal"
    """The same canonical fingerprint."""
    SAME_VALUES = "same values"
    """The same rows; types that the engines keep in other forms make the fingerprints differ."""
    CANNOT_AGREE = "cannot agree"
    """Only columns differ that the engines keep in other forms, and their values cannot be compared."""
    DIFFERS = "differs"
    MISSING = "missing"
    """Only one of the two has it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One table of both."""

    left: str
    """Its name in the first; empty: it is not there."""
    right: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()


def folded(name: str) -> str:
    """A name as it is compared: `AlbumId` and `album_id` are one."""
    return name.replace("_", "").casefold()


def compare(left: Manifest, right: Manifest) -> tuple[Compared, ...]:
    """Every table of either, by name."""
    lefts, rights = ({folded(table.name): table for table in one.report.tables} for one in (left, right))
    found = []
    for name in sorted(lefts.keys() | rights.keys()):
        if name in lefts and name in rights:
            found.append(_table(lefts[name], rights[name], left.engine == right.engine))
        else:
            only = lefts[name].name if name in lefts else "", rights[name].name if name in rights else ""
            found.append(Compared(*only, Verdict.MISSING))
    return tuple(found)


def _table(left: Table, right: Table, is_one_engine: bool) -> Compared:
    if left.fingerprint == right.fingerprint:
        same = tuple(folded(column.name) for column in left.columns) == tuple(folded(column.name) for column in right.columns)
        return Compared(left.name, right.name, Verdict.EQUAL, () if same else ("columns have other names",))
    if left.rows != right.rows:
        return Compared(left.name, right.name, Verdict.DIFFERS, (f"{left.rows} rows and {right.rows}",))
    pairs, missing = _pairs(left.columns, right.columns)
    if missing:
        return Compared(left.name, right.name, Verdict.DIFFERS, missing)
    if tuple(map(folded, left.key)) != tuple(map(folded, right.key)):
        return Compared(left.name, right.name, Verdict.DIFFERS, (f"keys {', '.join(left.key)} and {', '.join(right.key)}",))
    unlike = [(one, other) for one, other in pairs if one.cannot_agree or other.cannot_agree]
    wrong = [(one, other) for one, other in pairs if one.digest != other.digest]
    if not wrong:
        reasons = (*map(_reason, unlike), *filter(None, (left.cannot_agree, right.cannot_agree)), *_order(left, right))
        return Compared(
            left.name, right.name, Verdict.SAME_VALUES, reasons or ("numbers, times or spaces at the end are written in two ways",)
        )
    if not is_one_engine and all(pair in unlike and not _COMPARABLE.issuperset((pair[0].kind, pair[1].kind)) for pair in wrong):
        return Compared(left.name, right.name, Verdict.CANNOT_AGREE, tuple(map(_reason, wrong)))
    return Compared(left.name, right.name, Verdict.DIFFERS, tuple(f"values of {one.name}" for one, _ in wrong))


def _pairs(left: Sequence[Column], right: Sequence[Column]) -> tuple[list[tuple[Column, Column]], tuple[str, ...]]:
    """Columns of one name, and names that only one side has."""
    lefts, rights = ({folded(column.name): column for column in columns} for columns in (left, right))
    missing = tuple(f"only one has {(lefts | rights)[name].name}" for name in sorted(lefts.keys() ^ rights.keys()))
    return [(column, rights[name]) for name, column in lefts.items() if name in rights], missing


def _order(left: Table, right: Table) -> tuple[str, ...]:
    same = [folded(column.name) for column in left.columns] == [folded(column.name) for column in right.columns]
    return () if same else ("columns stand in another order",)


def _reason(pair: tuple[Column, Column]) -> str:
    one, other = pair
    return f"{one.name}: {one.declared or 'no type'} and {other.declared or 'no type'}: {one.cannot_agree or other.cannot_agree}"
