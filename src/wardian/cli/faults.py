"""`wardian faults`: what each fault profile does to each tool of a world, from the tools' contracts."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wardian.cli.console import errors_end_the_command, find_modules_here
from wardian.envs.definition import WorldDefinition
from wardian.envs.family import Family
from wardian.envs.registry import load_world, profile
from wardian.envs.task import Difficulty
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.records import Json
from wardian.tools.contract import Source, Tool
from wardian.tools.faults import PROFILES, Fault, FaultPlan, FaultProfile, told

SAMPLED_SEEDS = 12
"""Tasks of each family and difficulty that are looked at for what they demand."""


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(faults)


def faults(
    world: Annotated[str, typer.Argument(help="Name of a world, or package.module:function of one of your own.")],
    family: Annotated[str | None, typer.Option(help="Only what can happen in tasks of this family.")] = None,
    chosen: Annotated[
        str | None, typer.Option("--profile", help="Only this profile: its name, or a TOML file. Default: the shipped ones.")
    ] = None,
    tool: Annotated[str | None, typer.Option(help="Only this tool.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Explain what each fault profile does to each tool: its chance per call, what the agent sees, and what becomes of the state."""
    find_modules_here()
    with errors_end_the_command():
        found = load_world(world)
        profiles = [profile(chosen, found)] if chosen else list(PROFILES.values())
        demands = _demands(found, [found.family(family)] if family else list(found.families))
        report = [_explained(one, demands, profiles) for one in _tools(found, demands, tool)]
    if as_json:
        settings = {one.name: {"hash": one.hash, **one.model_dump()} for one in profiles}
        print(json.dumps({"world": world, "family": family, "profiles": settings, "tools": report}))
    else:
        _print(profiles, report)


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
    tasks = [one.generate(level, seed) for one in families for level in Difficulty for seed in range(SAMPLED_SEEDS)]
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


def _print(profiles: list[FaultProfile], report: list[dict[str, Json]]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 180)
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
