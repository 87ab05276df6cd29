"""The world database: sealed templates, clones of them, and what may be asked of each.

Three views of one clone, each a different object:

- `WorldDatabase.transaction` is for tools: one transaction per call, through the tool role.
- `WorldDatabase.query` is for the agent's own SQL: read only, one statement, capped.
- `FrozenDatabase` is for verifiers and lagging replicas: an immutable copy.

Ids and times are the world's: `allocate_id` gives ids that a rollback takes back, and times come from the world's clock.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from sqlalchemy import MetaData
from sqlalchemy.orm import Session

from wardian.sandbox.database.sealed import SealedDatabase
from wardian.sandbox.errors import SnapshotRefused
from wardian.sandbox.fingerprint import Fingerprint

Scalar: TypeAlias = bool | int | str | None
"""What a cell of a canonical row may be. Money is integer minor units; instants are fixed-width UTC text."""


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """The named inputs of a template. Its key hashes all of them and the engine's version."""

    name: str
    metadata: MetaData
    seed_rows: Callable[[Session, int], None]
    """Fills the start state; gets a session and `seed`. Its source text is part of the key."""
    seed: int = 0
    parameters: tuple[tuple[str, Scalar], ...] = ()
    builder_modules: tuple[str, ...] = ()
    """Modules whose source is part of the key beside that of `seed_rows`."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The answer to a statement of the agent."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar | float, ...], ...]
    truncated: bool = False
    """More rows or bytes were there than the caps allow."""


@dataclass(frozen=True, slots=True)
class Written:
    """What came of a writing statement of the agent."""

    count: int
    """Rows that it added, changed or removed."""
    returned: Rows | None = None
    """Rows of its RETURNING clause; `None` without one."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row that differs. `before is None`: added; `after is None`: removed."""

    table: str
    key: tuple[Scalar, ...]
    before: Mapping[str, Scalar] | None
    after: Mapping[str, Scalar] | None


def order_of(change: RowChange) -> tuple[str, tuple[tuple[str, Scalar], ...]]:
    """By table and key; keys of several types have an order too."""
    return change.table, tuple((type(value).__name__, value) for value in change.key)


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one statement of the agent may take."""

    time_s: float = 2.0
    """Real seconds: the last resort, since it differs by host."""
    steps: int = 20_000_000
    """Steps of work as the engine counts them; the same on every host for one engine. About half a second."""
    rows: int = 500
    bytes: int = 256 * 1024
    """Size of the answer, and (but not below 64 KiB) of each value that the statement handles."""
    changes: int = 50_000
    """Rows that a writing statement may remove or add, those of triggers and references too; a changed row is one of each."""


class FrozenDatabase(ABC):
    """An immutable copy of a world database at one moment."""

    @abstractmethod
    def session(self) -> AbstractContextManager[Session]:
        """A read-only ORM session; any write raises."""

    @abstractmethod
    def query(self, sql: str, limits: QueryLimits | None = None) -> Rows:
        """Run one read-only statement, with the rights of the agent's.

        Raises:
            DatabaseProblem: with its kind; the copy is usable after.
        """

    @abstractmethod
    def fingerprint(self) -> Fingerprint:
        """Canonical: one leaf per table."""

    @abstractmethod
    def close(self) -> None:
        """Give the memory back. Idempotent."""


class WorldDatabase(ABC):
    """One episode's clone."""

    template_key: str
    time: Callable[[], datetime] | None = None
    """The world's time, for what an imported database fills in by itself. `None`: it has none, and such a statement is refused."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Session]:
        """One call's transaction: committed on a clean exit, rolled back whole on any exception. Not nested.

        Raises:
            DatabaseProblem: a value or statement was refused.
        """

    @abstractmethod
    def allocate_id(self, session: Session, table: str) -> int:
        """The next id of `table`, inside the running transaction: a rollback takes it back."""

    @abstractmethod
    def execute(self, session: Session, sql: str, limits: QueryLimits | None = None) -> Written:
        """Run one INSERT, UPDATE or DELETE of the agent's inside the running transaction. Tables of the world alone, and no DDL.

        Raises:
            DatabaseProblem: with its kind; the transaction must then be left by raising.
        """

    @abstractmethod
    def query(self, sql: str, parameters: Mapping[str, Scalar] | None = None, limits: QueryLimits | None = None) -> Rows:
        """Run one read-only statement of the agent's.

        Raises:
            DatabaseProblem: with its kind; the database is usable after and unchanged.
        """

    @abstractmethod
    def fingerprint(self) -> Fingerprint:
        """Canonical, kept incrementally: one leaf per table; costs next to nothing."""

    @abstractmethod
    def recompute(self) -> Fingerprint:
        """The same by reading every row; must equal `fingerprint()`."""

    @abstractmethod
    def freeze(self) -> FrozenDatabase:
        """An immutable copy of this moment."""

    @abstractmethod
    def seal(self, copies: Sequence[FrozenDatabase] = ()) -> SealedDatabase:
        """This moment as data, and of older moments the `copies`, oldest first, which must be of this clone and not closed.

        Raises:
            RuntimeError: a transaction is open.
        """

    @abstractmethod
    def changes_since_start(self) -> tuple[RowChange, ...]:
        """All rows that differ from the template, by table and key."""

    @abstractmethod
    def take_changes(self) -> tuple[RowChange, ...]:
        """Rows changed since the last `take_changes` (net effect), by table and key: the diff of a step."""

    @abstractmethod
    def close(self) -> None:
        """Give the clone back. Idempotent."""


class Template(ABC):
    """A sealed start state."""

    engine: str
    """`sqlite` or `postgres`."""
    blocks: bool = False
    """Whether `clone` may wait for a server; an event loop then calls it in a thread."""
    key: str
    """Content address: hash of all named inputs."""
    fingerprint: Fingerprint
    """Canonical fingerprint that every clone must have."""
    size_bytes: int

    @property
    def settled(self) -> bool:
        """Whether nothing is left to do in the background: spares are ready, and used clones are gone."""
        return True

    @abstractmethod
    def clone(self) -> WorldDatabase:
        """A new, independent clone.

        Raises:
            TemplateBroken: the template on disk is not what was sealed.
        """

    @abstractmethod
    def restore(self, sealed: SealedDatabase) -> tuple[WorldDatabase, tuple[FrozenDatabase, ...]]:
        """A clone in the state that was sealed, and the frozen copies that were sealed with it, each proved.

        Raises:
            SnapshotRefused: it was sealed of another template.
            LeakDetected: what was made is not what was sealed.
            TemplateBroken, DatabaseLost: as `clone`.
        """


def check_template(template: Template, sealed: SealedDatabase) -> None:
    """Look whether `sealed` is of `template`.

    Raises:
        SnapshotRefused: it is not.
    """
    if sealed.template_key != template.key:
        raise SnapshotRefused(f"the database of a snapshot is of the template {sealed.template_key}, and here it is {template.key}")
