"""One environment: episodes of one world, one after another, by `reset`, `step` and `snapshot`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from wardian.envs.action import Action, Observation, Step
from wardian.envs.definition import WorldDefinition
from wardian.envs.observation import Tokenizer, estimate
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.snapshot import Snapshot
from wardian.envs.task import Task
from wardian.sandbox.cell import ResetReceipt
from wardian.sandbox.database.base import Template
from wardian.sandbox.fingerprint import Fingerprint
from wardian.tools.contract import Json

if TYPE_CHECKING:
    from wardian.sandbox.pool import CellPool
    from wardian.tools.faults import FaultProfile


@dataclass(frozen=True, slots=True)
class ResetInfo:
    """For the trajectory: how the running episode began."""

    task: Task
    seed: int
    receipt: ResetReceipt | None
    """Proof of the cell's reset; `None` when the world needs no cell."""
    template_key: str
    fingerprint: Fingerprint
    """The whole state right after the task's rows and files went in."""
    leaks: tuple[tuple[str, ...], ...]
    """For each try that was thrown away before this start: the first differences."""
    total_ms: float
    """Wall time of the reset, waiting for a free cell included."""


class ToolEnvironment:
    """Runs one episode at a time. Not for concurrent use; make one environment per concurrent episode over a shared pool."""

    def __init__(
        self,
        world: WorldDefinition,
        *,
        cells: "CellPool | None",
        faults: "FaultProfile",
        malformed: MalformedPolicy = MalformedPolicy.RECOVER,
        tokenizer: Tokenizer = estimate,
        template: Template | None = None,
        settings: Settings = Settings(),  # noqa: B008 - frozen
    ) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    @property
    def tool_schemas(self) -> tuple[dict[str, Json], ...]:
        """Tools of the running episode in the OpenAI function format. Raises NotReset."""

    @property
    def reset_info(self) -> ResetInfo:
        """How the running (or last) episode began. Raises NotReset."""

    @property
    def leaks_found(self) -> int:
        """Unclean starts that were caught, over the life of this environment."""

    async def reset(self, task_id: str, seed: int = 0) -> Observation:
        """Begin an episode; one that runs is given up. Raises TaskError, or SandboxError for failures of ours."""

    async def step(self, action: Action) -> Step:
        """Take one turn. Raises NotReset only; failures of ours are in `Step.failed`."""

    async def snapshot(self) -> Snapshot:
        """The whole state. Raises NotReset."""

    async def close(self) -> None:
        """Give everything back. Idempotent."""
