"""What a model gives along with its action: checked, carried into the trajectory, shown."""

from pathlib import Path
from typing import Any

import pytest

from wardian.envs.action import Message, Observation, call
from wardian.rollouts.policies.base import TaskView
from wardian.rollouts.policies.sampled import Acted, Sampled, as_sampled
from wardian.rollouts.trajectory import FILE, TrajectoryLog, validate

WRONG: dict[str, dict[str, Any]] = {
    "token_ids, logprobs: must be of one length, got 2, 1": {"token_ids": [1, 2], "logprobs": [-1.0]},
    "logprobs, loss_mask: must be of one length": {"logprobs": [-1.0], "loss_mask": [1, 0]},
    r"logprobs\[1\]: must be a finite number, got nan": {"logprobs": [-1.0, float("nan")]},
    r"logprobs\[0\]: must be a finite number, got -inf": {"logprobs": [float("-inf")]},
    r"loss_mask\[0\]: must be 0 or 1, got 2": {"loss_mask": [2]},
    r"token_ids: must hold integers from 0 to below 2\*\*63, got -1": {"token_ids": [-1]},
    "token_ids: must hold integers from 0 to below": {"token_ids": [1 << 63]},
    "prompt_token_ids: must hold integers": {"prompt_token_ids": ["a"]},
    "completion_tokens: must hold integers from 0": {"completion_tokens": -1},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_does_not_fit_together_is_named(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampled(Message(""), **WRONG[message])


def test_what_is_no_action_is_named() -> None:
    with pytest.raises(TypeError, match="the policy gave NoneType, which is no action"):
        as_sampled(None)  # type: ignore[arg-type]


class Learner:
    """Looks at a thing, then is trained, then ends."""

    name = "learner"

    def __init__(self) -> None:
        self.updates = 0

    @property
    def checkpoint(self) -> str:
        return f"weights-{self.updates}"

    def begin(self, first: Observation, view: TaskView) -> "Learner":
        return self

    async def act(self, observation: Observation) -> Acted:
        self.updates += 1
        if self.updates == 1:
            return call("show_item", item_id=101)
        if self.updates == 2:
            tokens: dict[str, Any] = {"prompt_token_ids": [9], "token_ids": [1, 2], "logprobs": [-0.5, -1.5], "loss_mask": [0, 1]}
            return Sampled(call("show_item", item_id=102), "other", "Look.", **tokens, prompt_tokens=70, completion_tokens=2)
        return Message("Done.")


@pytest.mark.anyio
async def test_the_weights_of_each_step_are_recorded_and_shown(player: Any, wardian: Any, tmp_path: Path) -> None:
    tally = await player.play(tmp_path, Learner(), episodes=1)
    (attempt,) = TrajectoryLog.open(tmp_path).attempts("test-00000")
    assert attempt.start is not None
    assert attempt.end is not None
    assert [attempt.start.policy_checkpoint, *(step.policy_checkpoint for step in attempt.steps)] == [
        "weights-0",
        "weights-0",
        "other",
        "weights-2",
    ]
    assert (attempt.end.policy_checkpoint, attempt.end.prompt_tokens, tally.completion_tokens) == ("weights-2", 70, 2)
    sample = {"text": "Look.", "prompt_token_ids": [9], "token_ids": [1, 2], "logprobs": [-0.5, -1.5], "loss_mask": [0, 1]}
    assert [step.sample and step.sample.model_dump() for step in attempt.steps] == [
        None,
        {**sample, "prompt_tokens": 70, "completion_tokens": 2},
        None,
    ]
    shown = wardian("show", tmp_path, 0).stdout
    assert "checkpoint: other" in shown
    assert "sample: 2 tokens, 1 of them train, mean log-probability -1.000, prompt of 70" in shown


@pytest.mark.anyio
async def test_tokens_of_unequal_length_in_a_log_are_found(player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, Learner(), episodes=1)
    file = tmp_path / FILE
    file.write_text(file.read_text().replace('"loss_mask": [0, 1]', '"loss_mask": [0]'))
    (finding,) = [finding for _, findings in validate(tmp_path) for finding in findings]
    assert "token_ids, logprobs, loss_mask: must be of one length, got 2, 2, 1" in str(finding)
