"""Going on where a run stopped: what its folder says is played, and what is still to be done.

An episode is played when its log has a final end: one that was neither cancelled nor to be tried again. All others are played anew, as
further attempts from the same seeds, in a file of their own; what stands in the folder is never touched.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.plan import Planned
from wardian.rollouts.play import CANCELLED
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, Json, RunRecord
from wardian.rollouts.summary import Tally
from wardian.rollouts.trajectory import check, kind_of, lines_of

FREE = frozenset(
    {"episodes", "cells", "workers", "attempts", "out", "as_json", "progress", "concurrency", "api_key_env", "worker", "continued"}
)
"""Parameters that may be others when a run goes on: they change nothing about an episode. `episodes` may only grow."""


@dataclass(slots=True)
class Played:
    """What the files of a run hold."""

    head: RunRecord
    ends: list[EpisodeEnd] = field(default_factory=list)
    starts_ms: list[float] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    """The last attempt that was begun, by episode."""

    @property
    def final(self) -> dict[str, EpisodeEnd]:
        """The ends after which an episode is not played again."""
        return {end.episode_id: end for end in self.ends if is_final(end)}

    def count_into(self, tally: Tally) -> None:
        """Add what was played; cancelled attempts say nothing, and are played again."""
        tally.starts_ms.extend(self.starts_ms)
        for end in self.ends:
            if end.outcome != CANCELLED:
                tally.add(end)

    def rest(self, episodes: Sequence[Planned]) -> list[Planned]:
        """The episodes that are still to be played, each from its next attempt on."""
        final = self.final
        return [
            replace(planned, first_attempt=self.attempts.get(planned.episode_id, 0) + 1)
            for planned in episodes
            if planned.episode_id not in final
        ]


def is_final(end: EpisodeEnd) -> bool:
    """Whether its episode is done."""
    return end.outcome != CANCELLED and not end.retried


def played(files: Iterable[Path]) -> Played | None:
    """Read the first and last lines of all attempts; `None` where no `run` line is whole.

    Raises:
        UsageProblem: the files are of several runs.
    """
    found: Played | None = None
    for file in files:
        for place, line in lines_of(file):
            if kind_of(line) == "step":
                continue
            record, _ = check(place, line)
            if isinstance(record, RunRecord):
                found = found or Played(record)
                if record.run != found.head.run:
                    raise UsageProblem(f"out: {file} holds the run {record.run} beside {found.head.run}; keep one run in a folder")
            elif isinstance(record, EpisodeStart) and found:
                found.starts_ms.append(record.reset_ms)
                found.attempts[record.episode_id] = max(record.attempt, found.attempts.get(record.episode_id, 0))
            elif isinstance(record, EpisodeEnd) and found:
                found.ends.append(record)
                found.attempts[record.episode_id] = max(record.attempt, found.attempts.get(record.episode_id, 0))
    return found


def stopped_run(out: Path, asked: Mapping[str, Json]) -> Played | None:
    """The run in `out` that is to go on; `None` where there is none.

    Raises:
        UsageProblem: it was asked for otherwise; names the options that differ.
    """
    if not out.is_dir() or not any(out.glob("*.jsonl")):
        return None
    found = played(file for file in sorted(out.glob("*.jsonl")) if file.stat().st_size)
    if found is None:
        return None
    before = found.head.parameters
    for name in sorted(before.keys() & asked.keys() - FREE):
        if before[name] != asked[name]:
            raise UsageProblem(
                f"{name}: {out} holds an unfinished or finished run with {before[name]!r}, and now {asked[name]!r} is asked for; "
                "give the same, or name a new folder"
            )
    if asked.get("twin"):
        raise UsageProblem(f"twin: {out} holds a run already, and one with twins cannot go on; name a new folder")
    if (fewer := int(asked["episodes"])) < int(before["episodes"]):
        raise UsageProblem(f"episodes: {out} holds a run of {before['episodes']}, more than {fewer}; give at least as many")
    return found


def next_file(out: Path, stem: str) -> Path:
    """A trajectory file in `out` that is not there yet."""
    number = 1
    while (path := out / f"{stem}-{number:03d}.jsonl").exists():
        number += 1
    return path
