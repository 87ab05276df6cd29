"""A table over evaluations of one set of tasks, and which checkpoint to keep: by success on what was held out, never by training reward."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardian.rollouts.errors import LogBroken, LogMissing, UsageProblem
from wardian.rollouts.records import Json

FILE = "eval.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One evaluation."""

    label: str
    """Of its folder."""
    found: dict[str, Json]

    @property
    def checkpoints(self) -> list[str]:
        """What played; more than one where the policy changed meanwhile."""
        return list(self.found["checkpoints"])

    @property
    def headline(self) -> dict[str, Json]:
        """The numbers under the fault profile that decides."""
        report: dict[str, Json] = self.found["profiles"][self.found["headline"]]
        return report

    @property
    def may_be_kept(self) -> bool:
        """Whether something was judged, and all of it of one checkpoint."""
        return self.headline["success"] is not None and len(self.checkpoints) == 1

    @property
    def rank(self) -> tuple[float, float, int]:
        """Higher is better: success, then all of k tries, then fewer hard failures."""
        every = self.headline["pass_all_k"]
        return self.headline["success"]["mean"], every["mean"] if every else 0.0, -int(self.headline["hard_failures"])


def load(where: Path) -> list[Row]:
    """The evaluation in a folder, or those in the folders below it, by name.

    Raises:
        LogMissing: there is none.
        LogBroken: one is not readable.
    """
    files = [where / FILE] if (where / FILE).is_file() else sorted(where.glob(f"*/{FILE}"))
    if not files:
        raise LogMissing(f"{where}: holds no {FILE}; name a folder that `wardian eval --out` made")
    return [_read(file) for file in files]


def _read(file: Path) -> Row:
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise LogBroken(f"{file}: cannot be read as JSON: {error}") from error
    if not isinstance(found, dict) or found.get("eval_version") != VERSION:
        raise LogBroken(f"{file}: is no evaluation of version {VERSION}; evaluate again")
    return Row(file.parent.name, found)


def compared(rows: Sequence[Row]) -> dict[str, Json]:
    """The table, for programs.

    Raises:
        UsageProblem: the evaluations are of different sets of tasks or profiles; says which.
    """
    for name in ("set", "headline", "k"):
        values = {json.dumps(row.found[name]): row.label for row in rows}
        if len(values) > 1:
            told = ", ".join(f"{label} has {value}" for value, label in values.items())
            raise UsageProblem(
                f"against: evaluations of different {name} cannot be compared: {told}; use the same world, split, tasks and seed"
            )
    candidates = [row for row in rows if row.may_be_kept]
    best = max(candidates, key=lambda row: row.rank, default=None)
    return {
        "rows": [_row(row) for row in rows],
        "keep": _row(best) if best else None,
        "not_told_apart": [row.label for row in candidates if best and row is not best and _overlap(row, best)],
        "by": f"success on the split {rows[0].found['split']} under {rows[0].found['headline']}" if rows else "",
    }


def _overlap(row: Row, best: Row) -> bool:
    return bool(row.headline["success"]["high"] >= best.headline["success"]["low"])


def _row(row: Row) -> dict[str, Json]:
    kept = ("success", "pass_at_k", "pass_all_k", "episodes", "masked", "hard_failures", "mean_reward")
    success = {name: report["success"] for name, report in row.found["profiles"].items()}
    return {
        "label": row.label,
        "policy": row.found["policy"],
        "checkpoints": row.checkpoints,
        "k": row.found["k"],
        **{name: row.headline[name] for name in kept},
        "success_by_profile": success,
    }


def rows_of(folders: Iterable[Path]) -> list[Row]:
    """All evaluations in folders, in their order; each once.

    Raises:
        As `load`.
    """
    seen: dict[tuple[str, str], Row] = {}
    for folder in folders:
        for row in load(folder):
            seen.setdefault((row.label, str(row.found["run"])), row)
    return list(seen.values())
