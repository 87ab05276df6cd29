"""The options that say which engine holds a world's database."""

from typing import Annotated

import typer

from wardian.rollouts.errors import UsageProblem
from wardian.sandbox.database.choice import EXTRA, DatabaseChoice, DatabaseEngine, driver_missing

NAMES = ", ".join(one.value for one in DatabaseEngine)
Url = Annotated[
    str | None,
    typer.Option(
        envvar="WARDIAN_DB_URL",
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
