"""What the lines of a log must say of each other: every episode begins, counts its steps, ends once, and its end is the sum of its steps.

Lines of concurrent episodes alternate, and several files may share a log. What a crash explains is no fault: an attempt without an end,
where the file ends or another writer goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from wardian.rollouts.agreement import disagreements
from wardian.rollouts.lines import Finding, Place
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, Json, RunRecord, StepRecord
from wardian.rollouts.rules import COPY, Fault, faults_of, same_reward, shown
from wardian.rollouts.sums import StepSums
from wardian.tools.faults import PROFILES

AnyLine = RunRecord | EpisodeStart | StepRecord | EpisodeEnd
Key = tuple[str, int]
"""Episode and attempt."""

SHARED = ("task_id", "env_version", "policy", "task_hash", "seed", "split", "versions", "tier")
"""Equal in all lines of an attempt."""
SETTING = ("world", "faults", "malformed", "recompute_every", "tokenizer")
"""Of the starts of one run: how all its episodes are played."""
DELETE = "delete the line that does not belong there"


@dataclass(slots=True)
class Running:
    """An attempt whose end was not met yet, and the sums that its end must have."""

    begun: Place
    first: EpisodeStart
    over: str = ""
    """How the last step ended it: its outcome; empty while it goes on."""
    last: StepRecord | None = None
    sums: StepSums = field(default_factory=StepSums)

    def add(self, step: StepRecord) -> None:
        """Count a step."""
        self.last = step
        self.sums.add(step)
        self.over = "failed" if step.failed is not None else "terminated" if step.terminated else "truncated" if step.truncated else ""


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that has its last line."""

    place: Place
    task: tuple[Json, ...]
    """Task, seed and policy, which are the same in the next attempt."""
    again: bool
    """Another attempt may follow: it was retried or cancelled."""


