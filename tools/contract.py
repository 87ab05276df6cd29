"""What a tool is: one declaration from which schemas, validation, fault points and documentation all come.

A handler gets a `ToolContext` and validated arguments, and returns a JSON value. It refuses with `Refusal`, which rolls its
transaction back; it never raises for what an agent can cause. Outcomes are data: a `ToolResult` with a stable status.
"""

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict
from sqlalchemy.orm import Session

from wardian.sandbox.cell import Cell
from wardian.sandbox.database.base import WorldDatabase
from wardian.sandbox.world import World
from wardian.tools.encoding import Json as Json
from wardian.tools.encoding import encode
from wardian.tools.errors import ToolMisdeclared


class Status(StrEnum):
    OK = "ok"
    INVALID_ARGUMENTS = "invalid_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    MALFORMED_CALL = "malformed_call"
    NOT_FOUND = "not_found"
    PERMISSION_DENIED = "permission_denied"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    CONFLICT = "conflict"


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown keys are refused, nothing is coerced, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, slots=True)
class ToolResult:
    status: Status
    content: Json = None
    """The tool's answer when `ok`; else `None` or details an agent may see."""
    message: str = ""
    """For the agent, when not `ok`: what happened and what can be done."""
    latency_ms: int = 0
    """Virtual time that the call took."""
    inexact: str = ""
    """Why this result may differ when run again (a real timeout, out of memory); empty when it may not."""

    def visible(self) -> dict[str, Json]:
        """What the agent gets: status and content or message, nothing else."""
        shown: dict[str, Json] = {"status": self.status.value}
        if self.status is Status.OK:
            shown["result"] = self.content
        else:
            shown["error"] = self.message
            if self.content is not None:
                shown["details"] = self.content
        return shown


class Refusal(Exception):
    """Raised by a handler to end its call with a declared status; its transaction is rolled back. An outcome, not an error of ours."""

    def __init__(self, status: Status, message: str, details: Json = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.details = details


class Source(StrEnum):
    """Which data a tool works on."""

    PRIMARY = "primary"
    REPLICA = "replica"
    """May be served from a lagging copy when a fault profile says so."""
    QUERY = "query"
    """The agent's own SQL on the primary, through `ToolContext.database`; no transaction, and never a write."""
    CELL = "cell"
    """Commands and files of the chamber, no database."""
    CLOCK = "clock"
    """World time only: a tool by which the agent lets it pass. No fault ever hits it."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Virtual latency: uniform between the two bounds, drawn from the tool's own stream."""

    low_ms: int = 20
    high_ms: int = 80

    def __post_init__(self) -> None:
        if not 0 <= self.low_ms <= self.high_ms:
            raise ToolMisdeclared(f"latency: needs 0 <= low_ms <= high_ms, got {self.low_ms} and {self.high_ms}")


@dataclass(frozen=True, slots=True)
class RateLimit:
    """How many calls a tool takes within any span of so many seconds of world time."""

    calls: int
    per_s: int

    def __post_init__(self) -> None:
        if self.calls < 1 or self.per_s < 1:
            raise ToolMisdeclared(f"rate_limit: calls and per_s must be at least 1, got {self.calls} and {self.per_s}")


@dataclass(slots=True)
class ToolContext:
    """What a handler may use, for one call."""

    world: World
    agent_id: str
    """The identity that the agent acts under."""
    session: Session | None
    """The call's transaction; `None` for tools of source `cell`, `query` or `clock`. Read only when the tool does not mutate."""
    at_ms: int | None = None
    """When the call takes effect, where that is not now: milliseconds since the Unix epoch."""
    after: Json = None
    """For a paged tool: the key after which the page begins; `None` for the first page."""
    effects: list[dict[str, Json]] = field(default_factory=list)
    """Facts for the trusted event log, appended by `note`; kept only if the call commits."""
    inexact: str = ""
    """Set it when this result may differ when run again; empty when it may not."""
    extra_ms: int = 0
    """Virtual time that the call took beyond its latency, such as the limit of a command that ran into it."""
    attachments: dict[str, Json] = field(default_factory=dict)
    """Raw data for the log, by name; filled by `attach`."""

    @property
    def db(self) -> Session:
        """The session, for tools that declared a database."""
        assert self.session is not None, "only tools of source 'primary' or 'replica' have a transaction"
        return self.session

    @property
    def database(self) -> WorldDatabase:
        """The world database, for tools of source `query`."""
        assert self.world.database is not None, "this world has no database"
        return self.world.database

    @property
    def cell(self) -> Cell:
        assert self.world.cell is not None, "this world has no cell"
        return self.world.cell

    @property
    def now(self) -> datetime:
        """World time."""
        if self.at_ms is None:
            return self.world.clock.now
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.at_ms)

    def new_id(self, table: str) -> int:
        """The next id of `table`."""
        return self.database.allocate_id(self.db, table)

    def note(self, kind: str, **facts: Json) -> None:
        """Write a fact into the trusted event log, such as `note("refund", invoice_id=7, amount=1200)`.

        Raises:
            ValueError: a fact has no place in JSON.
        """
        self.effects.append(encode({"kind": kind, **facts}, "note"))

    def attach(self, name: str, data: bytes) -> None:
        """Keep raw bytes for the log, as base64, beside what the agent is shown. Kept whether or not the call commits."""
        self.attachments[name] = base64.b64encode(data).decode("ascii")


