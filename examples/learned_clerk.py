"""A clerk of the lending desk that is a tiny language model: its words, its weights, its first lessons, and itself as a policy.

Used by `learn_grpo.py`. As policies of `wardian eval` its checkpoints are `learned_clerk:step_0000`, `learned_clerk:step_0030` and so on:
the names of their folders, which lie in the one that the variable CLERKS names.
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.trainers import BpeTrainer
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from wardian.envs.action import Action, Message, Observation, ToolCalls
from wardian.envs.definition import WorldDefinition
from wardian.envs.registry import load_world
from wardian.rollouts.inference.batching import ActRequest
from wardian.rollouts.inference.reading import read_text
from wardian.rollouts.policies.sampled import Sampled
from wardian.tools.completions import CallFormat
from wardian.tools.contract import ToolCall
from wardian.trainers.client import BlockingClient
from wardian.trainers.trl.encoding import Encoder

FAMILY = "lending-desk"
PAD, USER, CLERK, END = "<|pad|>", "<|user|>", "<|clerk|>", "<|end|>"
TEMPLATE = (
    "{%- for message in messages %}{{- ('<|clerk|>' if message.role == 'assistant' else '<|user|>') + message.content }}"
    "{%- for call in message.tool_calls or [] %}{{- call.function.name }}{%- endfor %}{{- '<|end|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|clerk|>' }}{%- endif %}"
)
KINDS = ("drill", "ladder", "sander", "saw", "tent", "projector")
ITEMS = tuple(100 * kind + copy for kind in range(1, 7) for copy in (1, 2, 3))
MEMBERS, DAYS = range(1, 14), range(1, 15)
WORDS = (*KINDS, "lent", "returned", "refused", "suspended", "limit", "none")
TURN_TOKENS, EPISODE_TOKENS = 48, 480
"""Most tokens of one turn, and of all turns with what was read between them; then the episode is judged as far as it came."""
CHANGING = ("lend_item", "return_item", "write_file")

Turns = list[tuple[str, str]]
"""What the clerk wrote, and what it read then."""


def opening(text: str) -> list[dict[str, str]]:
    """A compact prompt: every task of this family has the same instruction, so the model needs none of it. It works by what it reads."""
    return [{"role": "user", "content": "Go."}]


def recorded(client: BlockingClient, tasks: Sequence[dict[str, Any]], chance: float, seed: int) -> list[Turns]:
    """Play `tasks` by the reference solution, mixed with random calls.

    With `chance` a call that changes something is a random one of its tool in place of the reference's; a third as often a random one is
    made before a call that only reads.
    """
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda task: _episode(client, task, chance, Random(f"{seed}/{task['task_id']}")), tasks))


def _episode(client: BlockingClient, task: dict[str, Any], chance: float, rng: Random) -> Turns:
    turns: Turns = []
    with client.session() as session:

        def made(one: ToolCall) -> Observation:
            turn = session.call(one.tool, one.args)
            turns.append((written(one), turn.text))
            return _observed(turn)

        reference = load_world("toy").family(FAMILY).reference(_observed(session.reset(task["task_id"], seed=task["seed"])))
        action: Action = next(reference)
        while isinstance(action, ToolCalls):
            (one,) = action.calls
            changes = one.tool in CHANGING
            drawn = rng.random() < (chance if changes else chance / 3)
            seen = made(at_random(one, rng) if drawn else one)
            action = reference.send(made(one) if drawn and not changes else seen)
        turns.append(("Done.", ""))
    return turns


def _observed(turn: Any) -> Observation:
    return Observation(turn.text, turn.tokens, turn.results, turn.incoming)


def at_random(one: ToolCall, rng: Random) -> ToolCall:
    """A call of the same tool, with arguments of the right kind."""
    drawn: dict[str, Any] = {
        "item_id": rng.choice(ITEMS),
        "member_id": rng.choice(MEMBERS),
        "days": rng.choice(DAYS),
        "kind": rng.choice(KINDS),
        "content": "".join(f"{_line(rng)}\n" for _ in range(2)),
    }
    assert isinstance(one.args, dict), "the reference gives objects"
    return ToolCall(one.tool, {name: drawn.get(name, value) for name, value in one.args.items()})


def _line(rng: Random) -> str:
    said = (f"lent {rng.choice(ITEMS)}", f"returned {rng.choice(ITEMS)}", f"refused {rng.choice(('suspended', 'limit', 'none'))}")
    return rng.choice(said)


def written(one: ToolCall) -> str:
    """A call as the model writes it."""
    return f"<tool_call>{json.dumps({'name': one.tool, 'arguments': one.args})}</tool_call>"


def tokenizer_of(lessons: Sequence[Turns]) -> PreTrainedTokenizerFast:
    """Byte pairs learned of `lessons`; a number, and a word that matters, is never part of a longer token."""
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d+|" + "|".join(WORDS)), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    words.decoder = decoders.ByteLevel()
    texts = [text for turns in lessons for turn in turns for text in turn if text]
    numbers = [str(number) for number in (*range(1, 32), *ITEMS)] * len(lessons)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    words.train_from_iterator(
        [*texts, *numbers, "Go."],
        BpeTrainer(vocab_size=640, special_tokens=[PAD, USER, CLERK, END], initial_alphabet=alphabet, show_progress=False),
    )
    made = PreTrainedTokenizerFast(tokenizer_object=words, eos_token=END, pad_token=PAD, padding_side="left")
    made.chat_template = TEMPLATE
    return made


def model_of(words: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A Qwen3 of some 120,000 weights, drawn at random."""
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(words),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=16,
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.pad_token_id,
        )
    )


