"""A tiny model and tokenizer built in code, and a model whose words are given: real weights, real loss, known text."""

from collections.abc import Callable
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_chat_template

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
"""Tokens of their own, as in Qwen's vocabulary, that are not special."""
OPENS, ENDS = "<|im_start|>assistant\n", "<|im_end|>"
TEXTS = (
    "<|im_start|>user\nEcho the word amber, 1 times with a call each. Then say that you are done.<|im_end|>\n<|im_start|>assistant\n",
    '{"name": "echo", "arguments": {"text": "amber"}} {"status": "ok", "result": {"texts": ["amber"]}} "type": "function", "description"',
)

Speak = Callable[[int, str, list[str]], str]
"""Which conversation of those that began this is, its text, and what the model said in it; gives what it says next."""


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    words.train_from_iterator(TEXTS, BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False))
    words.add_tokens(ADDED)
    made = PreTrainedTokenizerFast(tokenizer_object=words, eos_token=ENDS, pad_token=SPECIAL[0], padding_side="left")
    made.chat_template = qwen3_chat_template
    return made


def config(vocabulary: int, end: int) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=8192,
        eos_token_id=end,
        bos_token_id=None,
        pad_token_id=0,
    )


class Speaker(Qwen3ForCausalLM):
    """Says what `speak` gives. Its weights are those of any tiny model, and so are the log-probabilities of what it says."""

    words: Any
    speak: Speak
    began: int = 0

    def generate(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **options: Any) -> torch.Tensor:
        said = []
        for row, seen in zip(input_ids, attention_mask, strict=True):
            text = self.words.decode(row[seen.bool()].tolist(), skip_special_tokens=False)
            turns = [turn.split(ENDS)[0] for turn in text.split(OPENS)[1:-1]]
            if not turns:
                self.began += 1
            says = self.words.encode(self.speak(self.began - 1, text, turns), add_special_tokens=False)
            said.append([*says, self.words.eos_token_id])
        processors = LogitsProcessorList([*(options.pop("logits_processor", None) or ()), _Forced(input_ids.shape[1], said)])
        found: torch.Tensor = super().generate(input_ids=input_ids, attention_mask=attention_mask, logits_processor=processors, **options)
        return found


class _Forced(LogitsProcessor):
    def __init__(self, start: int, said: list[list[int]]) -> None:
        self.start, self.said = start, said

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        forced = torch.full_like(scores, float("-inf"))
        place = input_ids.shape[1] - self.start
        for number, ids in enumerate(self.said):
            forced[number, ids[min(place, len(ids) - 1)]] = 0.0
        return forced


def speaker(words: PreTrainedTokenizerFast, speak: Speak) -> Speaker:
    torch.manual_seed(0)
    model = Speaker(config(len(words), words.eos_token_id))
    model.words, model.speak = words, speak
    return model
