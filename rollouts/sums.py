"""What the steps of an attempt come to: written into its last line by the recorder, and counted again by whoever checks a log."""

from collections import Counter
from dataclasses import dataclass, field

from wardian.rollouts.records import EpisodeStart, EventPart, Json, StepRecord


@dataclass(slots=True)
class StepSums:
    """Sums over the lines of one attempt so far."""

    steps: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    inexact: int = 0
    rewards: dict[str, float] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)

    def begin(self, start: EpisodeStart) -> None:
        """Count what stands before the first step."""
        self.tokens = start.schema_tokens + start.observation.tokens

    def add(self, step: StepRecord) -> None:
        """Count a step."""
        self.steps = step.step
        self.tokens += step.observation.tokens
        self.inexact += bool(step.inexact)
        if step.sample is not None:
            self.prompt_tokens += step.sample.prompt_tokens or 0
            self.completion_tokens += step.sample.completion_tokens or 0
        for name, value in step.reward_components.items():
            self.rewards[name] = self.rewards.get(name, 0.0) + value
        for event in step.events:
            self._count(event)

    def _count(self, event: EventPart) -> None:
        """Calls by status, injected faults by name, and calls that did not reach their tool by class of error."""
        if not event.landed:
            self.outcomes[event.status] += 1
        if event.fault:
            self.faults[event.fault] += 1
        if event.problem:
            # The class of a problem is without the argument it was found in; output that was no call at all is one class.
            self.problems[event.problem.split("(")[0] if event.tool else "no_call"] += 1

    def fields(self) -> dict[str, Json]:
        """Fields of an `episode_end`, all but the rewards, which only a judged episode has."""
        return {
            "steps": self.steps,
            "tokens": self.tokens,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "inexact": self.inexact,
            "tool_outcomes": dict(self.outcomes),
            "faults": dict(self.faults),
            "problems": dict(self.problems),
        }