@dataclass(slots=True)
class Coherence:
    """Takes the lines of a log in order, file after file, and says what contradicts what came before."""

    heads: dict[str, list[tuple[Place, RunRecord]]] = field(default_factory=dict)
    """The `run` lines of each run."""
    settings: dict[str, EpisodeStart] = field(default_factory=dict)
    """First start of each run."""
    running: dict[Key, Running] = field(default_factory=dict)
    """In the file that is being read, since its last `run` line."""
    ended: dict[Key, Ended] = field(default_factory=dict)
    unfinished: dict[Key, Place] = field(default_factory=dict)
    """Attempts that a crash cut off."""
    head: RunRecord | None = None
    """That of the lines that are being read."""
    unread: set[str] = field(default_factory=set)
    """Episodes with a line that cannot be read: what their other lines make of it would only repeat that."""

    def begin_file(self) -> None:
        """Another file follows."""
        self._cut_off()
        self.head = None

    def take(self, place: Place, record: AnyLine) -> Iterator[Finding]:
        """The next line."""
        between = self._faults(place, record) if isinstance(record, RunRecord) or record.episode_id not in self.unread else ()
        within = disagreements(record) if isinstance(record, StepRecord) else ()
        for fault in (*faults_of(record), *within, *between):
            yield Finding(place, fault.field, fault.message, record=label(record), fix=fault.fix)

    def skip(self, episode_id: str) -> None:
        """A line of this episode cannot be read, and is said to be wrong already."""
        self.unread.add(episode_id)

    def close(self) -> Iterator[Finding]:
        """After the last line: what only all files together can show."""
        self._cut_off()
        numbers: dict[str, list[int]] = {}
        for episode, number in {**self.ended, **self.unfinished}:
            numbers.setdefault(episode, []).append(number)
        for episode, found in numbers.items():
            if episode in self.unread:
                continue
            yield from self._attempts(episode, sorted(found))

    def _faults(self, place: Place, record: AnyLine) -> Iterator[Fault]:
        if isinstance(record, RunRecord):
            yield from self._run(place, record)
            return
        if self.head is None:
            yield Fault("", "no run line stands before it in this file", "put the file's first line back")
        elif record.versions != self.head.versions:
            yield Fault("versions", "are not those of the run line before it")
        match record:
            case EpisodeStart():
                yield from self._start(place, record)
            case StepRecord():
                yield from self._step(record)
            case EpisodeEnd():
                yield from self._end(place, record)

    def _run(self, place: Place, run: RunRecord) -> Iterator[Fault]:
        self._cut_off()
        self.head = run
        heads = self.heads.setdefault(run.run, [])
        heads.append((place, run))
        first_place, first = heads[0]
        if twice := next((before for before, head in heads[:-1] if head == run), None):
            yield Fault("", f"stands twice; first at {twice}", DELETE)
        for name in ("world", "versions", "tool_schemas"):
            if getattr(run, name) != getattr(first, name):
                yield Fault(name, f"is another one than in the first line of this run ({first_place})")

    def _start(self, place: Place, start: EpisodeStart) -> Iterator[Fault]:
        key = (start.episode_id, start.attempt)
        if before := self._place_of(key):
            yield Fault("attempt", f"{start.attempt} of this episode begins a second time; first at {before}", DELETE)
            return
        if (start.episode_id, start.attempt - 1) in self.running:
            yield Fault("attempt", f"{start.attempt} begins, and the one before it has no end")
        self.running[key] = Running(place, start)
        self.running[key].sums.begin(start)
        if self.head is None:
            return
        if not start.episode_id.startswith(f"{self.head.run}-"):
            yield Fault("episode_id", f"is not one of the run {self.head.run}")
        first = self.settings.setdefault(self.head.run, start)
        for name in SETTING:
            if getattr(start, name) != getattr(first, name):
                yield Fault(name, f"is another one than in the run's first episode, {first.episode_id}")
        asked = self.head.parameters
        said = {"world": start.world, "malformed": start.malformed, "tokenizer": start.tokenizer.source}
        if asked.get("faults") in PROFILES and not asked.get("twin"):  # else a file, or the log of twins, which meet no faults
            said["faults"] = str(start.faults.get("name"))
        for name, value in said.items():
            if name in asked and asked[name] != value:
                yield Fault(name, f"is {value!r}, and the run line's parameters say {asked[name]!r}")
        if start.world != self.head.world:
            yield Fault("world", f"is {start.world!r}, and the run line says {self.head.world!r}", f"write {self.head.world!r}")

    def _step(self, step: StepRecord) -> Iterator[Fault]:
        key = (step.episode_id, step.attempt)
        attempt = self.running.get(key)
        if attempt is None:
            yield self._out_of_place(key, f"step {step.step}")
            return
        due = attempt.sums.steps + 1
        if step.step != due:
            what = "a line stands twice, or out of order" if step.step < due else "a line is missing, or out of order"
            yield Fault("step", f"is {step.step} where {due} is due: {what}", "put the lines in order")
        if attempt.over:
            yield Fault("step", f"{step.step} follows on a step by which the episode had {attempt.over}", DELETE)
        yield from _shared(attempt, step)
        receipt = attempt.first.receipt
        if step.receipt != (f"{receipt.cell_id}#{receipt.epoch}" if receipt else None):
            yield Fault("receipt", f"is {step.receipt!r}, and the start's is another")
        if step.clock_ms < (attempt.last or attempt.first).clock_ms:
            yield Fault("clock_ms", "goes back")
        if due <= step.step:
            attempt.add(step)

    def _end(self, place: Place, end: EpisodeEnd) -> Iterator[Fault]:
        key = (end.episode_id, end.attempt)
        attempt = self.running.pop(key, None)
        if key in self.ended:
            yield Fault("", f"attempt {end.attempt} of this episode ends a second time; first at {self.ended[key].place}", DELETE)
            return
        self.ended[key] = Ended(place, (end.task_id, end.seed, end.policy), end.retried or end.outcome == "cancelled")
        if attempt is not None:
            yield from _shared(attempt, end)
            yield from _sums(attempt, end)
        elif end.steps or end.mask or key in self.unfinished:
            yield Fault("", f"attempt {end.attempt} of this episode ends and has no start before it in this file", COPY)

    def _out_of_place(self, key: Key, what: str) -> Fault:
        if key in self.ended:
            return Fault("", f"{what} stands after the end of its episode ({self.ended[key].place})", DELETE)
        return Fault("", f"{what} stands before any start of attempt {key[1]} of its episode in this file", COPY)

    def _place_of(self, key: Key) -> Place | None:
        if key in self.running:
            return self.running[key].begun
        return self.ended[key].place if key in self.ended else self.unfinished.get(key)

    def _cut_off(self) -> None:
        self.unfinished.update({key: attempt.begun for key, attempt in self.running.items()})
        self.running.clear()

    def _attempts(self, episode: str, numbers: list[int]) -> Iterator[Finding]:
        """The rules between the attempts of one episode, whichever file they stand in."""
        for due, number in enumerate(numbers, 1):
            ended = self.ended.get((episode, number))
            place = ended.place if ended else self.unfinished[episode, number]
            if number != due:
                message = f"is {number}, and the log has no attempt {due} of {episode}"
                yield Finding(place, "attempt", message, record="episode", fix=COPY)
                return
            if ended is None or number == numbers[-1]:
                continue
            if not ended.again:
                yield Finding(place, "", f"{episode} goes on after its final end", record="episode_end", fix=DELETE)
            after = self.ended.get((episode, number + 1))
            if after is not None and after.task != ended.task:
                yield Finding(
                    after.place, "task_id", f"{episode} has another task, seed or policy than before", record="episode_end", fix=COPY
                )


