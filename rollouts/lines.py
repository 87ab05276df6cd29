"""Lines of a trajectory as text: strict JSON, where a line stands, what is wrong with it, and what a crash may have torn.

What CPython's decoder lets through is refused here: NaN and infinity (`1e999` too), keys that stand twice, lone surrogates. Other readers
of a log refuse them, or read them as something else. So is an integer too long to be read.
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_DIGITS = 4300
"""Longest integer, as CPython reads them."""
HEADS = (b'{"record": "run"', b'{"episode_id": "')
"""How every line begins."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands."""

    file: Path
    number: int
    """From 1."""
    offset: int
    """Bytes from the beginning of the file."""
    size: int
    """Bytes, without the end of line."""
    ended: bool = True
    """Whether an end of line follows; a crash can leave the last one without."""

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"

    def read(self) -> bytes:
        """The line's bytes."""
        with self.file.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a line."""

    place: Place
    field: str
    """Path of the field, such as `action.args`; empty for the whole line."""
    message: str
    torn: bool = False
    """A crash explains it: a warning, and no error."""
    record: str = ""
    """Kind of the line, as far as it can be told."""
    fix: str = ""
    """What to do about it."""

    def __str__(self) -> str:
        what = " ".join(filter(None, (self.record, self.field)))
        return f"{self.place}: {f'{what}: ' if what else ''}{self.message}{f'; {self.fix}' if self.fix else ''}"


class LineBroken(ValueError):
    """A line is JSON by CPython's rules and not by ours."""

    def __init__(self, message: str, fix: str, field: str = "") -> None:
        super().__init__(message)
        self.fix, self.field = fix, field


def decode(line: bytes | str) -> Any:
    """Read one value of strict JSON.

    Raises:
        json.JSONDecodeError: it is no JSON.
        LineBroken: it is none by the rules above.
        RecursionError: it is nested too deeply.
    """
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise LineBroken(f"is not UTF-8: byte 0x{byte:02x} at column {error.start + 1}", "take the line from a whole copy") from error
    value = _DECODER.decode(text)
    if _ESCAPED.search(text.encode("utf-8", "surrogatepass")) and (path := _lone_surrogate(value)) is not None:
        raise LineBroken("holds a lone surrogate, which is no text", "write the whole character, or \\\\udXXX with two backslashes", path)
    return value


def is_strict(line: bytes) -> bool:
    """Whether a line is one value of strict JSON."""
    try:
        decode(line)
    except (ValueError, RecursionError):
        return False
    return True


def well_formed(text: str) -> str:
    """`text` with each lone surrogate as the six characters of its escape, so that every reader takes it."""
    return text.encode("utf-8", "backslashreplace").decode() if _SURROGATE.search(text) else text


def well_formed_json(value: Any) -> Any:
    """A JSON value with all its texts, keys among them, `well_formed`."""
    match value:
        case str():
            return well_formed(value)
        case dict():
            return {well_formed_json(key): well_formed_json(inner) for key, inner in value.items()}
        case list() | tuple():
            return [well_formed_json(inner) for inner in value]
    return value


def may_be_torn(line: bytes) -> bool:
    """Whether a line that is no JSON is the beginning of one that a writer was appending."""
    return any(line.startswith(head) or head.startswith(line) for head in HEADS)


def _lone_surrogate(value: Any, path: str = "") -> str | None:
    """Where the first text stands that holds one; `None`: there is none."""
    if isinstance(value, str):
        return path if _SURROGATE.search(value) else None
    if isinstance(value, dict):
        if any(_SURROGATE.search(key) for key in value):
            return path
        inner = ((f"{path}.{key}".lstrip("."), child) for key, child in value.items())
    elif isinstance(value, list):
        inner = ((f"{path}[{index}]", child) for index, child in enumerate(value))
    else:
        return None
    return next((found for where, child in inner if (found := _lone_surrogate(child, where)) is not None), None)


def _constant(name: str) -> float:
    raise LineBroken(f"holds {name}, which is not JSON", "write a finite number")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise LineBroken(f"holds {text[:40]}, which no number of 64 bits holds", "write a finite number")
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise LineBroken(f"holds an integer of {len(digits)} digits; at most {MAX_DIGITS} are read", "write a shorter one, or a text")
    return int(digits)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise LineBroken(f"has the key {twice!r} twice in one object", "delete one of them", twice)
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float, parse_int=_integer)
