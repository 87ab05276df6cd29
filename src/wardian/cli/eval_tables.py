"""How evaluations look to people."""

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from wardian.rollouts.evaluation.results import GROUPS
from wardian.rollouts.records import Json
from wardian.rollouts.twins import twin_line

WIDTH = 120


def print_evaluation(found: dict[str, Json]) -> None:
    """Print one evaluation: all groups under the profile that decides, the other profiles, what the faults cost."""
    console = _console()
    k, headline = found["k"], found["headline"]
    checkpoint = ", ".join(found["checkpoints"])
    console.print(
        f"{found['label']}: {found['policy']} ({checkpoint}) on {found['env_version']}, split {found['split']}, "
        f"{found['tasks']} tasks x {found['repeats']}, set {found['set']}",
        style="bold",
        markup=False,
        soft_wrap=True,
    )
    table = Table("", "tasks", "pass@1 [95 %]", f"pass@{k}", f"pass^{k}", "masked", box=SIMPLE_HEAD)
    for group in GROUPS:
        for name, report in found["profiles"][headline][group].items():
            table.add_row(name, *_cells(report))
        table.add_section()
    for name, report in found["profiles"].items():
        table.add_row(f"all, faults {name}", *_cells(report), style="bold" if name == headline else None)
    console.print(table)
    for line in _lines(found):
        console.print(line, markup=False, soft_wrap=True)


def _console() -> Console:
    """Wide enough for the tables, also where it is no terminal."""
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    return console


def _cells(report: dict[str, Json]) -> list[str]:
    return [str(report["tasks"]), *(_share(report[name]) for name in ("success", "pass_at_k", "pass_all_k")), str(report["masked"])]


def _share(found: Json) -> str:
    return "-" if found is None else f"{found['mean']:.0%} [{found['low']:.0%}, {found['high']:.0%}]"


def _lines(found: dict[str, Json]) -> Iterator[str]:
    for name, report in found["profiles"].items():
        if report["masked"]:
            causes = ", ".join(f"{cause} {count}" for cause, count in report["masked_by_cause"].items())
            yield f"masked under {name}, and counted nowhere: {causes}"
    for name, twin in found["twins"].items():
        yield f"{name}: {twin_line(twin)}"
    if len(found["checkpoints"]) > 1:
        yield "the policy changed while it was evaluated, so this evaluation cannot choose a checkpoint"


def print_checkpoints(table: dict[str, Json]) -> None:
    """Print the table over checkpoints, and the one to keep."""
    console = _console()
    shown = Table("", "checkpoint", "pass@1 [95 %]", "pass^k", "hard", "masked", box=SIMPLE_HEAD)
    for row in table["rows"]:
        checkpoint = ", ".join(row["checkpoints"])
        cells = (_share(row["success"]), _share(row["pass_all_k"]), str(row["hard_failures"]), str(row["masked"]))
        shown.add_row(row["label"], checkpoint, *cells, style="bold" if row == table["keep"] else None)
    console.print(shown)
    if table["keep"] is None:
        console.print("keep: none; nothing was judged", markup=False)
        return
    console.print(
        f"keep: {table['keep']['label']} ({', '.join(table['keep']['checkpoints'])}), by {table['by']}", markup=False, soft_wrap=True
    )
    if table["not_told_apart"]:
        console.print(f"not told apart from it by so few tasks: {', '.join(table['not_told_apart'])}", markup=False, soft_wrap=True)
