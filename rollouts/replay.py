"""Runs the action logs of a trajectory again and compares every step with what was recorded.

*Reproduced* means that a strange reward is the environment's doing; *not reproduced* means nondeterminism, and the first difference
is named. Only final attempts are run; masked and unfinished ones are left out and counted.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio

from wardian.envs.errors import TaskError
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.tokens import DEFAULT, ESTIMATE, Tokenizer, load_tokenizer
from wardian.rollouts.errors import LogBroken, LogForeign
from wardian.rollouts.ground import Ground
from wardian.rollouts.recorded import Outcomes
from wardian.rollouts.recording import Setting, versions_of
from wardian.rollouts.records import EpisodeStart, RunRecord, TokenizerPart
from wardian.rollouts.rerun import Replayed, Rerun
from wardian.rollouts.trajectory import AttemptLog, TrajectoryLog
from wardian.tools.faults import FaultProfile

ATTEMPTS = 3
SHOWN_STEPS = 10
"""Of those that are missing."""


@dataclass(slots=True)
class Selection:
    """Final attempts that can be run again, and those that cannot."""

    episodes: list[AttemptLog] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Episodes that have no end that counts, by reason."""
    broken: list[Replayed] = field(default_factory=list)
    """Episodes that have one, and not every line before it: nothing that a crash leaves, and never identical."""


def select(log: TrajectoryLog, episode_id: str | None = None) -> Selection:
    """The final attempt of each episode, or of one.

    Raises:
        LogBroken: a line is not readable, or there is no such episode.
    """
    chosen = Selection()
    for name in [log.find(episode_id)] if episode_id else log.episodes:
        attempts = log.attempts(name)
        if reason := _why_not(attempts):
            chosen.skipped[reason] += 1
        elif missing := _missing(attempts[-1]):
            chosen.broken.append(Replayed(name, problem=missing))
        else:
            # Without the steps, which would be most of the memory; they are read when their turn comes.
            chosen.episodes.append(replace(attempts[-1], steps=[]))
    return chosen


def _why_not(attempts: Sequence[AttemptLog]) -> str:
    last = attempts[-1] if attempts else None
    if last is None or last.end is None:
        return "unfinished"
    if not last.end.mask:
        return f"masked ({last.end.end_cause})"
    return ""


def _missing(last: AttemptLog) -> str:
    """Which lines of an attempt that ended are not where they belong; empty when all are."""
    assert last.end is not None, "attempts without an end are skipped"
    if last.start is None:
        return "its log has an end and no start: a line is missing"
    found = [step.step for step in last.steps]
    if found == list(range(1, last.end.steps + 1)):
        return ""
    lost = sorted(set(range(1, last.end.steps + 1)) - set(found))
    if not lost:
        return f"its log has more steps than the {last.end.steps} of its end, or has them out of order"
    return f"lines missing: of its {last.end.steps} steps the log lacks {', '.join(map(str, lost[:SHOWN_STEPS]))}"


def foreign(start: EpisodeStart, setting: Setting) -> tuple[str, ...]:
    """In what a log's versions are not those here."""
    recorded, here = start.versions.model_dump(), setting.versions.model_dump()
    if recorded["database"] != here["database"]:
        # Asked for: the other engine. Its template has another key; that its rows are the same is what the fingerprint of the start says.
        here |= {name: recorded[name] for name in ("database", "template")}
    lines = [f"{name}: recorded {recorded[name]}, here {here[name]}" for name in recorded if recorded[name] != here[name]]
    counted, counts = start.tokenizer, setting.tokenizer
    if (counted.name, counted.version) != (counts.name, counts.version):
        lines.append(f"tokenizer: recorded {counted.name}@{counted.version}, here {counts.label}{_why_another(counted)}")
    return tuple(lines)


def tokenizer_of(recorded: TokenizerPart) -> Tokenizer:
    """The tokenizer that a log was counted with; the estimate where it cannot be had, which `foreign` then says."""
    try:
        return load_tokenizer(recorded.source or DEFAULT)
    except TaskError:
        return ESTIMATE


def _why_another(recorded: TokenizerPart) -> str:
    if not recorded.source:
        return " (nothing says how to make that one; it was given in code)"
    try:
        load_tokenizer(recorded.source)
    except TaskError as error:
        return f" ({error})"
    return ""


def setting_of(start: EpisodeStart, ground: Ground) -> Setting:
    """How the episode was run, with the versions that are here."""
    return Setting(
        world=ground.world,
        asked_for=start.world,
        versions=versions_of(ground),
        faults=FaultProfile.model_validate(start.faults),
        malformed=start.malformed,
        recompute_every=start.recompute_every,
        tokenizer=tokenizer_of(start.tokenizer),
        split=None,
    )


