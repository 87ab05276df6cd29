"""Connections to a Postgres server: what holds of every one of them, and an administrator's."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from wardian.sandbox.database.postgres.problems import lost

Link = psycopg.Connection[Any]
CONNECT_S = 10
PATIENT: dict[str, Any] = {
    "autocommit": True,
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Of every connection: a server whose machine is gone says nothing, and must not be waited for longer than this."""
CALL_S = 20
"""For one statement of a tool or a verifier."""
IDLE_S = 120
"""For a call between two of its statements. Snapshots, which wait for their readers, are exempt."""
ADMIN = (
    "-c statement_timeout=120000 -c lock_timeout=60000 -c TimeZone=UTC -c client_min_messages=warning -c jit=off"
    " -c search_path=pg_catalog,pg_temp"
)
"""Whatever stands in a database, an administrator's statement must not mean something else there."""
_SESSION = {
    "statement_timeout": CALL_S * 1000,
    "lock_timeout": 5000,
    "idle_in_transaction_session_timeout": IDLE_S * 1000,
    "search_path": "public",
    "TimeZone": "UTC",
    "DateStyle": "ISO,MDY",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": 1,
    "client_min_messages": "error",
    "jit": "off",
    "max_parallel_workers_per_gather": 0,
    "synchronize_seqscans": "off",
}
_FORMS = ("search_path", "TimeZone", "DateStyle", "IntervalStyle", "bytea_output", "extra_float_digits")
FORMS = "".join(f"SHOW {name}; " for name in _FORMS)
"""Asks for the settings that values are written by, and read by. A function of an import may set them for all that follows."""
AS_BEGUN = {name: str(_SESSION[name]).replace(",", ", ") for name in _FORMS}
"""What a session of ours answers."""
SESSION = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())


@contextmanager
def connected(url: str) -> Iterator[Link]:
    """An administrator's connection of one block, each statement by itself.

    Raises:
        DatabaseLost: the server does not answer, went away, or the URL is none.
    """
    try:
        link = psycopg.connect(url, **PATIENT, options=ADMIN)
    except psycopg.Error as error:
        raise lost(url, error) from error
    try:
        with link:
            yield link
    except psycopg.OperationalError as error:
        raise lost(url, error) from error
