"""What a server gives to worlds, read without changing anything on it."""

from dataclasses import dataclass
from typing import Any

import psycopg

OLDEST = 140000
KEPT_CONNECTIONS = 8
"""Left to others of the server's `max_connections`."""
LEAST_CONNECTIONS = 4
ZONES = "Wardian"
"""The set of time zone abbreviations of `images/postgres/timezoneset`."""


@dataclass(frozen=True, slots=True)
class Facts:
    version: int
    """As Postgres counts: 150020 is 15.20."""
    is_super: bool
    """Whether its user is a superuser."""
    connections: int
    """How many we may hold at once beside what others hold now; may be below 0."""
    waits_for_disk: bool
    """Whether each change waits until a disk has it."""
    without_now: bool
    """Whether it has our set of time zones, with which no text, however it is made, stands for the host's time."""

    @property
    def version_text(self) -> str:
        return f"{self.version // 10000}.{self.version % 10000}"

    def problem(self) -> str | None:
        """Why no world can be kept here, and what to do; `None` when one can."""
        if self.version < OLDEST:
            return f"it is Postgres {self.version_text}; {OLDEST // 10000} or later is needed"
        if not self.is_super:
            return "its user is no superuser, and only one can take functions such as random() away from agents; name a superuser"
        if self.connections < LEAST_CONNECTIONS:
            free = max(self.connections, 0)
            return f"only {free} connections are free beside the {KEPT_CONNECTIONS} left to others; raise max_connections"
        return None


def facts_of(link: psycopg.Connection[Any]) -> Facts:
    """Ask the server."""
    row = link.execute(
        "SELECT current_setting('server_version_num')::int, rolsuper, current_setting('max_connections')::int"
        " - current_setting('superuser_reserved_connections')::int"
        " - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),"
        " current_setting('fsync')::bool AND current_setting('synchronous_commit') <> 'off' FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    assert row is not None
    return Facts(row[0], row[1], int(row[2]) - KEPT_CONNECTIONS, row[3], _without_now(link))


def _without_now(link: psycopg.Connection[Any]) -> bool:
    try:
        link.execute(f"SET timezone_abbreviations = '{ZONES}'".encode())
        link.execute("RESET timezone_abbreviations")
    except psycopg.errors.InvalidParameterValue:
        return False
    return True
