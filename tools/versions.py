"""Versions of rows, for optimistic concurrency: what one reads with a row, and gives back when one writes.

A version is a digest over the row's columns, so no table needs a column for it: two equal rows have one version, however often they were
saved. It covers the row itself and not what refers to it.
"""

import json
from typing import Any

from blake3 import blake3
from sqlalchemy import inspect

from wardian.tools.contract import Refusal, Status
from wardian.tools.encoding import encode


def version_of(row: Any) -> str:
    """The version of a mapped row, twelve hexadecimal digits."""
    state = inspect(row)
    columns = {attribute.key: encode(getattr(row, attribute.key), attribute.key) for attribute in state.mapper.column_attrs}
    return blake3(json.dumps(columns, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest(length=6)


def unchanged(row: Any, if_version: str | None, name: str) -> None:
    """Go on only if `row` still has the version that the caller read; `None` asks for nothing. `name` is the row's, for the message.

    Raises:
        Refusal: `conflict`, with the present version in the details.
    """
    now = version_of(row)
    if if_version not in (None, now):
        message = f"{name} is not as you read it any more: its version is {now}, not {if_version}. Read it again before you decide."
        raise Refusal(Status.CONFLICT, message, {"version": now})
