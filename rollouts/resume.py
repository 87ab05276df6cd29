"""Going on where a run stopped: what its folder says is played, and what is still to be done.

An episode is played when its log has a final end: one that was neither cancelled nor to be tried again. All others are played anew, as
further attempts from the same seeds, in a file of their own; what stands in the folder is never touched.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from wardian.envs.tokens import Tokenizer
from wardian.rollouts.errors import LogBroken, UsageProblem
from wardian.rollouts.folder import await_writers
from wardian.rollouts.lines import is_strict, may_be_torn
from wardian.rollouts.plan import Planned
from wardian.rollouts.play import CANCELLED
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, Json, RunRecord, StepRecord
from wardian.rollouts.summary import Tally
from wardian.rollouts.torn import Torn
from wardian.rollouts.trajectory import check, damage, kind_of, lines_of
from wardian.tools.faults import FaultProfile

FREE = frozenset(
    {
        *("episodes", "cells", "workers", "attempts", "out", "as_json", "progress", "worker", "continued", "tasks"),
        *("base_url", "api_key_env", "concurrency", "streaming", "silence_s", "deadline_s", "tries", "gone_after"),
    }
)
"""Parameters that may be others when a run goes on: they change nothing about an episode. `episodes` may only grow."""

LOOKED_AT = 10
"""Lines of a file by which it is taken for that of a run, or not."""


@dataclass(slots=True)
class Played:
    """What the files of a run hold."""

    head: RunRecord
    first: EpisodeStart | None = None
    """Of any episode: how all are played."""
    ends: list[EpisodeEnd] = field(default_factory=list)
    starts_ms: list[float] = field(default_factory=list)
    restores_ms: list[float] = field(default_factory=list)
    leaks: int = 0
    attempts: dict[str, int] = field(default_factory=dict)
    """The last attempt that was begun, by episode."""

    @property
    def final(self) -> dict[str, EpisodeEnd]:
        """The ends after which an episode is not played again."""
        return {end.episode_id: end for end in self.ends if is_final(end)}

    def count_into(self, tally: Tally) -> None:
        """Add what was played; cancelled attempts say nothing, and are played again."""
        tally.starts_ms += self.starts_ms
        tally.restores_ms += self.restores_ms
        tally.starts_leaked += self.leaks
        tally.kept += len(self.final)
        tally.unfinished |= self.attempts.keys() - self.final.keys()
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

    def take(self, record: EpisodeStart | EpisodeEnd) -> None:
        """Count a line."""
        self.attempts[record.episode_id] = max(record.attempt, self.attempts.get(record.episode_id, 0))
        if isinstance(record, EpisodeEnd):
            self.ends.append(record)
            return
        self.first = self.first or record
        self.starts_ms.append(record.reset_ms)
        self.restores_ms += [] if (inside := restore_ms(record)) is None else [inside]
        self.leaks += len(record.leaks)

    def check(self, faults: FaultProfile, tokenizer: Tokenizer) -> None:
        """Check what options only name.

        Raises:
            UsageProblem: the profile or the tokenizer is another one than before.
        """
        if self.first is None:
            return
        if self.first.faults_hash != faults.hash:
            raise UsageProblem(f"faults: the profile {faults.name} is not what it was when the run began; name a new folder")
        counted = self.first.tokenizer
        if (counted.name, counted.version) != (tokenizer.name, tokenizer.version):
            before = f"{counted.name}@{counted.version}"
            raise UsageProblem(f"tokenizer: the run was counted by {before}, and here is {tokenizer.label}; name a new folder")


def restore_ms(start: EpisodeStart) -> float | None:
    """Time inside the cell of the reset that an episode began with; `None` without a cell."""
    receipt = start.receipt
    return receipt.ended_ms + receipt.made_ms + receipt.verified_ms if receipt else None


def is_final(end: EpisodeEnd) -> bool:
    """Whether its episode is done."""
    return end.outcome != CANCELLED and not end.retried


def played(files: Iterable[Path]) -> Played | None:
    """Read the first and last lines of all attempts; `None` where no `run` line is whole.

    Raises:
        UsageProblem: the files are of several runs.
        LogBroken: a line is damaged otherwise than by a crash.
    """
    found: Played | None = None
    for file in files:
        for record in _without_steps(file):
            if isinstance(record, RunRecord):
                found = found or Played(record)
                if record.run != found.head.run:
                    raise UsageProblem(f"out: {file} holds the run {record.run} beside {found.head.run}; keep one run in a folder")
            elif found is None:
                raise LogBroken(f"{file}: begins without a run line; put the file's first line back")
            else:
                found.take(record)
    return found


def _without_steps(file: Path) -> Iterator[RunRecord | EpisodeStart | EpisodeEnd]:
    torn = Torn()
    for place, line in lines_of(file):
        if kind_of(line) == "step" and torn.held is None and place.ended and is_strict(line):
            continue
        record, findings = check(place, line)
        if (before := torn.settle(record)) is not None and not before.torn:
            raise LogBroken(str(before))
        if findings and not torn.hold(findings):
            raise LogBroken(str(findings[0]))
        if record is not None and not isinstance(record, StepRecord):
            yield record


def _is_a_runs(file: Path) -> bool:
    """Whether some line is of a trajectory, or may be the beginning of one. A file without lines is that of a writer that was killed."""
    lines = [line for _, line in islice(lines_of(file), LOOKED_AT)]
    return not lines or any(kind_of(line) or may_be_torn(line) for line in lines)


def stopped_run(out: Path, asked: Mapping[str, Json]) -> Played | None:
    """The run in `out` that is to go on; `None` where there is none.

    Raises:
        UsageProblem: it was asked for otherwise; names the option that differs.
        LogBroken: it is damaged: `validate` refuses it.
        LogInUse: it is still being written.
    """
    if not out.is_dir() or not any(out.glob("*.jsonl")):
        return None
    if (foreign := next((file for file in sorted(out.glob("*.jsonl")) if not _is_a_runs(file)), None)) is not None:
        raise UsageProblem(f"out: {out} is not a run's folder: {foreign.name} there is no trajectory; name another folder")
    await_writers(out)
    for file in out.glob("*.jsonl"):
        if not file.stat().st_size:
            file.unlink()  # of a writer that was killed before its first line
    found = played(sorted(out.glob("*.jsonl")))
    if found is None:
        return None
    before = found.head.parameters
    for name in sorted(before.keys() & asked.keys() - FREE):
        if before[name] != asked[name]:
            raise UsageProblem(
                f"{name}: the run in {out} was begun with {before[name]!r}, so it cannot go on with {asked[name]!r}; "
                "give the same as then, or name a new folder"
            )
    if asked.get("twin"):
        raise UsageProblem(f"twin: {out} holds a run already, and one with twins cannot go on; name a new folder")
    if (fewer := int(asked["episodes"])) < int(before["episodes"]):
        raise UsageProblem(f"episodes: {out} holds a run of {before['episodes']}, more than {fewer}; give at least as many")
    if (wrong := damage(out)) is not None:
        raise LogBroken(f"{wrong}; a damaged run cannot go on: `wardian validate {out}` names all of it, or name a new folder")
    return found
