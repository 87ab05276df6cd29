"""What is said of a reset and of a step, in OpenEnv's shape: `observation` is for the agent, `metadata` for the trainer alone.

Nothing of the task's truth is in either: no checks of the verifier, no fault plan, no parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wardian.envs.action import Observation, Step
from wardian.envs.ending import EndCause
from wardian.envs.start import ResetInfo
from wardian.tools.contract import Json
from wardian.tools.encoding import text
from wardian.trainers.server.wire import AnyAction, CallTool


@dataclass(slots=True)
class Course:
    """One episode as far as it has come."""

    info: ResetInfo
    episode_id: str
    steps: int = 0
    done: bool = False
    end_cause: str = ""
    failed: bool = False
    """It is over through us."""
    succeeded: bool | None = None
    """By the verdict; `None` before there is one."""
    components: dict[str, float] = field(default_factory=dict)
    """Sums so far."""
    _named: dict[str, Json] = field(init=False)
    """The task's hash is of all that it holds, and too dear for every step."""

    @property
    def total(self) -> float:
        """The return so far."""
        return sum(self.components.values())

    def add(self, step: Step) -> None:
        """Take in a step."""
        self.steps = step.info.step
        if step.done:
            self.end(str(step.info.end_cause), failed=step.failed is not None)
            self.succeeded = step.info.verdict.succeeded if step.info.verdict else None
        for name, value in step.reward_components.items():
            self.components[name] = self.components.get(name, 0.0) + value

    def end(self, cause: str, *, failed: bool = False) -> None:
        """It is over. Once."""
        if not self.done:
            self.done, self.end_cause, self.failed = True, cause, failed

    def __post_init__(self) -> None:
        task = self.info.task
        self._named = {
            "episode_id": self.episode_id,
            "task_id": str(task.id),
            "seed": self.info.seed,
            "split": task.split,
            "canary": task.canary,
            "resumed_step": self.info.resumed_step,
        }

    def outcome(self) -> dict[str, Json]:
        """How it ended, for a trainer who let somebody else act in it; nothing while it runs."""
        if not self.done:
            return {}
        return {
            "end_cause": self.end_cause,
            "failure_kind": self.end_cause if self.failed else None,
            "succeeded": self.succeeded,
            "total_reward": None if self.succeeded is None else self.total,
        }

    def named(self) -> dict[str, Json]:
        """Which episode it is."""
        return {**self._named, "step": self.steps}


def begun(seen: Observation, course: Course, schemas: Sequence[Mapping[str, Json]], policy_token: str) -> dict[str, Json]:
    """The reply to a reset, or to a restore. `policy_token` opens the tools of this episode to an agent program."""
    return {
        "observation": {**_seen(seen), "tool_schemas": [dict(one) for one in schemas]},
        "reward": None,
        "done": False,
        "metadata": {
            **course.named(),
            "total_reward": course.total,
            "reward_components": dict(course.components),
            "policy_token": policy_token,
        },
    }


def stepped(action: AnyAction, step: Step, course: Course) -> dict[str, Json]:
    """The reply to a step."""
    seen = _seen(step.observation)
    if isinstance(action, CallTool):
        seen |= _tool_reply(action, step)
    failed = str(step.info.end_cause) if step.failed is not None else None
    verdict = step.info.verdict
    return {
        "observation": seen,
        "reward": step.reward,
        "done": step.done,
        "metadata": {
            **course.named(),
            "terminated": step.terminated,
            "truncated": step.truncated,
            "failure_kind": failed,
            "message": step.failed,
            "end_cause": str(step.info.end_cause),
            "succeeded": None if verdict is None or failed else verdict.succeeded,
            "hard_failure": None if verdict is None or failed else verdict.hard_failure,
            "reward_components": dict(step.reward_components),
            "total_reward": None if failed else course.total,
            "mask": 0 if failed else 1,
        },
    }


def tool_list(schemas: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Tools as OpenEnv lists them."""
    return [
        {"name": one["function"]["name"], "description": one["function"]["description"], "input_schema": one["function"]["parameters"]}
        for one in schemas
    ]


def _seen(seen: Observation) -> dict[str, Json]:
    return {
        "text": seen.rendered,
        "results": [dict(one) for one in seen.results],
        "incoming": [dict(one) for one in seen.incoming],
        "tokens": seen.tokens,
    }


def _tool_reply(action: CallTool, step: Step) -> dict[str, Json]:
    """As OpenEnv's tool clients read it: `result` holds what the tool said, `error` only what kept it from being called."""
    error = None
    if step.failed is not None:
        kind = "transport_error" if step.info.end_cause == EndCause.INFRASTRUCTURE else "execution_error"
        error = {"error_type": kind, "message": step.failed}
    said = dict(step.observation.results[0]) if step.observation.results else None
    return {"tool_name": text(action.tool_name), "result": {"data": said, "text": step.observation.rendered}, "error": error}
