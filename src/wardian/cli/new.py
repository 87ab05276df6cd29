"""`wardian new`: files to begin with, for a world of one's own and for its tools."""

import os
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from wardian.cli.console import errors_end_the_command, stderr
from wardian.envs.scaffold.tool import OtherShape, add_tool
from wardian.envs.scaffold.world import make_world

PYTEST = "`make check` in the checkout of Wardian, or `pip install pytest`"


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    new = typer.Typer(no_args_is_help=True, help="Make a world of your own, or a tool in one.")
    new.command()(world)
    new.command()(tool)
    app.add_typer(new, name="new")


def world(
    name: Annotated[str, typer.Argument(help="Name of the world and of its package: letters, digits, underscores.")],
    into: Annotated[Path, typer.Option(metavar="DIR", help="Folder of your project, in which the package is made.")] = Path("."),
) -> None:
    """Make a world that works at once, from the toy world, to be changed file by file."""
    with errors_end_the_command():
        made = make_world(name, into)
    print(f"made {made}. Next:")
    if into.resolve() != Path(os.getcwd()).resolve():
        print(f"  cd {shlex.quote(str(into))}")
    print(f"  wardian run {name}:definition --policy expert")
    print(f"  {_pytest(name, 'some ten seconds')}")
    print(f"  {name}/README.md says which file is for what")


def tool(
    name: Annotated[str, typer.Argument(help="Name of the tool and of its function.")],
    world: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the world, as `wardian new world` made it.")],
) -> None:
    """Add a tool that works, with a test, to a world of your own. Elsewhere print what to add, and exit with 1."""
    with errors_end_the_command():
        try:
            tools, test = add_tool(name, world)
        except OtherShape as other:
            _print_parts(other)
            raise typer.Exit(1) from other
    print(f"added {name} to {tools}, and {test}. Next:")
    print(f"  {_pytest(str(test))}")
    print("  write what it does; raise `version` in definition() when logs of this world are to be kept apart")


def _pytest(what: str, *remarks: str) -> str:
    """The command that tests `what` with this Python, whatever `python` is in the caller's shell; and what it takes."""
    if find_spec("pytest") is None:
        remarks = (*remarks, f"first: {PYTEST}")
    command = f"{shlex.quote(sys.executable)} -m pytest {shlex.quote(what)}"
    return f"{command}   # {'; '.join(remarks)}" if remarks else command


def _print_parts(other: OtherShape) -> None:
    tool = other.tool
    stderr().print(f"{other}, so nothing was changed. Add these parts by hand:", markup=False)
    print(f"# 1. where the world's tools are\n{tool.imports}\n\n{tool.handler}")
    print(f"# 2. in the tuple of tools that definition() uses\n{tool.entry},\n")
    print(f"# 3. as a test, test_{tool.name}.py\n{tool.test}", end="")
