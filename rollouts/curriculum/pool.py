"""The pool of hard negatives: failures to be played again, bounded and aged. Functions of one open transaction."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError
from wardian.envs.task import TaskId
from wardian.envs.variants import trainable
from wardian.rollouts.curriculum.schema import FailureRow
from wardian.rollouts.curriculum.settings import PoolSettings
from wardian.sandbox.fingerprint import digest
from wardian.tools.faults import FaultProfile


@dataclass(frozen=True, slots=True)
class Failure:
    """An episode that a policy failed, as far as it takes to begin it again: task, seed and profile make its fault plan."""

    task_id: TaskId
    task_hash: str
    seed: int
    faults: FaultProfile
    episode_id: str
    policy: str
    end_cause: str
    step: int = 0
    """Where the policy broke; 0 is unknown."""
    parent: str = ""
    """The task that a variant was made of."""
    snapshot: str = ""
    """Folder of the state before `step`; empty without one."""
    snapshot_key: str = ""

    @property
    def key(self) -> str:
        """The same for the same task, seed and faults."""
        return digest("\n".join((str(self.task_id), str(self.seed), self.faults.hash)).encode())[:16]

    def row(self, draws: int) -> FailureRow:
        """As it is kept."""
        names = ("task_hash", "seed", "episode_id", "policy", "end_cause", "step", "parent", "snapshot", "snapshot_key", "key")
        return FailureRow(
            **{name: getattr(self, name) for name in names},
            family=self.task_id.family,
            difficulty=self.task_id.difficulty.value,
            task_id=str(self.task_id),
            faults=self.faults.model_dump(mode="json"),
            faults_hash=self.faults.hash,
            added=draws,
            played=0,
            streak=0,
        )

    @classmethod
    def of(cls, row: FailureRow) -> "Failure":
        """As it was kept."""
        names = ("task_hash", "seed", "episode_id", "policy", "end_cause", "step", "parent", "snapshot", "snapshot_key")
        values: Mapping[str, Any] = {name: getattr(row, name) for name in names}
        return cls(task_id=TaskId.parse(row.task_id), faults=FaultProfile.model_validate(row.faults), **values)


def add(session: Session, world: WorldDefinition, failure: Failure, draws: int, settings: PoolSettings) -> bool:
    """Put a failure in, or make the entry young again; gives whether it is new.

    Raises:
        HeldOut: its task is of another split than `train`.
        TaskError: there is no such task here any more, or it is another one.
    """
    task = trainable(world, failure.task_id)
    if task.hash != failure.task_hash:
        raise TaskError(f"{failure.task_id}: the world makes another task of this id than the one that failed")
    known = session.get(FailureRow, failure.key)
    if known is not None:
        known.added, known.streak = draws, 0
        if failure.snapshot:
            known.step, known.snapshot, known.snapshot_key = failure.step, failure.snapshot, failure.snapshot_key
        return False
    session.add(failure.row(draws))
    session.flush()
    shrink(session, draws, settings)
    return True


def shrink(session: Session, draws: int, settings: PoolSettings) -> None:
    """Take out what is too old, and of what is too much the oldest."""
    session.execute(delete(FailureRow).where(FailureRow.added < draws - settings.age))
    over = (session.scalar(select(func.count()).select_from(FailureRow)) or 0) - settings.most
    if over > 0:
        oldest = select(FailureRow.key).order_by(FailureRow.added, FailureRow.key).limit(over)
        session.execute(delete(FailureRow).where(FailureRow.key.in_(session.scalars(oldest).all())))


def take(session: Session, world: WorldDefinition, wanted: ColumnElement[bool], draws: int) -> Failure | None:
    """The entry that waited longest. One whose task is no longer there, or not for training, goes instead of being given."""
    while True:
        row = session.scalars(
            select(FailureRow).where(wanted).order_by(FailureRow.played, FailureRow.added, FailureRow.key).limit(1)
        ).one_or_none()
        if row is None:
            return None
        failure = Failure.of(row)
        try:
            whole = trainable(world, failure.task_id).hash == failure.task_hash
        except TaskError:
            whole = False
        if whole:
            row.played = draws
            return failure
        session.delete(row)
        session.flush()


def judge(session: Session, key: str, solved: bool, draws: int, settings: PoolSettings) -> None:
    """Take in what a group of an entry came to: one that is solved again and again goes, one that fails again is young again."""
    row = session.get(FailureRow, key)
    if row is None:
        return
    if not solved:
        row.added, row.streak = draws, 0
        return
    row.streak += 1
    if row.streak >= settings.solved:
        session.delete(row)


def entries(session: Session) -> list[Failure]:
    """All, the one that waited longest first."""
    order = (FailureRow.played, FailureRow.added, FailureRow.key)
    return [Failure.of(row) for row in session.scalars(select(FailureRow).order_by(*order))]


def variant_of(failure: Failure, task_id: TaskId, task_hash: str) -> Failure:
    """The entry of a variant of a failure's task: it begins at the start."""
    parent = failure.parent or str(failure.task_id)
    return replace(failure, task_id=task_id, task_hash=task_hash, parent=parent, snapshot="", snapshot_key="", step=0)
