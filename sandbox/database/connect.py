"""How raw SQLite connections and SQLAlchemy meet.

Making a SQLAlchemy engine costs more than cloning a world. So all clones of a template share one engine, and with it the cache
of compiled statements; its pool hands out the raw connection that was put down for it just before.
"""

import sqlite3
import threading

from sqlalchemy import Connection, Engine, ExceptionContext, NullPool, create_engine, event

_handed = threading.local()


def _take() -> sqlite3.Connection:
    raw: sqlite3.Connection = _handed.raw
    return raw


def shared_engine() -> Engine:
    """An engine for connections that `attach` brings; it opens none itself."""
    engine = create_engine("sqlite://", creator=_take, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")  # a clone has one connection: there is nobody to lock out

    @event.listens_for(engine, "handle_error")
    def failed(context: ExceptionContext) -> None:
        if context.connection is not None:
            context.connection.info["failed"] = True

    return engine


def attach(engine: Engine, raw: sqlite3.Connection) -> Connection:
    """A SQLAlchemy connection over `raw`; closing it closes `raw`."""
    _handed.raw = raw
    try:
        return engine.connect()
    finally:
        del _handed.raw


def open_image(image: bytes) -> sqlite3.Connection:
    """A raw connection with its own in-memory copy of a sealed image, in autocommit mode."""
    raw = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=256)
    raw.deserialize(image)
    raw.execute("PRAGMA foreign_keys=ON")
    raw.execute("PRAGMA recursive_triggers=ON")
    return raw
