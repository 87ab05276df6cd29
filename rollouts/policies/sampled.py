"""What a model may give along with its action: which weights made it, its tokens, and how likely they were."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from wardian.envs.action import Action, Malformed, Message, ToolCalls


@dataclass(frozen=True, slots=True)
class Sampled:
    """An action with its origin. All but the action is optional, and is carried into the trajectory as it is."""

    action: Action
    checkpoint: str | None = None
    """The weights that made it; `None`: the policy's `checkpoint` as it was when the action was asked for."""
    text: str | None = None
    """The model's text where the action does not hold it: beside calls, or with its reasoning."""
    raw: str | None = None
    """All of its output, where the calls were read out of that."""
    prompt_token_ids: Sequence[int] | None = None
    """Of all that the model was shown for this action."""
    token_ids: Sequence[int] | None = None
    """Of what it wrote."""
    logprobs: Sequence[float] | None = None
    """Natural logarithm of the probability of each token that it wrote, under the weights and the sampling that it was written with."""
    loss_mask: Sequence[int] | None = None
    """For each token that it wrote: 1 trains, 0 does not."""
    prompt_tokens: int | None = None
    """As the server counts them; not the observation tokens of the environment."""
    completion_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check it.

        Raises:
            ValueError: lengths differ, or a value is out of range; names the field.
        """
        check_tokens(self.token_ids, self.logprobs, self.loss_mask)
        _check_counts("prompt_token_ids", self.prompt_token_ids or ())
        counts = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        for name, count in counts.items():
            _check_counts(name, () if count is None else (count,))


Acted: TypeAlias = Action | Sampled
"""What a player may give."""


def as_sampled(acted: Acted) -> Sampled:
    """What a player gave, in the one form.

    Raises:
        TypeError: it is no action.
    """
    sampled = acted if isinstance(acted, Sampled) else Sampled(acted)
    if not isinstance(sampled.action, ToolCalls | Message | Malformed):
        raise TypeError(f"the policy gave {type(sampled.action).__name__}, which is no action: give ToolCalls, Message or Malformed")
    return sampled


def held_text(action: Action) -> str | None:
    """The model's text, where the action itself holds it."""
    match action:
        case Message(text) | Malformed(text):
            return text
        case ToolCalls():
            return None


def check_tokens(token_ids: Sequence[int] | None, logprobs: Sequence[float] | None, loss_mask: Sequence[int] | None) -> None:
    """Check what is said of each token.

    Raises:
        ValueError: lengths differ, or a value is out of range; names the field.
    """
    lengths = {"token_ids": token_ids, "logprobs": logprobs, "loss_mask": loss_mask}
    found = {name: len(values) for name, values in lengths.items() if values is not None}
    if len(set(found.values())) > 1:
        raise ValueError(f"{', '.join(found)}: must be of one length, got {', '.join(map(str, found.values()))}")
    _check_counts("token_ids", token_ids or ())
    for place, value in enumerate(logprobs or ()):
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"logprobs[{place}]: must be a finite number, got {value!r}")
    for place, bit in enumerate(loss_mask or ()):
        if bit not in (0, 1):
            raise ValueError(f"loss_mask[{place}]: must be 0 or 1, got {bit!r}")


def _check_counts(name: str, values: Sequence[int]) -> None:
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
            raise ValueError(f"{name}: must hold integers from 0 to below 2**63, got {value!r}")
