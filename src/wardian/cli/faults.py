"""`wardian faults`: which faults a profile has for which tool of a world, and what each does; from the tools' contracts."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from wardian.cli import options
from wardian.cli.console import errors_end_the_command, find_modules_here
from wardian.envs.definition import WorldDefinition
from wardian.envs.family import Family
from wardian.envs.registry import load_world, profile
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.records import Json
from wardian.tools.contract import Source, Tool
from wardian.tools.faults import PROFILES, Fault, FaultPlan, FaultProfile, told

SHOWN = "realistic"
"""The profile whose table is shown where none is named."""
SAMPLED_SEEDS = 12
"""Tasks of each family and difficulty that are looked at for what they demand."""


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(faults)


def faults(
    world: options.World,
    family: Annotated[str | None, typer.Option(help="Only what can happen in tasks of this family.")] = None,
    chosen: Annotated[
        str | None,
        typer.Option(
            "--profile", help=f"A profile's name, or a TOML file. Default: {SHOWN} in the table; all shipped ones in details and JSON."
        ),
    ] = None,
    tool: Annotated[str | None, typer.Option(help="Only this tool, in details.")] = None,
    details: Annotated[bool, typer.Option("--details", help="What the agent sees of each fault, and what becomes of the state.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The details of all profiles as one line of JSON.")] = False,
) -> None:
    """Show which faults a profile has for which tool, by chance per call; with --details or --tool, what each of them does."""
    find_modules_here()
    with errors_end_the_command():
        found = load_world(world)
        short = not (details or tool or as_json)
        profiles = [profile(chosen or SHOWN, found)] if chosen or short else list(PROFILES.values())
        demands = _demands(found, [found.family(family)] if family else list(found.families))
        report = [_explained(one, demands, profiles) for one in _tools(found, demands, tool)]
    if as_json:
        settings = {one.name: {"hash": one.hash, **one.model_dump()} for one in profiles}
        print(json.dumps({"world": world, "family": family, "profiles": settings, "tools": report}))
    elif short:
        _print_table(profiles[0], report)
    else:
        _print_details(profiles, report)


@dataclass(frozen=True, slots=True)
class Demands:
    """What tasks say about faults: of those that were looked at."""

    tools: frozenset[str]
    """Tools that tasks give their agent."""
    revocable: tuple[str, ...]
    due: frozenset[tuple[str, Fault]]
    """Faults that some tasks demand, by tool."""
    can_wait: bool
    has_replica: bool

    def plan(self, one: FaultProfile) -> FaultPlan:
        """The plan of an episode under that profile."""
        return FaultPlan(one, self.revocable, can_wait=self.can_wait, has_replica=self.has_replica)


def _demands(world: WorldDefinition, families: list[Family]) -> Demands:
    tasks = [one.generate(level, seed) for one in families for level in one.difficulties for seed in range(SAMPLED_SEEDS)]
    every = frozenset(tool.name for tool in world.tools)
    given = frozenset[str]().union(*(frozenset(task.tools) or every for task in tasks))
    sources = {tool.source for tool in world.tools if tool.name in given}
    return Demands(
        tools=given,
        revocable=tuple(sorted({scope for task in tasks for scope in task.revocable_scopes})),
        due=frozenset((due.tool, due.fault) for task in tasks for due in task.due_faults),
        can_wait=Source.CLOCK in sources,
        has_replica=Source.REPLICA in sources,
    )


def _tools(world: WorldDefinition, demands: Demands, wanted: str | None) -> Iterator[Tool[Json]]:
    known = [tool for tool in world.tools if tool.name in demands.tools]
    if wanted is not None and wanted not in [tool.name for tool in known]:
        raise UsageProblem(f"tool: no {wanted!r}; there are {', '.join(tool.name for tool in known)}")
    return (tool for tool in known if wanted in (None, tool.name))


def _explained(tool: Tool[Json], demands: Demands, profiles: list[FaultProfile]) -> dict[str, Json]:
    """One tool: each fault with chance, view and state under each profile that has it."""
    demanded = {fault for name, fault in demands.due if name == tool.name}
    by_fault: dict[str, dict[str, Json]] = {}
    for one in profiles:
        for line in told(tool, demands.plan(one), demanded if one.ever() else ()):
            entry = {"chance": line.chance, "sees": line.sees, "state": line.state}
            by_fault.setdefault(line.fault.value, {})[one.name] = entry
    return {
        "tool": tool.name,
        "version": tool.version,
        "source": tool.source.value,
        "mutates": tool.mutates,
        "rate_limit": {"calls": tool.rate_limit.calls, "per_s": tool.rate_limit.per_s} if tool.rate_limit else None,
        "faults": [
            {"fault": fault.value, "demanded": fault in demanded, "profiles": by_fault[fault.value]}
            for fault in Fault
            if fault.value in by_fault
        ],
    }


def _print_table(one: FaultProfile, report: list[dict[str, Json]]) -> None:
    """One line for each tool, one column for each fault that some tool can meet."""
    console = _console()
    met = [fault for fault in Fault if any(_line_of(entry, fault) for entry in report)]
    table = Table(Column("tool", no_wrap=True), box=SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for fault in met:
        table.add_column(fault.value.replace("_", "\n"), justify="right", overflow="fold")
    for entry in report:
        lines = [_line_of(entry, fault) for fault in met]
        table.add_row(entry["tool"], *(_cell(line, one.name) for line in lines))
    if met:
        console.print(f"Chance of each fault under the profile {one.name}, in percent of calls", markup=False)
        console.print(table)
    if any(line["demanded"] for entry in report for line in entry["faults"] if one.name in line["profiles"]):
        console.print("* some tasks demand it for certain", markup=False)
    console.print(_bounds(one), markup=False)
    _print_limits(console, report)
    console.print("What each does: --tool NAME or --details. Other profiles: --profile NAME or FILE.toml.", markup=False)


def _line_of(entry: dict[str, Json], fault: Fault) -> dict[str, Json] | None:
    return next((line for line in entry["faults"] if line["fault"] == fault.value), None)


def _cell(line: dict[str, Json] | None, name: str) -> str:
    found = line and line["profiles"].get(name)
    if not line or not found:
        return ""
    share = f"{found['chance'] * 100:.3g}" if found["chance"] else ""
    return f"{share}{'*' if line['demanded'] else ''}"


def _print_details(profiles: list[FaultProfile], report: list[dict[str, Json]]) -> None:
    console = _console()
    table = Table("tool", "fault", *(one.name for one in profiles if one.ever()), "agent sees", "state")
    for entry in report:
        for number, line in enumerate(entry["faults"]):
            # Spans differ by profile; the last one that has the fault is shown, which is the harshest of the shipped ones.
            shown = list(line["profiles"].values())[-1]
            chances = [_chance(line, one.name) for one in profiles if one.ever()]
            table.add_row("" if number else entry["tool"], line["fault"], *chances, shown["sees"], shown["state"])
        if not entry["faults"]:
            table.add_row(entry["tool"], "none")
        table.add_section()
    console.print(table)
    for one in profiles:
        console.print(_bounds(one), markup=False)
    _print_limits(console, report)


def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else 180)


def _print_limits(console: Console, report: list[dict[str, Json]]) -> None:
    for entry in report:
        if limit := entry["rate_limit"]:
            console.print(
                f"{entry['tool']} takes {limit['calls']} calls in {limit['per_s']} s of world time, under every profile", markup=False
            )


def _chance(line: dict[str, Json], name: str) -> str:
    found = line["profiles"].get(name)
    if found is None:
        return ""
    return f"{found['chance']:.2%}" + (", or by task" if line["demanded"] else "")


def _bounds(one: FaultProfile) -> str:
    if not one.ever():
        return f"{one.name}: no faults; latencies times {one.latency_multiplier:g}"
    bounds = f"at most {one.max_consecutive} in a row per tool and {one.max_total} per episode, which lowers the chances above"
    return f"{one.name}: {bounds}; latencies times {one.latency_multiplier:g}, slow ones times {one.slow_multiplier:g} more"
