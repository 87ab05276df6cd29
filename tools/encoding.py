"""One encoding of a tool's answer into plain JSON, so that no engine's own types reach an agent, a log or a trainer.

| value | becomes |
| --- | --- |
| None, bool, int, str, finite float | itself (-0.0 becomes 0.0; a lone surrogate its escape) |
| Decimal | its plain decimal text, such as `"10.10"` |
| aware datetime | UTC text, `"2026-03-01T09:00:00.000000Z"` |
| date, time | ISO text |
| timedelta | whole microseconds as an integer |
| UUID | its hyphenated text |
| bytes | `{"base64": "..."}` |
| Enum | its value |
| tuple, list | array |
| Mapping with text keys | object |

Everything else, NaN, infinity and naive datetimes raise: the handler has to decide what they mean.
"""

import base64
import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias
from uuid import UUID

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list or dict of such."""

RESULT_CAP_CHARS = 72_000
"""Most characters of one answer, rendered as JSON, that an agent is shown."""


def encode(value: object, path: str = "result") -> Json:
    """Convert by the table above.

    Raises:
        ValueError: the value has no place in JSON; names where it stands.
    """
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value
    if kind is str:
        return text(value)  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return {_key(key, path): encode(inner, f"{path}.{key}") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [encode(inner, f"{path}[{index}]") for index, inner in enumerate(value)]
    return _encode_typed(value, path)


def text(value: str) -> str:
    """The text itself, or with lone surrogates written as escapes when it holds any."""
    if value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def capped(content: Json, cap_chars: int = RESULT_CAP_CHARS) -> Json:
    """Give `content`, or when its JSON is longer than the cap, its beginning and the true size."""
    rendered = json.dumps(content, ensure_ascii=False)
    if len(rendered) <= cap_chars:
        return content
    return {"cut": f"the answer has {len(rendered)} characters, here are the first {cap_chars}", "beginning": rendered[:cap_chars]}


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise ValueError(f"{path}: object keys must be text, got {key!r}")
    return text(key)


def _encode_typed(value: object, path: str) -> Json:
    if isinstance(value, Enum):
        return encode(value.value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path}: {value} has no place in JSON")
        return float(value) or 0.0
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{path}: {value} has no place in JSON")
        return format(value, "f")
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{path}: a datetime without time zone; world times are aware")
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return _encode_plain(value, path)


def _encode_plain(value: object, path: str) -> Json:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, str):
        return text(str(value))
    if isinstance(value, int):
        return int(value)
    raise ValueError(f"{path}: {type(value).__name__} has no place in JSON")
