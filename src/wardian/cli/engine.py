"""Commands about the engine and what stands in it: `doctor`, `build-images`, `reap`."""

import json
import sys
from typing import Annotated, NoReturn

import anyio
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wardian.cli.database import Url
from wardian.sandbox.checks import Status
from wardian.sandbox.database.choice import EXTRA, DatabaseChoice, DatabaseEngine, driver_missing
from wardian.sandbox.doctor import Diagnosis, diagnose
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import DatabaseLost, SandboxError
from wardian.sandbox.images import ensure_images, ensure_postgres_image
from wardian.sandbox.reap import ReapReport, reap

STYLES = {Status.OK: "green", Status.WARNING: "yellow", Status.FAILURE: "red"}


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command()(doctor)
    app.command("build-images")(build_images)
    app.command("reap")(reap_leftovers)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
    db_url: Url = None,
) -> None:
    """Say what this machine and its engine give to cells, and what to do where something is missing."""
    diagnosis = anyio.run(diagnose, db_url)
    if as_json:
        print(json.dumps(diagnosis.as_json(), indent=2))
    else:
        _print_table(diagnosis)
    raise typer.Exit(0 if diagnosis.usable else 1)


def build_images(
    postgres: Annotated[
        bool, typer.Option("--postgres", help="Also the server of `--db postgres`; else it is built on first use.")
    ] = False,
) -> None:
    """Build the images that cells run, where the engine lacks them."""
    console = _stderr()

    def say(line: str) -> None:
        console.print(line, style="dim", markup=False)

    try:
        references = ensure_images(say)
        if postgres:
            references = (*references, ensure_postgres_image(say))
    except SandboxError as error:
        _give_up(error)
    print("images ready: " + " ".join(references))


def reap_leftovers(
    older_than: Annotated[
        float | None, typer.Option(help="Also what is older than so many seconds and whose owner cannot be looked up from here.")
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All that carries our labels, living owners' too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --everything: do not ask.")] = False,
    db_url: Annotated[str | None, typer.Option(help="Also on this Postgres server: databases and logins.")] = None,
) -> None:
    """Remove what killed runs left in the engine; only ever what carries our labels and has no living owner."""
    if everything and not (dry_run or yes):
        _ask_for_everything()
    try:
        reports = [anyio.run(_reap, everything, older_than, dry_run)]
        if db_url is not None:
            reports.append(_reap_server(db_url, everything, older_than, dry_run))
    except SandboxError as error:
        _give_up(error)
    report = ReapReport(*(tuple(line for one in reports for line in getattr(one, name)) for name in ("removed", "kept", "problems")))
    done = "would be removed" if dry_run else "removed"
    for title, lines in (
        ("would remove" if dry_run else "removed", report.removed),
        ("kept", report.kept),
        ("could not remove", report.problems),
    ):
        for line in lines:
            print(f"{title} {line}")
    print(f"{len(report.removed)} {done}, {len(report.kept)} kept, {len(report.problems)} problems")
    raise typer.Exit(1 if report.problems else 0)


def _ask_for_everything() -> None:
    """Ask on a terminal whether living runs are to lose their cells; elsewhere nobody can say so but by `--yes`."""
    if not sys.stdin.isatty():
        _stderr().print("everything: this ends living runs too; add --yes, or --dry-run to see what would go", style="red", markup=False)
        raise typer.Exit(2)
    typer.confirm("This removes what living runs use too, and so ends them. Go on?", abort=True, err=True)


async def _reap(everything: bool, older_than_s: float | None, dry_run: bool) -> ReapReport:
    engine = await Engine.open()
    try:
        return await reap(engine, everything=everything, older_than_s=older_than_s, dry_run=dry_run)
    finally:
        engine.close()


def _reap_server(url: str, everything: bool, older_than_s: float | None, dry_run: bool) -> ReapReport:
    if driver_missing(DatabaseChoice(DatabaseEngine.POSTGRES)):
        raise DatabaseLost(EXTRA)
    from wardian.sandbox.database.postgres.server import Server, reap_server

    server = Server.open(url, prepare=False)
    try:
        return reap_server(server, everything=everything, older_than_s=older_than_s, dry_run=dry_run)
    finally:
        server.close()


def _stderr() -> Console:
    return Console(stderr=True, soft_wrap=True, highlight=False)


def _give_up(error: SandboxError) -> NoReturn:
    _stderr().print(str(error), style="red", markup=False)
    raise typer.Exit(1) from error


def _print_table(diagnosis: Diagnosis) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    table = Table("check", "found", "what to do", title="Wardian doctor", title_justify="left")
    shown: set[str] = set()
    for check in diagnosis.checks:
        found = "unknown" if check.value is None else str(check.value)
        todo = "as above" if check.what_to_do and check.what_to_do in shown else check.what_to_do
        table.add_row(check.name, f"[{STYLES[check.status]}]{escape(found)}[/] [dim]{escape(check.detail)}[/]", escape(todo))
        shown.add(check.what_to_do)
    console.print(table)
    console.print("usable" if diagnosis.usable else "not usable: mend what is red, then run it again", style="bold")
