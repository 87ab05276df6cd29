"""A database that is served, by its URL: dumped in one read-only transaction by pg_dump, which runs in a container of ours."""

import re

import anyio.to_thread
import psycopg
from psycopg.conninfo import conninfo_to_dict

from wardian.sandbox.database.imports.workshop import Workshop
from wardian.sandbox.database.postgres.problems import shown
from wardian.sandbox.errors import ImportRefused

CONNECT_S = 10
_VARIABLES = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "sslmode": "PGSSLMODE",
    "options": "PGOPTIONS",
    "application_name": "PGAPPNAME",
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "channel_binding": "PGCHANNELBINDING",
}
_READ_ONLY = "-c default_transaction_read_only=on"
_SCHEME = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")


def named(url: str) -> str:
    """The URL without user and password."""
    return f"{shown(_plain(url))}/{_parts(url).get('dbname', '')}"


async def dumped(workshop: Workshop, url: str) -> bytes:
    """The database as an archive of pg_dump.

    Raises:
        ImportRefused: it cannot be reached, is too new, or cannot be read.
    """
    parts = _parts(url)
    if unknown := sorted(set(parts) - set(_VARIABLES)):
        raise ImportRefused(f"{named(url)}: {unknown[0]} cannot be used here; dump it yourself (pg_dump -Fc) and import the archive")
    newest = workshop.server.version // 10000
    version = await anyio.to_thread.run_sync(_version, url)
    if version > newest:
        raise ImportRefused(
            f"{named(url)}: Postgres {version} is newer than pg_dump {newest} of our image; dump it with its own pg_dump as a script"
            " (pg_dump -f dump.sql) and import that"
        )
    options = " ".join(filter(None, (str(parts.get("options", "")), _READ_ONLY)))
    environment = {_VARIABLES[name]: str(value) for name, value in {**parts, "options": options}.items()}
    try:
        return await workshop.dump_elsewhere(environment)
    except ImportRefused as error:
        raise ImportRefused(f"{named(url)}: {' '.join(str(error).split())}") from error


def _version(url: str) -> int:
    try:
        with psycopg.connect(_plain(url), connect_timeout=CONNECT_S, options=_READ_ONLY) as link:
            return link.info.server_version // 10000
    except psycopg.Error as error:
        raise ImportRefused(f"{named(url)}: it cannot be reached: {' '.join(str(error).split())}") from error


def _parts(url: str) -> dict[str, object]:
    try:
        return {name: value for name, value in conninfo_to_dict(_plain(url)).items() if value is not None}
    except psycopg.Error as error:
        raise ImportRefused(f"the URL cannot be read: {' '.join(str(error).split())}") from error


def _plain(url: str) -> str:
    """The URL as libpq reads it, without the name of a driver."""
    return _SCHEME.sub("postgresql://", url, count=1)
