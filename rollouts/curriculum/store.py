"""A curriculum's database: a SQLite file or a Postgres database, and transactions that come one after another, whoever makes them.

On SQLite a transaction begins by taking the write lock and waits for it; on Postgres it locks the one row of `curriculum`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from wardian.rollouts.curriculum.schema import FORMAT, Base, Head
from wardian.rollouts.errors import UsageProblem

WAIT_S = 60.0
"""For others that draw or record."""


@dataclass(frozen=True, slots=True)
class Store:
    """Open with `open_store`; holds no connection between two transactions."""

    engine: Engine
    name: str
    """As people know it; without a password."""

    @contextmanager
    def alone(self) -> Iterator[tuple[Session, Head]]:
        """One transaction that no other one overlaps; what it changed is there for all when it ends, or not at all.

        Raises:
            UsageProblem: the database cannot be used, or holds no curriculum of this version.
        """
        try:
            with Session(self.engine, expire_on_commit=False) as session, session.begin():
                head = session.scalars(select(Head).with_for_update()).one_or_none()
                if head is None or head.format != FORMAT:
                    found = "none" if head is None else f"one of format {head.format}, and this version reads {FORMAT}"
                    raise UsageProblem(f"curriculum: {self.name} holds {found}; name another file")
                yield session, head
        except SQLAlchemyError as error:
            raise UsageProblem(f"curriculum: {self.name} cannot be used: {_said(error)}") from error


def open_store(where: str | Path, head: Head | None) -> Store:
    """Open the curriculum at `where`: a path, or a URL of SQLAlchemy. With `head` it is made where there is none; somebody else may make it
    at the same time.

    Raises:
        UsageProblem: there is none, or it cannot be opened.
    """
    text = str(where)
    if "://" not in text and head is None and not Path(text).exists():
        raise UsageProblem(f"curriculum: there is no {text}; `wardian curriculum create` makes one")
    try:
        engine = _engine(text)
        if head is not None:
            with engine.begin() as connection:
                if engine.dialect.name == "postgresql":
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(712093)")
                Base.metadata.create_all(connection)
                with Session(connection) as session:
                    if session.scalars(select(Head)).one_or_none() is None:
                        session.add(head)
                        session.commit()
        return Store(engine, shown_url(text) if "://" in text else text)
    except (SQLAlchemyError, ImportError) as error:
        raise UsageProblem(f"curriculum: {shown_url(text) if '://' in text else text} cannot be opened: {_said(error)}") from error


def _engine(text: str) -> Engine:
    url = make_url(text if "://" in text else f"sqlite:///{text}")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise UsageProblem(f"curriculum: {url.get_backend_name()} is not known; give a SQLite file or a URL of Postgres")
    if url.get_backend_name() == "postgresql":
        return create_engine(url.set(drivername="postgresql+psycopg"), poolclass=NullPool)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": WAIT_S})
    event.listen(engine, "connect", _no_own_begin)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _no_own_begin(connection: Any, _: object) -> None:
    """Keep the driver from beginning transactions by itself, which it does too late and without the write lock."""
    connection.isolation_level = None


def shown_url(url: str) -> str:
    """A URL without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "the URL"


def _said(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).splitlines()[0]
