"""The tables of a curriculum. One curriculum is one database, shared by all who play for it."""

from sqlalchemy import JSON, BigInteger, ForeignKey, Index
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

FORMAT = 1
"""Of the tables; a database of another one is refused."""


class Base(DeclarativeBase):
    pass


class Head(Base):
    """One row. Whoever draws or records holds it, so one does so at a time."""

    __tablename__ = "curriculum"
    id: Mapped[int] = mapped_column(primary_key=True)
    format: Mapped[int]
    world: Mapped[str]
    """As it is asked for: a name, or `package.module:function`."""
    settings: Mapped[dict[str, object]] = mapped_column(JSON)
    draws: Mapped[int]
    """Groups drawn so far."""
    pool_credit: Mapped[float]


class ArmRow(Base):
    """What is known of a family at a difficulty."""

    __tablename__ = "arms"
    family: Mapped[str] = mapped_column(primary_key=True)
    difficulty: Mapped[str] = mapped_column(primary_key=True)
    credit: Mapped[float]
    succeeded: Mapped[float]
    judged: Mapped[float]
    mixed: Mapped[float]
    groups: Mapped[float]


class GroupRow(Base):
    """One draw: a task that is played several times."""

    __tablename__ = "groups"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    run: Mapped[str]
    """Of whom it was drawn for; empty when nobody said."""
    family: Mapped[str]
    difficulty: Mapped[str]
    task_id: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    policy_seeds: Mapped[list[int]] = mapped_column(JSON)
    failure: Mapped[str]
    """The entry of the pool that it comes from; empty for a fresh task."""
    judged: Mapped[int]
    succeeded: Mapped[int]
    masked: Mapped[int]
    reward_variance: Mapped[float | None]
    """Within the group, once all of it was played; `None` with fewer than two judged."""
    closed: Mapped[bool]

    __table_args__ = (Index("groups_by_run", "run"), Index("groups_by_task", "task_id"))


class OutcomeRow(Base):
    """How one episode ended. Saying it twice changes nothing."""

    __tablename__ = "outcomes"
    episode_id: Mapped[str] = mapped_column(primary_key=True)
    group: Mapped[int] = mapped_column("group_number", ForeignKey(GroupRow.number), index=True)
    succeeded: Mapped[bool | None]
    """`None`: masked."""
    reward: Mapped[float | None]


class FailureRow(Base):
    """One entry of the pool of hard negatives."""

    __tablename__ = "failures"
    key: Mapped[str] = mapped_column(primary_key=True)
    family: Mapped[str]
    difficulty: Mapped[str]
    task_id: Mapped[str]
    task_hash: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    faults: Mapped[dict[str, object]] = mapped_column(JSON)
    """The whole profile: with task and seed it makes the fault plan."""
    faults_hash: Mapped[str]
    episode_id: Mapped[str]
    policy: Mapped[str]
    end_cause: Mapped[str]
    step: Mapped[int]
    """The step at which the policy broke, as far as that is known; 0 is unknown."""
    parent: Mapped[str]
    """The task that a variant was made from; empty for what failed itself."""
    snapshot: Mapped[str]
    """Folder of the state before that step; empty without one."""
    snapshot_key: Mapped[str]
    added: Mapped[int]
    """Draws when it was added, or failed again."""
    played: Mapped[int]
    """Draws when it was given last; 0 when it never was."""
    streak: Mapped[int]
    """Groups of it in a row that were all solved."""
