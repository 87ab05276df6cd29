"""How one gets into a database that holds what others wrote: as a login without power, for a limited time in all.

A superuser's session there changes the catalogue and nothing else. It looks names up in `pg_catalog` alone, and reads no row, view or
value, since each may call a function of the import, and a function may undo `SET ROLE`.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Timer

import psycopg

from wardian.sandbox.database.postgres.links import CONNECT_S, Link
from wardian.sandbox.database.postgres.problems import is_lost, lost
from wardian.sandbox.database.postgres.roles import OWNER
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.errors import DatabaseLost, ImportRefused

TIME_MS = 600_000
"""For one statement."""
TOTAL_S = 3600.0
"""For all statements of one session."""
_OPTIONS = f"-c statement_timeout={TIME_MS} -c lock_timeout=60000 -c TimeZone=UTC -c client_min_messages=error -c jit=off"
AS_CLONES = (
    "SET DateStyle = 'ISO'; SET IntervalStyle = 'iso_8601'; SET bytea_output = 'hex'; SET extra_float_digits = 1; SET search_path = public"
)
"""How values are written on the connections of clones."""


@contextmanager
def powerless(server: Server, database: str, total_s: float | None = None) -> Iterator[Link]:
    """A session of this process's login, which acts as the owner of the database's tables. It is ended from outside after `total_s`.

    Raises:
        ImportRefused: it was ended.
        DatabaseLost: the server is at fault.
    """
    total_s = TOTAL_S if total_s is None else total_s
    over = Event()
    try:
        url = server.url_of(database, as_login=True)
        with psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_S, options=_OPTIONS, prepare_threshold=None) as link:
            timer = Timer(total_s, _end, (server, link.info.backend_pid, over))
            timer.daemon = True
            timer.start()
            try:
                link.execute(f"SET ROLE {OWNER}")
                yield link
            finally:
                timer.cancel()
    except (psycopg.Error, DatabaseLost, ImportRefused) as error:
        if over.is_set():
            raise ImportRefused(f"it did not end within {total_s:g} s in all; import a part of it") from error
        if isinstance(error, psycopg.Error) and is_lost(error):
            raise lost(server.url, error) from error
        raise


def _end(server: Server, process: int, over: Event) -> None:
    over.set()
    with suppress(DatabaseLost), server.admin() as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (process,))