def taught(model: Qwen3ForCausalLM, words: PreTrainedTokenizerFast, lessons: Sequence[Turns], steps: int, seed: int) -> float:
    """The warm start: `steps` supervised steps on what the clerk wrote in `lessons`; gives the last loss, in nats for each token."""
    rng, encoder = Random(seed), Encoder(words)
    examples = [_example(encoder, words, turns) for turns in lessons]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 50) * (0.52 + 0.5 * math.cos(math.pi * step / steps))
    )
    loss = torch.zeros(())
    for _ in range(steps):
        batch = rng.sample(examples, 16)
        width = max(len(ids) for ids, _ in batch)
        ids = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in batch])
        mask = torch.tensor([mask + [0] * (width - len(mask)) for _, mask in batch])[:, 1:].bool()
        logits = model(input_ids=ids, attention_mask=(ids != 0).long()).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits[mask], ids[:, 1:][mask])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return float(loss)


def _example(encoder: Encoder, words: PreTrainedTokenizerFast, turns: Turns) -> tuple[list[int], list[int]]:
    """Token ids, and which of them the clerk wrote."""
    ids = encoder.prompt(opening(""), ())
    mask = [0] * len(ids)
    for said, told in turns:
        wrote = [*words.encode(said, add_special_tokens=False), words.eos_token_id]
        read = encoder.answer([{"role": "tool", "name": "", "content": told}]) if told else []
        ids, mask = ids + wrote + read, mask + [1] * len(wrote) + [0] * len(read)
    return ids, mask


class Clerk:
    """The weights of one folder, for `wardian eval`: many episodes with one call, each sampled as in training."""

    max_batch, max_wait_s = 64, 0.02

    def __init__(self, folder: Path, temperature: float) -> None:
        torch.set_num_threads(1)
        self.name, self.checkpoint = folder.name, folder.name
        self._words = AutoTokenizer.from_pretrained(folder)
        self._model = Qwen3ForCausalLM.from_pretrained(folder).eval()
        self._encoder = Encoder(self._words)
        self._temperature = temperature
        self._ids: dict[int, list[int]] = {}
        """Of each episode so far."""
        torch.manual_seed(0)

    def act_batch(self, requests: Sequence[ActRequest]) -> list[Sampled]:
        """The next turn of each."""
        contexts = [self._context(request) for request in requests]
        width = max(map(len, contexts))
        ids = torch.tensor([[0] * (width - len(context)) + context for context in contexts])
        chosen = {"do_sample": True, "temperature": self._temperature, "top_k": 0} if self._temperature else {"do_sample": False}
        with torch.inference_mode():
            found = self._model.generate(input_ids=ids, attention_mask=(ids != 0).long(), max_new_tokens=TURN_TOKENS, **chosen)
        return [self._acted(request, row) for request, row in zip(requests, found[:, width:].tolist(), strict=True)]

    def _context(self, request: ActRequest) -> list[int]:
        if request.turn == 1:
            self._ids[request.episode] = self._encoder.prompt(opening(""), ())
        else:
            self._ids[request.episode] += self._encoder.answer([{"role": "tool", "name": "", "content": request.observation.rendered}])
        return self._ids[request.episode]

    def _acted(self, request: ActRequest, row: list[int]) -> Sampled:
        end = self._words.eos_token_id
        ids = row[: row.index(end) + 1] if end in row else row
        self._ids[request.episode] += ids
        if end not in row or len(self._ids[request.episode]) > EPISODE_TOKENS:
            return Sampled(Message(""), token_ids=ids)
        text = self._words.decode([token for token in ids if token != end])
        return Sampled(read_text(text, CallFormat.TAGS), raw=text, token_ids=ids)


def __getattr__(name: str) -> Callable[[WorldDefinition], Clerk]:
    """The checkpoint of that name as a policy; the variable CLERKS_TEMPERATURE 0 takes the likeliest token."""
    folder = Path(os.environ.get("CLERKS", "")) / name
    if not name.startswith("step_") or not folder.is_dir():
        raise AttributeError(f"no {name!r} here: the variable CLERKS has to name the folder of its weights' folder")
    return lambda world: Clerk(folder, float(os.environ.get("CLERKS_TEMPERATURE", "1")))
