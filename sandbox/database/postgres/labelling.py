"""Labels on a Postgres server: JSON in the comment of a database or role.

By them `reap` tells the living owner's things from a dead one's, also on a server that others use.
"""

import json
from collections.abc import Mapping
from typing import Any

from psycopg import sql

from wardian.sandbox.labels import is_ours


def labelling(what: str, name: str, labels: Mapping[str, Any]) -> sql.Composed:
    """The statement that puts `labels` on the `DATABASE` or `ROLE` of that name."""
    text = json.dumps(dict(labels), sort_keys=True)
    return sql.SQL("COMMENT ON " + what + " {} IS {}").format(sql.Identifier(name), sql.Literal(text))


def labels_in(comment: str | None) -> dict[str, Any]:
    """The labels that a comment holds; empty where it holds none of ours."""
    try:
        found = json.loads(comment or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and is_ours(found) else {}
