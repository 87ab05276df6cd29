"""Connections to a Postgres server: what holds of every one of them, and an administrator's."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from wardian.sandbox.database.postgres.problems import lost

Link = psycopg.Connection[Any]
CONNECT_S = 10
PATIENT: dict[str, Any] = {
    "autocommit": True,
    "client_encoding": "UTF8",
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
    # A server of somebody else's may have others for all its logins; with the first, texts would not end where `statements` sees their end.
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "idle_session_timeout": 0,
    "geqo": "on",
}
_FORMS = ("search_path", "TimeZone", "DateStyle", "IntervalStyle", "bytea_output", "extra_float_digits")
FORMS = "".join(f"SHOW {name}; " for name in _FORMS)
"""Asks for the settings that values are written by, and read by. A function of an import may set them for all that follows."""
AS_BEGUN = {name: str(_SESSION[name]).replace(",", ", ") for name in _FORMS}
"""What a session of ours answers."""
SESSION = " ".join(f"-c {name}={value}" for name, value in _SESSION.items())
_OF_THE_SHELL = {"PGTZ": "TimeZone", "PGDATESTYLE": "DateStyle", "PGGEQO": "geqo"}
"""Variables that the driver's library sends after our options, so that they would win, and what they set."""


def opened(url: str, options: str, **more: Any) -> Link:
    """A connection with our settings, whatever the environment says.

    Raises:
        psycopg.Error: the server does not answer, or the URL is none.
    """
    link = psycopg.connect(url, **PATIENT, options=options, **more)
    for variable, name in _OF_THE_SHELL.items():
        if variable in os.environ:
            link.execute(f"SET {name} = '{_SESSION[name]}'".encode())
    return link


@contextmanager
def connected(url: str) -> Iterator[Link]:
    """An administrator's connection of one block, each statement by itself.

    Raises:
        DatabaseLost: the server does not answer, went away, or the URL is none.
    """
    try:
        link = opened(url, ADMIN)
    except psycopg.Error as error:
        raise lost(url, error) from error
    try:
        with link:
            yield link
    except psycopg.OperationalError as error:
        raise lost(url, error) from error
