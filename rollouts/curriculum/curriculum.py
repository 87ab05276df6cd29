"""A curriculum: draws groups of episodes, is told how they ended, and moves to where they carry signal.

Everything it knows stands in its database, so it may be stopped at any time, and any number of processes and machines may share it. Each
draw and each record is one transaction, one after another: the same seed and the same calls in the same order give the same tasks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select, true
from sqlalchemy.orm import Session

from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError
from wardian.envs.splits import Split
from wardian.envs.task import Difficulty, TaskId
from wardian.envs.variants import trainable
from wardian.rollouts.curriculum import pool
from wardian.rollouts.curriculum.placement import Arm, Seen, pay, shares
from wardian.rollouts.curriculum.pool import Failure
from wardian.rollouts.curriculum.report import Report, report_of
from wardian.rollouts.curriculum.schema import FORMAT, ArmRow, FailureRow, GroupRow, Head, OutcomeRow
from wardian.rollouts.curriculum.settings import CurriculumSettings
from wardian.rollouts.curriculum.store import Store, open_store
from wardian.rollouts.errors import UsageProblem
from wardian.sandbox.streams import Stream, stream

TASK_SEEDS = 1_000_000
TRIES = 2_000
"""Tasks that are looked at for one that is new and of the split `train`."""
PROBED = 50
"""The same, to see whether an arm has any."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A group to play: one task, several times, from equal streams."""

    number: int
    """From 1, over all who share the curriculum."""
    task_id: TaskId
    seed: int
    """Of the episodes' streams."""
    policy_seeds: tuple[int, ...]
    """One for each episode."""
    failure: Failure | None = None
    """Where it comes from the pool."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one episode of a group ended."""

    group: int
    """`Draw.number`."""
    episode_id: str
    """Unique over all runs."""
    succeeded: bool | None
    """`None`: masked. It counts nowhere, but the group need not wait for it."""
    reward: float | None = None


