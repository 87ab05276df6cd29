"""One spelling for values of both engines, and a digest per column over it: whether two columns say the same, whatever their types."""

import json
import re
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal, InvalidOperation

from blake3 import blake3

from wardian.sandbox.database.imports.report import Kind
from wardian.sandbox.database.rows import MODULUS, Stored

_TIME = re.compile(r"(\d{4,}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)?\s*(Z|[+-]00(?::?00)?)?)?", re.ASCII)
_NUMBERS = frozenset({Kind.INTEGER, Kind.REAL, Kind.DECIMAL, Kind.FLAG})
_MEASURES = frozenset({Kind.REAL, Kind.DECIMAL})
_DIGITS = Context(prec=15)
"""What a binary number keeps of a decimal one."""
_TIMES = frozenset({Kind.TIMESTAMP, Kind.INSTANT, Kind.DATE})


def spelled(value: Stored, kind: Kind) -> str | None:
    """A value in the spelling that does not depend on its engine; `None` for NULL. Spaces at the end do not count: `char` pads."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int | float) or kind in _NUMBERS:
        return _number(value, exact=kind not in _MEASURES)
    return _time(value) if kind in _TIMES else value.rstrip(" ")


def _number(value: int | float | str, *, exact: bool) -> str:
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        return str(value)
    if not number.is_finite():
        return str(number)
    number = number if exact else _DIGITS.plus(number)
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def _time(value: str) -> str:
    found = _TIME.fullmatch(value.strip())
    if found is None:
        return value
    day, minute, second, fraction, _ = found.groups()
    return f"{day} {minute or '00:00'}:{second or '00'}.{(fraction or '').rstrip('0')}".rstrip(".")


class ColumnDigests:
    """Sums up the columns of one table, row by row."""

    def __init__(self, kinds: Sequence[Kind], key: Sequence[int]) -> None:
        """`key`: positions of the columns that tell rows apart; all columns where none do."""
        self._kinds, self._key = kinds, key or range(len(kinds))
        self._sums = [0] * len(kinds)

    def add(self, rows: Iterable[Sequence[Stored]]) -> None:
        """Take rows in; their order makes no difference."""
        for row in rows:
            cells = [spelled(value, kind) for value, kind in zip(row, self._kinds, strict=True)]
            key = blake3(json.dumps([cells[position] for position in self._key]).encode())
            for position, cell in enumerate(cells):
                of_cell = key.copy()
                of_cell.update(b"\x00" if cell is None else b"\x01" + cell.encode("utf-8", "surrogatepass"))
                self._sums[position] += int.from_bytes(of_cell.digest(16), "big")

    @property
    def digests(self) -> tuple[str, ...]:
        """One for each column, of all rows so far."""
        return tuple(f"{total % MODULUS:032x}" for total in self._sums)
