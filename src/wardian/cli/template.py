"""`wardian template`: databases of one's own as templates."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wardian.cli.console import errors_end_the_command, run_until_signal, stderr
from wardian.sandbox.database.imports import ImportedDatabase, import_database, imported_names, open_import, remove_import
from wardian.sandbox.database.imports.compare import Verdict
from wardian.sandbox.database.imports.compare import compare as compare_imports
from wardian.sandbox.database.imports.report import Report, printable

WIDTH = 140
Name = Annotated[str, typer.Argument(help="Name of a template, as `wardian template list` shows it.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    template = typer.Typer(no_args_is_help=True, help="Databases of your own as templates.")
    template.command("import")(import_)
    template.command("list")(list_)
    template.command()(show)
    template.command()(compare)
    template.command()(remove)
    app.add_typer(template, name="template")


def import_(
    source: Annotated[str, typer.Argument(help="A SQLite file, a SQL script, a dump of pg_dump, or the URL of a database.")],
    name: Annotated[str, typer.Option(help="What to call it: a-z, 0-9, - and _.")],
    engine: Annotated[str | None, typer.Option(help="What a script is written for: sqlite or postgres. Default: as it shows.")] = None,
    schema: Annotated[str, typer.Option(help="With Postgres: the schema that comes.")] = "public",
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of a template of that name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take in a database of your own, which is only read, and say what came, what did not, and what differs between engines."""
    console, made = stderr(), list[ImportedDatabase]()

    async def work() -> None:
        say = partial(console.print, style="dim", markup=False)
        made.append(await import_database(source, name, engine=engine, schema=schema, replace=replace, progress=say))

    with errors_end_the_command():
        signal = run_until_signal(work)
    if not made:
        raise typer.Exit(128 + signal)
    _show(made[0], as_json)


def list_(as_json: AsJson = False) -> None:
    """List the templates that were imported."""
    with errors_end_the_command():
        found = [open_import(name) for name in imported_names()]
    if as_json:
        print(json.dumps([_summary(one) for one in found]))
        return
    table = Table("name", "engine", "tables", "rows", "from")
    for one in found:
        report, source = one.report, one.manifest.source
        table.add_row(one.name, one.engine, str(len(report.tables)), str(report.rows), _shown(f"{source.kind} {source.name}"))
    _console().print(table if found else "no templates yet: wardian template import SOURCE --name NAME")


def show(name: Name, as_json: AsJson = False) -> None:
    """Show the report of an import again."""
    with errors_end_the_command():
        found = open_import(name)
    _show(found, as_json)


def compare(left: Name, right: Name, as_json: AsJson = False) -> None:
    """Compare two imports table by table; names meet in lower case without underscores. Exits with 1 when a table differs or is missing."""
    with errors_end_the_command():
        found = compare_imports(open_import(left).manifest, open_import(right).manifest)
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
    else:
        table = Table(escape(left), escape(right), "", "why")
        for one in found:
            table.add_row(_shown(one.left), _shown(one.right), one.verdict.value, _shown("; ".join(one.reasons)))
        _console().print(table)
    raise typer.Exit(1 if any(one.verdict in (Verdict.DIFFERS, Verdict.MISSING) for one in found) else 0)


def remove(name: Name) -> None:
    """Remove a template."""
    with errors_end_the_command():
        remove_import(name)
    print(f"removed {name}")


def _summary(one: ImportedDatabase) -> dict[str, object]:
    source = one.manifest.source
    return {
        "name": one.name,
        "engine": one.engine,
        "tables": len(one.report.tables),
        "rows": one.report.rows,
        "source": source.model_dump(),
    }


def _console() -> Console:
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else WIDTH)


def _show(found: ImportedDatabase, as_json: bool) -> None:
    if as_json:
        print(found.manifest.model_dump_json(indent=2))
        return
    console, report, source = _console(), found.report, found.manifest.source
    table = Table("table", "rows", "key", "columns", title=f"{found.name}: {found.engine}, from {source.kind} {_shown(source.name)}")
    for one in report.tables:
        table.add_row(_shown(one.name), str(one.rows), _shown(", ".join(one.key)), str(len(one.columns)))
    console.print(table)
    for line in _lines(report):
        console.print(printable(line), markup=False)
    print(f"template {found.name} is ready: {len(report.tables)} tables, {report.rows} rows")


def _shown(text: str) -> str:
    """Text of somebody's in a table."""
    return escape(printable(text))


def _lines(report: Report) -> Iterator[str]:
    for what in ("views", "indexes", "triggers", "functions", "sequences"):
        if names := getattr(report, what):
            yield f"{what}: {', '.join(names)}"
    for left in report.left_out:
        times = f" ({left.count} times)" if left.count > 1 else ""
        line = f", line {left.line}" if left.line else ""
        yield f"left out: {left.what} {left.name}{times}{line}{f': {left.why}' if left.why else ''}"
    for note in report.notes:
        yield f"note: {note.where}: {note.text}"
    for one in report.tables:
        for column in one.columns:
            if column.cannot_agree:
                yield f"cannot agree with the other engine: {one.name}.{column.name}: {column.cannot_agree}"
        if one.cannot_agree:
            yield f"cannot agree with the other engine: {one.name}: {one.cannot_agree}"
    yield f"can have equal fingerprints on both engines: {', '.join(one.name for one in report.tables if one.can_agree) or 'no table'}"