@dataclass(frozen=True, slots=True)
class Curriculum:
    """Open with `open_curriculum`."""

    store: Store
    world: WorldDefinition
    settings: CurriculumSettings

    def draw(self, run: str = "", faults_hash: str | None = None, *, hard_only: bool = False) -> Draw:
        """The next group: of the pool where it is its turn and it has a failure under that fault profile, else a fresh task.

        `run` is remembered with it, so that a run that goes on finds what was drawn for it. With `faults_hash` `None` only fresh tasks are
        drawn, and with `hard_only` none. What the pool gives is played from its start; `fatal.begin` begins at its snapshot.

        Raises:
            UsageProblem: the database cannot be used, or there is nothing to be drawn.
        """
        with self.store.alone() as (session, head):
            number = head.draws + 1
            rng = stream(self.settings.seed, f"draw/{number}")
            failure = self._hard(session, head, number, faults_hash, 1.0 if hard_only else self.settings.pool.share)
            if hard_only and failure is None:
                raise UsageProblem(
                    f"curriculum: the pool of {self.store.name} has no failure under this fault profile; "
                    "`wardian curriculum add` puts some in, and --faults says the profile"
                )
            task_id = failure.task_id if failure else self._fresh(session, rng)
            drawn = Draw(
                number,
                task_id,
                failure.seed if failure else rng.getrandbits(32),
                tuple(rng.getrandbits(32) for _ in range(self.settings.group)),
                failure,
            )
            head.draws = number
            session.add(_group(drawn, run))
        return drawn

    def drawn_for(self, run: str) -> list[Draw]:
        """What was drawn for a run, in order."""
        with self.store.alone() as (session, _):
            rows = session.scalars(select(GroupRow).where(GroupRow.run == run).order_by(GroupRow.number)).all()
            return [Draw(row.number, TaskId.parse(row.task_id), row.seed, tuple(row.policy_seeds)) for row in rows]

    def record(self, outcomes: Iterable[Outcome]) -> int:
        """Take outcomes in; gives how many were new. One that was told before changes nothing.

        Raises:
            UsageProblem: the database cannot be used, or there is no such group.
        """
        new = 0
        with self.store.alone() as (session, head):
            for outcome in outcomes:
                if session.get(OutcomeRow, outcome.episode_id) is not None:
                    continue
                group = session.get(GroupRow, outcome.group)
                if group is None:
                    raise UsageProblem(f"curriculum: {self.store.name} has drawn no group {outcome.group}")
                session.add(
                    OutcomeRow(episode_id=outcome.episode_id, group=outcome.group, succeeded=outcome.succeeded, reward=outcome.reward)
                )
                group.judged += outcome.succeeded is not None
                group.succeeded += bool(outcome.succeeded)
                group.masked += outcome.succeeded is None
                new += 1
                if not group.closed and group.judged + group.masked >= len(group.policy_seeds):
                    self._close(session, head, group)
        return new

    def add_failures(self, failures: Iterable[Failure]) -> tuple[int, int]:
        """Put failures into the pool; gives how many are new, and how many were left out as not for training or no longer there.

        Raises:
            UsageProblem: the database cannot be used.
        """
        new = refused = 0
        with self.store.alone() as (session, head):
            for failure in failures:
                try:
                    new += pool.add(session, self.world, failure, head.draws, self.settings.pool)
                except TaskError:
                    refused += 1
        return new, refused

    def failures(self) -> list[Failure]:
        """The pool, the entry that waited longest first."""
        with self.store.alone() as (session, _):
            return pool.entries(session)

    def shares(self) -> dict[Arm, float]:
        """How often each arm is drawn now; together 1."""
        with self.store.alone() as (session, _):
            return self._shares(_arms(session))

    def report(self) -> Report:
        """What was drawn and what came of it, by family and difficulty."""
        with self.store.alone() as (session, head):
            return report_of(session, head, self._shares(_arms(session)))

    def _hard(self, session: Session, head: Head, number: int, faults_hash: str | None, share: float) -> Failure | None:
        """A failure, where the pool has credit and one that can be played so."""
        if faults_hash is None:
            return None
        pool.shrink(session, head.draws, self.settings.pool)
        credit = head.pool_credit + share
        if credit < 1 - 1e-9:
            head.pool_credit = credit
            return None
        found = pool.take(session, self.world, FailureRow.faults_hash == faults_hash, number)
        # Credit that nothing could be had for is kept, but no more than for one draw.
        head.pool_credit = credit - 1 if found else 1.0
        return found

    def _fresh(self, session: Session, rng: Stream) -> TaskId:
        """A task that was not drawn before, of the arm whose turn it is."""
        rows = _arms(session)
        credits = {arm: row.credit for arm, row in rows.items()}
        (family, difficulty), paid = pay(credits, self._shares(rows), list(rows))
        for arm, row in rows.items():
            row.credit = paid[arm]
        first = rng.randrange(TASK_SEEDS)
        for seed in range(first, first + TRIES):
            found = TaskId(family, Difficulty(difficulty), seed)
            if _may_be_drawn(self.world, found) and not _was_drawn(session, found):
                return trainable(self.world, found).id
        raise UsageProblem(f"curriculum: found no new {difficulty} task of {family} for training")

    def _shares(self, rows: dict[Arm, ArmRow]) -> dict[Arm, float]:
        seen = {arm: Seen(row.succeeded, row.judged, row.mixed, row.groups) for arm, row in rows.items()}
        return shares(seen, self.settings.placement, self.settings.group)

    def _close(self, session: Session, head: Head, group: GroupRow) -> None:
        """All of a group was played: its arm learns of it, or its entry in the pool. Hard negatives say nothing of their arm."""
        session.flush()
        rewards = session.scalars(select(OutcomeRow.reward).where(OutcomeRow.group == group.number, OutcomeRow.succeeded.is_not(None)))
        group.closed, group.reward_variance = True, _variance([reward for reward in rewards if reward is not None])
        if not group.judged:
            return
        if group.failure:
            pool.judge(session, group.failure, group.succeeded == group.judged, head.draws, self.settings.pool)
            return
        row = session.get(ArmRow, (group.family, group.difficulty))
        if row is not None:
            seen = Seen(row.succeeded, row.judged, row.mixed, row.groups)
            fed = seen.fed(group.judged, group.succeeded, self.settings.placement.decay)
            row.succeeded, row.judged, row.mixed, row.groups = fed.succeeded, fed.judged, fed.mixed, fed.groups


