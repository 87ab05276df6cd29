"""The command line. Each module beside this one adds its commands with `register`."""

import typer

from wardian.cli import engine

MODULES = (engine,)


def build_app() -> typer.Typer:
    """The whole command line as one application."""
    app = typer.Typer(name="wardian", help="Sealed, resettable worlds for LLM agents.", no_args_is_help=True, add_completion=False)
    for module in MODULES:
        module.register(app)
    return app


def main() -> None:
    """Entry point of the `wardian` command."""
    build_app()()
