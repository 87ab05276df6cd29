"""One turn of many episodes at once, by the trainer's own model."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList
from trl.models import unwrap_model_for_generation


@dataclass(frozen=True, slots=True)
class Sampled:
    ids: list[int]
    """As sampled, up to and with the token that ends a turn."""
    logprobs: list[float]
    """Natural logarithm for each token, under the weights and the temperature that it was sampled with; before any cut such as top-p. NaN
    where the backend does not say."""
    ended: bool
    """The model ended its turn by itself."""


def generate(trainer: Any, contexts: Sequence[Sequence[int]], most: int) -> list[Sampled]:
    """Continue each of `contexts` by at most `most` tokens, in one batch.

    vLLM and continuous batching go the trainer's own way; plain `generate` is called here, as only so the log-probabilities are had.
    """
    if trainer.use_vllm or trainer.use_transformers_continuous_batching:
        ids, logprobs = trainer._generate_single_turn([list(context) for context in contexts], None, {}, 1)
    else:
        ids, logprobs = _plain(trainer, contexts, most)
    ends = set(trainer.eos_token_ids)
    logprobs = logprobs or [[float("nan")] * len(one) for one in ids]
    return [
        Sampled(one[:most], list(chances)[:most], bool(one) and len(one) <= most and one[-1] in ends)
        for one, chances in zip(ids, logprobs, strict=True)
    ]


class _Chosen(LogitsProcessor):
    """Keeps how likely each token was that was taken, without keeping the scores of all steps."""

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature
        self.taken: list[torch.Tensor] = []
        self._before: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.close(input_ids)
        self._before = torch.log_softmax(scores.float() / self.temperature, dim=-1)
        return scores

    def close(self, input_ids: torch.Tensor) -> None:
        """Note the last token of each row."""
        if self._before is not None:
            self.taken.append(self._before.gather(1, input_ids[:, -1:]).squeeze(1))
        self._before = None


def _plain(trainer: Any, contexts: Sequence[Sequence[int]], most: int) -> tuple[list[list[int]], list[list[float]]]:
    device = trainer.accelerator.device
    width = max(map(len, contexts))
    pad = trainer._tokenizer.pad_token_id
    rows = torch.tensor([[pad] * (width - len(context)) + list(context) for context in contexts], device=device)
    seen = torch.tensor([[0] * (width - len(context)) + [1] * len(context) for context in contexts], device=device)
    settings = copy.copy(trainer.generation_config)
    settings.max_new_tokens = most
    chosen = _Chosen(trainer.temperature)
    with (
        unwrap_model_for_generation(
            trainer.model_wrapped,
            trainer.accelerator,
            gather_deepspeed3_params=trainer.args.ds3_gather_for_generation,
            generation_kwargs=trainer.generation_kwargs,
            gradient_checkpointing_kwargs=trainer.args.gradient_checkpointing_kwargs,
        ) as model,
        torch.no_grad(),
    ):
        whole = model.generate(
            input_ids=rows, attention_mask=seen, generation_config=settings, logits_processor=LogitsProcessorList([chosen])
        )
    chosen.close(whole)
    return _cut(whole[:, width:].tolist(), torch.stack(chosen.taken, dim=1).tolist(), set(trainer.eos_token_ids))


def _cut(ids: list[list[int]], logprobs: list[list[float]], ends: set[int]) -> tuple[list[list[int]], list[list[float]]]:
    """Each row up to its first token that ends a turn."""
    lengths = [next((place + 1 for place, token in enumerate(row) if token in ends), len(row)) for row in ids]
    return [row[:length] for row, length in zip(ids, lengths, strict=True)], [
        row[:length] for row, length in zip(logprobs, lengths, strict=True)
    ]