A = TypeVar("A", bound=Arguments)

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    name: str
    description: str
    """For the model: what it does, what it returns, when it refuses."""
    arguments: type[A]
    handler: Callable[[ToolContext, A], Awaitable[Json]]
    version: int = 1
    source: Source = Source.PRIMARY
    mutates: bool = False
    scopes: tuple[str, ...] = ()
    """Scopes that the agent must hold."""
    errors: tuple[Status, ...] = (Status.NOT_FOUND,)
    """Statuses that the handler itself may refuse with, `invalid_arguments` always among them."""
    latency: Latency = field(default_factory=Latency)
    timeout_ms: int = 10_000
    """Virtual time after which the caller sees a timeout."""
    idempotent: bool = True
    """Calling it twice with equal arguments has the effect of once."""
    exact: bool = True
    """Same state and arguments give the same result; `False` is shown and compared by state."""
    empty_page: Json = None
    """What an empty answer of this tool looks like. `None`: the fault `empty` cannot hit it."""
    idempotency_key: str = ""
    """Name of the argument that carries a key. A second call with that key gets the first one's answer and does nothing."""
    version_argument: str = ""
    """Name of the argument by which the caller says which version of the record it read (see `wardian.tools.versions`)."""
    timeout_argument: str = ""
    """Name of the argument by which the caller says after how many milliseconds it gives up, at most `timeout_ms`."""
    paged: bool = False
    """It lists in pages: its arguments are `Paged`, its answer is a `Page` (see `wardian.tools.pages`)."""
    rate_limit: RateLimit | None = None
    """Calls beyond it are answered `rate_limited`, under every fault profile. `None`: there is no limit."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ToolMisdeclared(f"name: {self.name!r} must match {_NAME.pattern}")
        if not self.description.strip():
            raise ToolMisdeclared(f"{self.name}: description: the model reads nothing else; write one")
        if self.mutates and self.source in (Source.REPLICA, Source.QUERY, Source.CLOCK):
            raise ToolMisdeclared(f"{self.name}: source: a tool that mutates works on 'primary' or 'cell', not {self.source.value!r}")
        if self.empty_page is not None and (self.mutates or self.source is not Source.REPLICA):
            raise ToolMisdeclared(f"{self.name}: empty_page: only reads of source 'replica' can come back empty")
        if self.idempotency_key and (not self.mutates or self.idempotency_key not in self.arguments.model_fields):
            raise ToolMisdeclared(f"{self.name}: idempotency_key: must name an argument, and the tool must mutate")
        for what, argument in (("timeout_argument", self.timeout_argument), ("version_argument", self.version_argument)):
            if argument and argument not in self.arguments.model_fields:
                raise ToolMisdeclared(f"{self.name}: {what}: there is no argument {argument!r}")
        if self.version_argument and Status.CONFLICT not in self.errors:
            raise ToolMisdeclared(
                f"{self.name}: version_argument: a tool that compares versions may refuse with 'conflict'; add it to errors"
            )
        if self.paged and not {"cursor", "limit"} <= set(self.arguments.model_fields):
            raise ToolMisdeclared(f"{self.name}: paged: its arguments need cursor and limit; derive them from pages.Paged")
        if self.timeout_ms <= 0:
            raise ToolMisdeclared(f"{self.name}: timeout_ms: must be above 0, got {self.timeout_ms}")

    def schema(self) -> dict[str, Json]:
        """JSON Schema of the arguments, as trainers see it (no titles, `additionalProperties: false`)."""
        from wardian.tools.schemas import arguments_schema

        return arguments_schema(self.arguments)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the environment got it: a name, and arguments as an object or as the model's raw text."""

    tool: str
    args: dict[str, Json] | str


@dataclass(frozen=True, slots=True)
class CallEvent:
    """One line of the trusted event log. Verifiers and replay read it; an agent never sees it."""

    index: int
    step: int
    at_ms: int
    """World time when the call began, in milliseconds since the Unix epoch."""
    tool: str
    args: Json
    """Arguments as accepted; the model's raw text where no object came out of it."""
    status: Status
    committed: bool
    """The handler ran to its end and its transaction, if it has one, was committed, whatever the agent was told."""
    fault: str | None
    """Name of the injected fault, if any."""
    latency_ms: int
    effects: tuple[dict[str, Json], ...] = ()
    repaired: str = ""
    """Which documented repair or coercion the arguments needed; empty for none."""
    agent_id: str = ""
    problem: str = ""
    """Why a call did not reach its handler, such as `wrong_type(offset)`; empty when it did."""
    inexact: str = ""
    """As in the result."""
    extra_ms: int = 0
    """The part of `latency_ms` that the call took beyond the tool's latency, such as the limit that a command ran into."""
    stale_step: int | None = None
    """The step at whose beginning the lagging copy was taken, when the read was stale."""
    landed: bool = False
    """No call, but the effect of call `index`, whose caller had given up, at the time at which it landed."""
    attachments: Mapping[str, Json] = field(default_factory=dict)
    """Raw data by name, base64: output bytes that the agent's text does not show exactly."""