@dataclass(slots=True)
class Replay:
    """Runs episodes again, concurrently. `run` once."""

    log: TrajectoryLog
    ground: Ground
    force: bool = False
    """Run logs of other versions too."""
    to_step: int | None = None
    """Stop each episode after this step."""
    watch: Callable[[Replayed], None] = lambda replayed: None
    results: dict[str, Replayed] = field(default_factory=dict)

    async def run(self, episodes: Sequence[AttemptLog], *, workers: int) -> list[Replayed]:
        """Run all, each on a cell of the uid that it had, where the pool has that one; gives results in the order of `episodes`.

        Raises:
            LogForeign: the log was made by other versions, and `force` is not set.
            LogBroken: a line does not make an action.
        """
        self.refuse_foreign(episodes)
        failure: LogBroken | None = None
        try:
            async with anyio.create_task_group() as group:
                for queue in _queues(episodes, workers):
                    group.start_soon(self._work, queue)
        except* LogBroken as broken:
            failure = next(error for error in _leaves_of(broken) if isinstance(error, LogBroken))
        if failure is not None:
            raise failure
        return [self.results[attempt.episode_id] for attempt in episodes]

    def refuse_foreign(self, episodes: Sequence[AttemptLog]) -> None:
        """Look whether the versions here are those that made the log; with `force` they need not be.

        Raises:
            LogForeign: they are not.
            LogBroken: nothing says so, as the log lacks the `run` line of an episode.
        """
        for attempt in episodes:
            assert attempt.start is not None, "only started attempts are selected"
            if not self.force and self._head_of(attempt) is None:
                raise LogBroken(
                    f"{attempt.episode_id}: the log has no run line of its run; put the file's first line back, or replay with --force"
                )
            lines = () if self.force else foreign(attempt.start, setting_of(attempt.start, self.ground))
            if lines:
                raise LogForeign(lines)

    async def _work(self, queue: Sequence[AttemptLog]) -> None:
        for attempt in queue:
            for _ in range(ATTEMPTS):
                replayed = await self._replay(attempt)
                if not replayed.problem:
                    break
            self.results[attempt.episode_id] = replayed
            self.watch(replayed)

    async def _replay(self, selected: AttemptLog) -> Replayed:
        async with self.rerun(selected) as again:
            begun = await again.begin()
            return await again.advance(self.to_step) if begun.identical else begun

    @asynccontextmanager
    async def rerun(self, selected: AttemptLog, *, hold_ended: bool = False) -> AsyncIterator[Rerun]:
        """An environment in which the episode is about to be run again; with `hold_ended` its world stands after the last step too."""
        attempt = self.log.attempts(selected.episode_id)[-1]
        start = attempt.start
        assert start is not None, "only started attempts are selected"
        outcomes = Outcomes(attempt.steps)
        settings = Settings(recompute_every=start.recompute_every, hold_ended=hold_ended)
        setting = setting_of(start, self.ground)
        async with self.ground.environment(
            setting.faults, MalformedPolicy(start.malformed), settings, outcomes.world(self.ground.world), setting.tokenizer
        ) as env:
            yield Rerun(env, attempt, start, setting, self._head_of(attempt))

    def _head_of(self, attempt: AttemptLog) -> RunRecord | None:
        name = attempt.episode_id.rpartition("-")[0]
        return next((run for _, run in self.log.runs if run.run == name), None)


def _queues(episodes: Sequence[AttemptLog], workers: int) -> Iterator[list[AttemptLog]]:
    """One list per worker; episodes of one uid go to one worker, so that their cell is free when they need it."""
    queues: list[list[AttemptLog]] = [[] for _ in range(workers)]
    places = {uid: place for place, uid in enumerate(uids_of(episodes))}
    for number, attempt in enumerate(episodes):
        uid = attempt.start.receipt.agent_uid if attempt.start and attempt.start.receipt else None
        queues[(number if uid is None else places[uid]) % workers].append(attempt)
    return (queue for queue in queues if queue)


def uids_of(episodes: Sequence[AttemptLog]) -> tuple[int, ...]:
    """The agents' uids that a log recorded, lowest first: one cell for each gives every episode the uid that it had."""
    receipts = [attempt.start.receipt for attempt in episodes if attempt.start]
    return tuple(sorted({receipt.agent_uid for receipt in receipts if receipt is not None and receipt.agent_uid is not None}))


def _leaves_of(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves_of(error)
        else:
            yield error
