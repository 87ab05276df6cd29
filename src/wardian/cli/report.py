"""How a run looks to people: progress while it goes on, a table at the end."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from wardian.rollouts.records import EpisodeEnd, Json
from wardian.rollouts.resume import is_final
from wardian.rollouts.twins import twin_line

COUNTS = (
    ("masked_by_cause", "masked"),
    ("end_causes", "ended by"),
    ("tool_outcomes", "tool outcomes"),
    ("faults_injected", "faults injected"),
    ("call_problems", "call problems"),
)


class EpisodeProgress:
    """A live line on `console` while it is open, where that is a terminal; nothing elsewhere."""

    def __init__(self, console: Console, total: int, *, shown: bool, verb: str = "playing") -> None:
        self.console = console
        columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))
        self._task = self._bar.add_task("", total=total, note="")
        self._succeeded = self._masked = self._retried = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self.console.print(text, style="yellow", markup=False)

    def advance(self, note: str) -> None:
        """One more is done."""
        self._bar.update(self._task, advance=1, note=note)

    def add(self, end: EpisodeEnd) -> None:
        """Count the last line of an attempt. One that was cancelled, or is made again, ends no episode."""
        self._retried += end.retried
        if not is_final(end):
            return
        self._succeeded += bool(end.succeeded)
        self._masked += 1 - end.mask
        notes = [f"{self._succeeded} succeeded"]
        notes += [f"{count} {name}" for name, count in (("masked", self._masked), ("retried", self._retried)) if count]
        self.advance(", ".join(notes))


def print_summary(found: dict[str, Json]) -> None:
    """Print a summary as tables on stdout."""
    console = Console(highlight=False)
    table = Table("", "episodes", "succeeded", "rate", "masked", "reward", title=_title(found), title_justify="left")
    for kind in ("family", "difficulty", "policy", "split"):
        for name, group in found[f"by_{kind}"].items():
            table.add_row(f"{kind} {name}", *_cells(group))
        table.add_section()
    table.add_row("all", *_cells(found), style="bold")
    console.print(table)
    for line in _lines(found):
        console.print(line, markup=False, soft_wrap=True)


def _title(found: dict[str, Json]) -> str:
    state = f"interrupted after {found['episodes']} of {found['planned']}" if found["interrupted"] else f"{found['episodes']} episodes"
    twins = " with their twins" if "twin" in found else ""
    return f"{found['world']}: {state}{twins} in {found['wall_s']:.1f} s"


def _cells(group: dict[str, Json]) -> list[str]:
    rate = "-" if group["success_rate"] is None else f"{group['success_rate']:.0%}"
    reward = "-" if group["mean_reward"] is None else f"{group['mean_reward']:.3f}"
    return [str(group["episodes"]), str(group["succeeded"]), rate, str(group["masked"]), reward]


def _lines(found: dict[str, Json]) -> list[str]:
    resets = found["resets"]
    lines = [
        f"resets: {_verified(resets, found['interrupted'])}, {resets['leaks']} leaks, "
        f"p50 {_ms(resets['p50_ms'])}, p95 {_ms(resets['p95_ms'])}, tier {resets['tier'] or 'none (no cell)'}, "
        f"{resets['deep_checks']} deep checks",
        f"steps: {found['steps']}; terminated: {found['terminated']}, truncated: {found['truncated']}, failed: {found['failed']}",
        f"infrastructure failures: {found['infra_failures']}, retried: {found['retried']}; verifier failures: {found['verifier_failures']}",
    ]
    if found["cancelled"] or found["not_started"]:
        lines.append(f"not played to the end: {found['cancelled']} given up, {found['not_started']} never begun")
    lines.append(f"tokens: {found['tokens']}, counted by {found['tokenizer']}{', which estimates' if found['tokens_estimated'] else ''}")
    lines += [f"{title}: {_counts(found[name])}" for name, title in COUNTS if found[name]]
    if "twin" in found:
        lines.append(twin_line(found["twin"]))
    if any(row["fate"] != "judged" for row in found["fates"]):
        lines += [
            f"{row['fate']}: {row['attempts']} of {row['policy']} in {row['family']}, {row['outcome']} by {row['cause']}, "
            f"{row['mean_steps']} steps on average"
            for row in found["fates"]
        ]
    if found["out"]:
        lines.append(f"written to {found['out']}; look with `wardian show {found['out']}`, check with `wardian replay {found['out']}`")
    else:
        lines.append("nothing kept; add --out DIR")
    return lines


def _verified(resets: dict[str, Json], interrupted: bool) -> str:
    """How many were verified; of a run that was interrupted, the others had not come to that and did not fail."""
    others = resets["count"] - resets["verified"]
    if interrupted and others:
        return f"{resets['verified']} verified, {others} given up under way when the run was interrupted"
    return f"{resets['verified']} of {resets['count']} verified"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} ms"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))
