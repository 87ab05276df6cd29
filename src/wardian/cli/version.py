"""`wardian --version`."""

from typing import Annotated

import typer

from wardian import __version__


def register(app: typer.Typer) -> None:
    """Add the option to `app` itself."""
    app.callback()(root)


def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=lambda asked: show(asked))
    ] = False,
) -> None:
    """Sealed, resettable worlds for LLM agents."""


def show(asked: bool) -> None:
    """Print the version and end the command, when asked."""
    if asked:
        print(f"wardian {__version__}")
        raise typer.Exit
