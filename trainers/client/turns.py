"""What a reset and a step give, read from the server's reply."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Turn:
    """`text` is for the agent; `results`, `incoming` and `tools` say the same as data. All else is for the trainer alone."""

    text: str
    """All that the agent reads."""
    results: tuple[Mapping[str, Any], ...] = ()
    """For each call, in order: `status`, and `result` or `error`."""
    incoming: tuple[Mapping[str, Any], ...] = ()
    """What reached the agent without a call of its own."""
    tools: tuple[dict[str, Any], ...] = ()
    """Tools of this episode in the OpenAI format; of a reset or restore alone."""
    tokens: int = 0
    """Of `text`, as the environment counts them."""
    reward: float | None = None
    """Of this step; `None` at a reset, and where the episode failed through the server."""
    total_reward: float | None = None
    """Of the episode so far; `None` where it failed."""
    reward_components: Mapping[str, float] = field(default_factory=dict)
    """Of this step, by name."""
    done: bool = False
    terminated: bool = False
    truncated: bool = False
    """A budget ended the episode; what was achieved is judged."""
    failure_kind: str | None = None
    """Set where the episode is over through no doing of the agent; it is not scored, and nothing of it is to be learned from."""
    message: str = ""
    """Why it failed."""
    end_cause: str = ""
    succeeded: bool | None = None
    """At the end of an episode that was judged."""
    task_id: str = ""
    seed: int = 0
    split: str = ""
    episode_id: str = ""
    step: int = 0
    policy_token: str = field(default="", repr=False)
    """Opens this episode's tools, and no later one's, to an agent program; of a reset or restore alone."""


def turn_of(data: Mapping[str, Any]) -> Turn:
    """The turn in an `observation` reply."""
    seen, told = data["observation"], data.get("metadata") or {}
    return Turn(
        text=seen.get("text", ""),
        results=tuple(seen.get("results", ())),
        incoming=tuple(seen.get("incoming", ())),
        tools=tuple(seen.get("tool_schemas") or ()),
        tokens=seen.get("tokens", 0),
        reward=data.get("reward"),
        total_reward=told.get("total_reward"),
        reward_components=told.get("reward_components") or {},
        done=bool(data.get("done")),
        terminated=bool(told.get("terminated")),
        truncated=bool(told.get("truncated")),
        failure_kind=told.get("failure_kind"),
        message=told.get("message") or "",
        end_cause=told.get("end_cause") or "",
        succeeded=told.get("succeeded"),
        task_id=told.get("task_id", ""),
        seed=told.get("seed", 0),
        split=told.get("split", ""),
        episode_id=told.get("episode_id", ""),
        step=told.get("step", 0),
        policy_token=told.get("policy_token", ""),
    )


def failed_turn(body: Mapping[str, Any], last: Turn | None) -> Turn:
    """The turn that an error frame stands for which ended the episode."""
    known = {name: getattr(last, name) for name in ("task_id", "seed", "split", "episode_id", "step")} if last else {}
    kind = str(body["failure_kind"])
    return Turn(text="", done=True, failure_kind=kind, message=str(body.get("message", "")), end_cause=kind, **known)
