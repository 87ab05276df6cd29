"""`wardian qa`: the checks that should precede a first training job."""

import importlib.util
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.console import Console
from rich.table import Table

from wardian.cli import database, options
from wardian.cli.console import errors_end_the_command, find_modules_here, stderr, visible
from wardian.cli.own import TasksFile, Template, settle
from wardian.envs.definition import WorldDefinition
from wardian.envs.registry import profile
from wardian.envs.taskfile.opening import keep_copy
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.qa.examining import examine, open_lab
from wardian.rollouts.qa.lab import Asked
from wardian.rollouts.qa.outcome import Report, Result, Verdict
from wardian.rollouts.qa.page import page
from wardian.rollouts.trajectory import FILE, TrajectoryLog

REPORT = "qa.json"
COLOURS = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.MEASURED: "cyan", Verdict.NOT_JUDGED: "yellow"}
SHOWN = 5
"""Findings of a check that are printed; all stand in the JSON."""


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(qa)


def qa(
    world: options.WorldOrTemplate = None,
    trajectories: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Log of the current policy to audit. Default: scripted policies stand for it.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a report with plots, one file that needs no network.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the episodes and qa.json there. Default: nothing is kept.")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Tasks of each family and difficulty, for each scripted policy.")] = 2,
    cells: Annotated[int, typer.Option(min=1, max=256, help="Episodes at once.")] = 2,
    faults: Annotated[str, typer.Option(help="Fault profile of the episodes.")] = "realistic",
    max_reset_ms: Annotated[float | None, typer.Option(help="Fail where resets take longer (95th percentile).")] = None,
    min_episodes_per_s: Annotated[float | None, typer.Option(help="Fail where fewer episodes a second are played.")] = None,
    template: Template = None,
    tasks: TasksFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one line of JSON.")] = False,
) -> None:
    """Check a world before anybody trains on it: determinism, isolation, baselines, budgets, rewards, and more; see docs/qa.md.

    Exits with 1 where a check failed.
    """
    find_modules_here()
    with errors_end_the_command(), ExitStack() as stack:
        parameters: dict[str, Any] = {"world": world, "template": template, "tasks": tasks, "db": None, "db_url": None}
        found = settle(parameters)
        chosen = profile(faults, found)
        if trajectories is not None:
            _of_this_world(trajectories, found)
        if html is not None:
            _writable(html)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wardian-qa-"))) if out is None else _empty(out)
        keep_copy(found, folder)
        asked = Asked(seeds, cells, max_reset_ms, min_episodes_per_s, trajectories, tasks)
        shown = stderr()

        async def run() -> Report:
            async with open_lab(found, parameters["world"], chosen, asked, folder, database=database.asked(parameters)) as lab:
                report = await examine(lab, lambda result: None if as_json else _progress(shown, result))
                if html is not None:
                    html.write_text(page(report, lab), "utf-8")
                return report

        report = anyio.run(run)
        if out is not None:
            (out / REPORT).write_text(json.dumps(report.as_json(), indent=2) + "\n", "utf-8")
    if as_json:
        print(json.dumps(report.as_json()))
    else:
        _print(report)
    raise typer.Exit(0 if report.passed else 1)


def _of_this_world(trajectories: Path, world: WorldDefinition) -> None:
    for _, head in TrajectoryLog.open(trajectories).runs:
        if (name := head.versions.env.rpartition("@")[0]) != world.name:
            raise UsageProblem(f"trajectories: {trajectories} holds episodes of the world {name}; give a folder of {world.name}")


def _empty(out: Path) -> Path:
    if (out / FILE).exists():
        raise UsageProblem(f"out: {out} holds episodes already; name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    return out


def _writable(html: Path) -> None:
    """Look before all the work whether the report can be made."""
    if html.is_dir():
        raise UsageProblem(f"html: {html} is a folder; name a file")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageProblem("html: its plots need matplotlib; it comes with `pip install 'wardian[plot]'`")
    html.parent.mkdir(parents=True, exist_ok=True)


def _progress(console: Console, result: Result) -> None:
    console.print(f"{result.name}: {result.outcome.verdict.value} ({result.wall_s:.1f} s)", markup=False)


def _print(report: Report) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "140")))
    table = Table("check", "verdict", "what was looked at", title=f"{report.world}, {report.wall_s:.1f} s", title_justify="left")
    for one in report.results:
        verdict = one.outcome.verdict
        table.add_row(one.name, f"[{COLOURS[verdict]}]{verdict.value}[/]", one.outcome.unjudged or "; ".join(one.outcome.evidence))
    console.print(table)
    for one in report.results:
        findings = one.outcome.findings
        for finding in findings[:SHOWN]:
            console.print(f"{one.name}: {visible(finding)}", style="red", markup=False, soft_wrap=True)
        if len(findings) > SHOWN:
            console.print(f"{one.name}: and {len(findings) - SHOWN} more", style="red", markup=False)
    print("all checks passed" if report.passed else f"failed: {', '.join(report.failed)}")
