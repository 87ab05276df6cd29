"""One call on its way through a toolbox, and what will stand about it in the log."""

from dataclasses import dataclass, field

from wardian.sandbox.world import World
from wardian.tools.contract import CallEvent, Json, ToolCall, ToolContext, ToolResult
from wardian.tools.encoding import encode, text
from wardian.tools.faults import Drawn, Fault
from wardian.tools.loading import MAX_CHARS
from wardian.tools.outcomes import Outcome


@dataclass(slots=True)
class Attempt:
    """What is known of a call so far. `args` are those accepted, or what came where nothing was."""

    world: World
    call: ToolCall
    agent_id: str
    step: int
    index: int
    at_ms: int
    args: Json
    drawn: Drawn = field(default_factory=Drawn)
    latency_ms: int = 0
    after: Json = None
    """For a paged tool: the key after which the page begins."""
    repaired: str = ""
    problem: str = ""
    fault: Fault | None = None
    """The fault that landed, as opposed to the one that was drawn."""
    committed: bool = False
    stale_step: int | None = None
    landed: bool = False
    """The caller has given up, and the effect lands now; `at_ms` says when that is."""
    context: ToolContext | None = None

    @classmethod
    def begin(cls, world: World, call: ToolCall, agent_id: str, step: int) -> "Attempt":
        """The next call of the episode, as it comes in."""
        index = sum(world.memory.call_counts.values())
        return cls(world, call, agent_id, step, index, at_ms=world.clock.now_ms, args=loggable(call.args))

    @property
    def total_ms(self) -> int:
        """Virtual time that the call takes for its caller."""
        return self.latency_ms + (self.context.extra_ms if self.context else 0)

    def result(self, outcome: Outcome) -> ToolResult:
        """What the agent gets."""
        inexact = self.context.inexact if self.context else ""
        return ToolResult(outcome.status, outcome.content, outcome.message, self.total_ms, inexact)

    def event(self, outcome: Outcome) -> CallEvent:
        """What the trusted log gets."""
        context = self.context
        return CallEvent(
            index=self.index,
            step=self.step,
            at_ms=self.at_ms,
            tool=text(self.call.tool[:200]),
            args=self.args,
            status=outcome.status,
            committed=self.committed,
            fault=self.fault.value if self.fault else None,
            latency_ms=self.total_ms,
            effects=tuple(context.effects) if context and self.committed else (),
            repaired=self.repaired,
            agent_id=self.agent_id,
            problem=self.problem,
            inexact=context.inexact if context else "",
            extra_ms=context.extra_ms if context else 0,
            stale_step=self.stale_step,
            landed=self.landed,
            attachments=context.attachments if context else {},
        )


def loggable(raw: Json) -> Json:
    """Arguments as they came, in a form that any log takes. Replaced by the accepted ones when they are accepted."""
    if isinstance(raw, str):
        return raw[:MAX_CHARS]
    try:
        return encode(raw)
    except (ValueError, RecursionError):
        return "(not JSON)"
