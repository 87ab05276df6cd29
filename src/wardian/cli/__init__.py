"""The command line. Each module beside this one that has a `register` adds its commands with it."""

from importlib import import_module
from pkgutil import iter_modules

import typer


def build_app() -> typer.Typer:
    """The whole command line as one application."""
    app = typer.Typer(name="wardian", help="Sealed, resettable worlds for LLM agents.", no_args_is_help=True, add_completion=False)
    for name in sorted(found.name for found in iter_modules(__path__)):
        module = import_module(f"{__name__}.{name}")
        if hasattr(module, "register"):
            module.register(app)
    return app


def main() -> None:
    """Entry point of the `wardian` command."""
    build_app()()