def open_curriculum(where: str | Path, world: WorldDefinition, asked_for: str, create: CurriculumSettings | None = None) -> Curriculum:
    """Open the curriculum at `where`, a SQLite file or a URL, for a world that was loaded as `asked_for`.

    With `create` it is made, so set up, where there is none; one that is there keeps its settings. Families that the world has got since
    are added.

    Raises:
        UsageProblem: there is none, it is of another world, or the settings do not fit the world.
    """
    arms = _arms_of(world)
    head = None
    if create is not None:
        create.placement.check_floor(len({family for family, _ in arms}))
        head = Head(id=1, format=FORMAT, world=asked_for, settings=create.as_json(), draws=0, pool_credit=0.0)
    store = open_store(where, head)
    with store.alone() as (session, found):
        if found.world != asked_for:
            raise UsageProblem(f"curriculum: {store.name} is of the world {found.world}, and not of {asked_for}; name another file")
        settings = CurriculumSettings.of(found.settings)
        known = _arms(session)
        for family, difficulty in known.keys() - set(arms):
            session.delete(known[family, difficulty])
        for family, difficulty in arms:
            if (family, difficulty) not in known:
                empty = {"credit": 0.0, "succeeded": 0.0, "judged": 0.0, "mixed": 0.0, "groups": 0.0}
                session.add(ArmRow(family=family, difficulty=difficulty, **empty))
    return Curriculum(store, world, settings)


def world_of(where: str | Path) -> str:
    """The world that the curriculum at `where` is of, as it is asked for.

    Raises:
        UsageProblem: there is none.
    """
    with open_store(where, None).alone() as (_, head):
        return head.world


def _arms_of(world: WorldDefinition) -> list[Arm]:
    """Families and difficulties that have something to train on."""
    pairs = [(family.name, level) for family in world.families for level in family.difficulties]
    arms = [(name, level.value) for name, level in pairs if any(_may_be_drawn(world, TaskId(name, level, seed)) for seed in range(PROBED))]
    if not arms:
        raise UsageProblem(f"curriculum: the world {world.name} has no task for training")
    return arms


def _may_be_drawn(world: WorldDefinition, task_id: TaskId) -> bool:
    return world.family(task_id.family).split_at(task_id.difficulty, task_id.seed) == Split.TRAIN


def _was_drawn(session: Session, task_id: TaskId) -> bool:
    return session.scalars(select(GroupRow.number).where(GroupRow.task_id == str(task_id)).limit(1)).first() is not None


def _arms(session: Session) -> dict[Arm, ArmRow]:
    return {
        (row.family, row.difficulty): row
        for row in session.scalars(select(ArmRow).where(true()).order_by(ArmRow.family, ArmRow.difficulty))
    }


def _group(drawn: Draw, run: str) -> GroupRow:
    return GroupRow(
        number=drawn.number,
        run=run,
        family=drawn.task_id.family,
        difficulty=drawn.task_id.difficulty.value,
        task_id=str(drawn.task_id),
        seed=drawn.seed,
        policy_seeds=list(drawn.policy_seeds),
        failure=drawn.failure.key if drawn.failure else "",
        judged=0,
        succeeded=0,
        masked=0,
        reward_variance=None,
        closed=False,
    )


def _variance(values: list[float]) -> float | None:
    """Of the whole, not an estimate; `None` of fewer than two."""
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)
