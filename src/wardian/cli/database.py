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
        UsageProblem: there is none, its driver is not installed, or it needs no server.
    """
    if name not in list(DatabaseEngine):
        raise UsageProblem(f"db: no {name!r}; there are {NAMES}")
    engine = DatabaseEngine(name)
    choice = DatabaseChoice(engine, url if engine is DatabaseEngine.POSTGRES else None)
    if driver_missing(choice):
        raise UsageProblem(f"db: {EXTRA}")
    return choice


def keep(url: str | None) -> None:
    """Hand the URL on by the environment, to this process and those that it starts: it may hold a password, and logs hold options."""
    if url is not None:
        os.environ[URL] = url


def asked(parameters: Mapping[str, Any]) -> DatabaseChoice:
    """The choice that the options of a run stand for.

    Raises:
        UsageProblem: as `choice_of`.
    """
    return choice_of(parameters["db"], os.environ.get(URL))
