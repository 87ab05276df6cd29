"""The options that say which engine holds a world's database."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from wardian.rollouts.errors import UsageProblem
from wardian.sandbox.database.choice import EXTRA, DatabaseChoice, DatabaseEngine, driver_missing

NAMES = ", ".join(one.value for one in DatabaseEngine)
URL = "WARDIAN_DB_URL"
Url = Annotated[
    str | None,
    typer.Option(
        envvar=URL,
        show_envvar=True,
        help="With postgres: a server's URL, of a superuser. Default: a server in a container of its own, gone at the end.",
    ),
]


def choice_of(name: str, url: str | None) -> DatabaseChoice:
    """The engine of that name, on the server at `url`.

    Raises:
        UsageProblem: there is none, its driver is not installed, the URL cannot be read, or `--db-url` names a server for SQLite.
    """
    if name not in list(DatabaseEngine):
        raise UsageProblem(f"db: no {name!r}; there are {NAMES}")
    engine = DatabaseEngine(name)
    if engine is DatabaseEngine.SQLITE:
        if url not in (None, os.environ.get(URL)):  # what stands in the environment is for other commands too
            raise UsageProblem("db_url: the database is sqlite, which has no server; give --db postgres, or leave --db-url out")
        return DatabaseChoice(engine)
    choice = DatabaseChoice(engine, url)
    if driver_missing(choice):
        raise UsageProblem(f"db: {EXTRA}")
    if url is not None:
        _must_be_readable(url)
    return choice


def _must_be_readable(url: str) -> None:
    from wardian.sandbox.database.postgres.problems import shown

    if shown(url) is None:
        raise UsageProblem("db_url: it cannot be read; write postgresql://USER:PASSWORD@HOST:PORT/postgres")


def keep(url: str | None, name: str) -> None:
    """Hand the URL on by the environment, to this process and those that it starts: it may hold a password, and logs hold options.

    Raises:
        UsageProblem: as `choice_of`, of the engine called `name`.
    """
    if url is not None:
        choice_of(name, url)
        os.environ[URL] = url


def asked(parameters: Mapping[str, Any]) -> DatabaseChoice:
    """The choice that the options of a run stand for.

    Raises:
        UsageProblem: as `choice_of`.
    """
    return choice_of(parameters["db"], os.environ.get(URL))