def label(record: AnyLine) -> str:
    """Which line it is, in words."""
    if isinstance(record, RunRecord):
        return f"run {record.run}"
    kind = f"step {record.step}" if isinstance(record, StepRecord) else record.record
    return f"{kind} of {record.episode_id}"


def _shared(attempt: Running, record: StepRecord | EpisodeEnd) -> Iterator[Fault]:
    for name in SHARED:
        if getattr(record, name) != getattr(attempt.first, name):
            expected = getattr(attempt.first, name)
            yield Fault(
                name, f"is not what the episode's start says ({attempt.begun})", f"write {expected!r}" if name != "versions" else COPY
            )


def _sums(attempt: Running, end: EpisodeEnd) -> Iterator[Fault]:
    """What an end says against what its steps come to."""
    judged = end.outcome in ("terminated", "truncated")
    last = attempt.last
    for name, expected in _expected(attempt).items():
        if getattr(end, name) != expected:
            found = getattr(end, name)
            yield Fault(
                name, f"is {shown(found)}, and the steps make it {shown(expected)}", f"write {shown(expected)}, or find the lost line"
            )
    rewards, summed = attempt.sums.rewards if judged else {}, end.reward_components
    if rewards.keys() != summed.keys() or not all(same_reward(rewards[name], summed[name]) for name in rewards):
        yield Fault("reward_components", f"are {shown(summed)}, and the steps make them {shown(rewards)}")
    if attempt.over != (end.outcome if judged or attempt.over else ""):
        ended = f"the last step had {attempt.over}" if attempt.over else "no step ended the episode"
        yield Fault("outcome", f"is {end.outcome!r}, and {ended}")
    if last is not None and attempt.over:
        if end.end_cause != last.end_cause:
            yield Fault("end_cause", f"is {end.end_cause!r}, and the last step says {last.end_cause!r}", f"write {last.end_cause!r}")
        if end.detail != (last.failed or ""):
            yield Fault("detail", "is not what the last step says")
        if end.verdict != last.verdict:
            yield Fault("verdict", "is not that of the last step")


def _expected(attempt: Running) -> dict[str, Json]:
    return {**attempt.sums.fields(), "policy_checkpoint": (attempt.last or attempt.first).policy_checkpoint}
