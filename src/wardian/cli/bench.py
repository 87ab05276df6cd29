"""`wardian bench`: measure resets and commands on this machine, beside the usual way, in one run."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wardian.cli import serve
from wardian.cli.console import errors_end_the_command, log_to, run_until_signal, stderr
from wardian.cli.database import NAMES, choice_of
from wardian.rollouts.bench.plot import plot
from wardian.rollouts.bench.run import measure
from wardian.rollouts.bench.samples import Numbers
from wardian.rollouts.bench.scale import FULL, QUICK
from wardian.rollouts.errors import UsageProblem
from wardian.sandbox.database.choice import DatabaseEngine

SERVING = "bench-serve.json"
OPENENV = Path(".build/trainers/openenv/bin/python")
"""Of `scripts/trainer-env.sh openenv`."""
RESULTS = {DatabaseEngine.SQLITE: "bench.json", DatabaseEngine.POSTGRES: "bench-postgres.json"}
WIDTH = 120
MARKS = {True: "[green]met[/]", False: "[red]missed[/]", None: "[yellow]not measured[/]"}


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(bench)


def bench(
    what: Annotated[str, typer.Argument(help="cells, or serve: what a server costs (bench-serve.json).")] = "cells",
    as_json: Annotated[bool, typer.Option("--json", help="All numbers as one line of JSON, the last of stdout.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A little of each, in half a minute; too few for a judgement.")] = False,
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for the numbers (bench.json) and the plot (bench.png).")] = Path(
        "bench"
    ),
    db: Annotated[
        str, typer.Option(help=f"{NAMES}. With postgres, worlds on a server are measured instead (bench-postgres.json).")
    ] = "sqlite",
) -> None:
    """Measure verified resets, commands, tools, memory and growth beside a container per episode. Exits with 1 when anything leaked."""
    console = stderr()
    log_to(console)
    found: Numbers = {}

    def note(line: str) -> None:
        console.print(line, style="dim", markup=False)

    with errors_end_the_command():
        engine = choice_of(db, None).engine
        if what not in ("cells", "serve"):
            raise UsageProblem(f"what: no {what!r}; there are cells and serve")
        if what == "serve" and engine is not DatabaseEngine.SQLITE:
            raise UsageProblem("db: a server is measured on sqlite; leave the option out, or serve")

        async def work() -> None:
            if what == "serve":
                found.update(await _serving(quick, note))
            elif engine is DatabaseEngine.POSTGRES:
                found.update(await _postgres(quick, note))
            else:
                found.update(await measure(QUICK if quick else FULL, note))

        number = run_until_signal(work)
    if not found:
        raise typer.Exit(128 + number)
    found["quick"] = quick
    out.mkdir(parents=True, exist_ok=True)
    results = SERVING if what == "serve" else RESULTS[engine]
    (out / results).write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    if results == RESULTS[DatabaseEngine.SQLITE]:
        try:
            console.print(f"plot: {plot(found, out)}", markup=False)
        except UsageProblem as problem:
            console.print(str(problem), markup=False)
    if as_json:
        print(json.dumps(found))
    else:
        _PRINT[results](found)
    raise typer.Exit(1 if found["leaks"] else 0)


async def _postgres(quick: bool, note: Callable[[str], None]) -> Numbers:
    from wardian.rollouts.bench import postgres  # needs the extra

    return await postgres.measure_postgres(postgres.QUICK if quick else postgres.FULL, note)


async def _serving(quick: bool, note: Callable[[str], None]) -> Numbers:
    serve.must_have_extra()
    from wardian.trainers.bench import serving

    openenv = OPENENV if OPENENV.exists() else None  # noqa: ASYNC240 - a moment
    if openenv is None:
        note(f"there is no {OPENENV}, so nothing stands beside it; scripts/trainer-env.sh openenv makes it")
    return await serving.measure_serving(serving.QUICK if quick else serving.FULL, note, openenv)


def _print_serving(found: Numbers) -> None:
    console = _print_targets(found)
    table = Table("measured", "p50 ms", "p95 ms", "per second", title="In the same run", title_justify="left")
    for what, row, per_s in (
        ("step in process", found["step"]["in_process"], None),
        ("step through the server", found["step"]["served"], None),
        ("step of 256 leases at once", found["many"]["step"], None),
        *((f"echoes of {name}'s server", {}, row["per_s"]) for name, row in found["messages"].items() if isinstance(row, dict)),
    ):
        table.add_row(what, _number(row.get("p50_ms")), _number(row.get("p95_ms")), _number(per_s))
    console.print(table)
    cells, waited = found["many_on_cells"], found["many_on_cells"]["told_to_wait"]
    console.print(f"256 leases: {found['many']['wall_s']} s without cells; {cells['wall_s']} s over 16 cells, told to wait {waited} times")
    console.print(f"{found['leaks']} leaks, {found['wall_s']} s")


def _print_postgres(found: Numbers) -> None:
    console = _print_targets(found)
    table = Table("measured", "p50 ms", "p95 ms", "n", title="In the same run", title_justify="left")
    for part in ("reset", "clone", "usual"):
        for what, row in found[part].items():
            table.add_row(f"{part}: {what}", _number(row["p50_ms"]), _number(row["p95_ms"]), str(row["n"]))
    console.print(table)
    rate = found["sustained"]
    console.print(
        f"{rate['per_s']:.0f} resets per second with 8 cells that do nothing else; each takes {rate['server_cpu_ms_per_reset']} ms of the"
        f" server's processor time and {rate['own_cpu_ms_per_reset']} ms of ours, on {found['machine']['cores']} cores"
    )
    console.print(f"{found['leaks']} leaks, {found['wall_s']} s; templates of {found['template_mb']} MB with the server's own catalogue")


def _print_targets(found: Numbers) -> Console:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    machine = found["machine"]
    about = ("cores", "memory_gib", "kernel", "engine", "storage_driver", "cgroup", "runtime", "python", "load_at_start", "load_at_end")
    console.print(", ".join(f"{name} {machine[name]}" for name in about), style="dim")
    table = Table("target", "found", "wanted", "", title="Wardian bench", title_justify="left")
    for row in found["targets"]:
        table.add_row(row["what"], _number(row["found"], row["unit"]), f"{row['target']} {row['unit']}", MARKS[row["met"]])
    console.print(table)
    return console


def _print(found: Numbers) -> None:
    console = _print_targets(found)
    console.print(_details(found))
    ratios = found["ratios"]
    console.print(
        f"a reset is {ratios['container_over_reset']}× faster than a container per episode "
        f"({ratios['resets_over_containers_per_s']}× by rate), a command {ratios['docker_exec_over_exec']}× faster than docker exec"
    )
    console.print(f"{found['verified_resets']} verified resets, {found['leaks']} leaks, {found['wall_s']} s")


def _details(found: Numbers) -> Table:
    table = Table("measured", "p50 ms", "p95 ms", "per second", title="In the same run", title_justify="left")
    lines: list[tuple[str, Numbers, float | None]] = [
        ("verified reset, ordinary", found["reset"]["ordinary"], None),
        ("verified reset, vandal", found["reset"]["vandal"], None),
        ("container per episode", found["container"], found["container"]["at_once"]["per_s"]),
        ("`true` in a chamber", found["exec"], None),
        ("`docker exec true`", found["docker_exec"], None),
        ("database tool, logged", found["tool_call"], None),
        *((f"  {name}", row, None) for name, row in found["tool_call"]["by_tool"].items()),
        ("episode start, cell ready, task's rows and files", found["tool_call"]["episode_start"], None),
        *((f"verified resets, {cells} cells", {}, row["per_s"]) for cells, row in found["resets_at_once"].items()),
        *((f"`true`, {cells} cells", {}, row["per_s"]) for cells, row in found["exec"]["at_once"].items()),
        *((f"reset, {what}: {size}", row, None) for what, rows in found["growth"].items() for size, row in rows.items()),
    ]
    for what, row, per_s in lines:
        table.add_row(what, _number(row.get("p50_ms")), _number(row.get("p95_ms")), _number(per_s))
    return table


def _number(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.4g} {unit}".rstrip()


_PRINT = {
    SERVING: _print_serving,
    RESULTS[DatabaseEngine.SQLITE]: _print,
    RESULTS[DatabaseEngine.POSTGRES]: _print_postgres,
}
