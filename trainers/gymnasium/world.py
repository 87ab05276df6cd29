"""Any tool world as a Gymnasium environment: what an agent reads is the observation, what it writes is the action."""

import json
from copy import deepcopy
from random import Random
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from wardian.envs.action import Step, ToolCalls
from wardian.envs.environment import ToolEnvironment
from wardian.envs.registry import load_world, open_environment
from wardian.envs.settings import MalformedPolicy
from wardian.envs.splits import Split, split_named
from wardian.envs.task import Difficulty
from wardian.rollouts.inference.reading import read_text
from wardian.rollouts.policies.chance import WORDS, Seen, random_call
from wardian.rollouts.recording import tool_schemas
from wardian.rollouts.sampling import TASK_SEEDS, fresh, pairs_of
from wardian.sandbox.cell import Tier
from wardian.tools.completions import CallFormat
from wardian.trainers.gymnasium.text import AnyText
from wardian.trainers.held import Held

MAX_CHARS = 16 << 20
MESSAGE_CHANCE = 0.05
"""Of a sampled action."""


class EpisodeFailed(RuntimeError):
    """The environment failed, not the agent: there is no reward, and nothing to train on. Reset, and play another episode."""


class ToolWorldEnv(gymnasium.Env[str, str]):
    """Text in, text out. One cell and one template of its own, opened by the first `reset`, gone after `close`.

    An action is what a model writes: a tool call in `call_format`, or else a message. `reset` draws a task by its seed, or takes
    the one of its `options`:
    `{"task_id": "lending-desk/easy/seed-7", "seed": 3}`. `info` holds at the start `task_id`, `seed` and `tools` (schemas in the OpenAI
    format), after each step `reward_components`, and at the end `end_cause` and `succeeded`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        world: str,
        *,
        family: str | None = None,
        difficulty: str | None = None,
        faults: str = "none",
        malformed: str = "recover",
        tier: str = "chamber",
        call_format: str = "json",
        split: str = Split.TRAIN,
    ) -> None:
        """Load a world, by its name or as `package.module:function`; nothing is started yet.

        `call_format` is one of `wardian.tools.completions.CallFormat`. Only tasks of `split` are drawn and played.

        Raises:
            TaskError: there is no such world, family or split.
            UsageProblem: there are no tasks of that split.
            ValueError: there is no such difficulty, policy, tier or format.
        """
        self._world = load_world(world)
        if difficulty:
            Difficulty(difficulty)
        if family:
            self._world.family(family)
        self._split = split_named(split)
        self._pairs = pairs_of(self._world, self._split, family, difficulty)
        self._opening: dict[str, Any] = {"faults": faults, "malformed": MalformedPolicy(malformed), "tier": Tier(tier), "split": split}
        self._format = CallFormat(call_format)
        self._schemas = tool_schemas(self._world)
        self._held: Held[ToolEnvironment] | None = None
        self.action_space = AnyText(MAX_CHARS, self._drawn)
        self.observation_space = AnyText(MAX_CHARS, self._drawn)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Raises:
            TaskError: there is no task of that id.
            HeldOut: the task of that id is of another split.
            SandboxError: no cell or template can be had.
        """
        super().reset(seed=seed)
        if self._held is None:
            self._held = Held(open_environment(self._world, **self._opening))
        task_id, episode_seed = self._task(options or {})
        env = self._held.value
        first = self._held.call(env.reset, task_id, episode_seed)
        return first.rendered, {"task_id": task_id, "seed": episode_seed, "tools": deepcopy(list(env.tool_schemas))}

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one turn.

        Raises:
            gymnasium.error.ResetNeeded: there was no reset.
            NotReset: the episode has ended.
            EpisodeFailed: through us.
        """
        if self._held is None:
            raise gymnasium.error.ResetNeeded("call reset first")
        step = self._held.call(self._held.value.step, read_text(action, self._format))
        if step.failed is not None or step.reward is None:
            raise EpisodeFailed(str(step.failed))
        return step.observation.rendered, step.reward, step.terminated, step.truncated, _info(step)

    def close(self) -> None:
        """End the cell and all that was opened. Idempotent; a later `reset` opens it again."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def _task(self, options: dict[str, Any]) -> tuple[str, int]:
        pair = self._pairs[int(self.np_random.integers(len(self._pairs)))]
        drawn = fresh(pair, int(self.np_random.integers(TASK_SEEDS)), self._split, set())
        return str(options.get("task_id", drawn)), int(options.get("seed", self.np_random.integers(1 << 32)))

    def _drawn(self, rng: np.random.Generator) -> str:
        """A text that an agent might write: mostly a call that the schemas allow."""
        random = Random(int(rng.integers(1 << 63)))
        called = random_call(random, self._schemas, Seen())
        if called is None or random.random() < MESSAGE_CHANCE:
            return random.choice(WORDS)
        return written(called, self._format)


def written(action: ToolCalls, form: CallFormat) -> str:
    """A single call as a model writes it in `form`; `invoke` takes its arguments as text."""
    (one,) = action.calls
    body = json.dumps({"name": one.tool, "arguments": one.args})
    match form:
        case CallFormat.JSON:
            return body
        case CallFormat.TAGS:
            return f"<tool_call>{body}</tool_call>"
        case CallFormat.MISTRAL:
            return f"[TOOL_CALLS]{one.tool}{json.dumps(one.args)}"
    assert isinstance(one.args, dict), "what is drawn is an object"
    fields = "".join(f'<parameter name="{name}">{value}</parameter>' for name, value in one.args.items())
    return f'<invoke name="{one.tool}">{fields}</invoke>'


def _info(step: Step) -> dict[str, Any]:
    info: dict[str, Any] = {"reward_components": dict(step.reward_components)}
    if step.done:
        info |= {"end_cause": str(step.info.end_cause), "succeeded": bool(step.info.verdict and step.info.verdict.succeeded)}
    return info
