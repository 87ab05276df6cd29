"""Episodes of a batch side by side: one batched generation for each turn, and all their steps at once.

The trainer's `rollout_func`. Sessions are stepped from threads, so a slow tool of one episode is waited for beside those of the others.
Tokens stay exactly as they were sampled; what the environment says is put between them with a mask of 0. Every session is closed when its
episode ends, whatever happens. Where the batch is larger than what the server has room for, the rest begins as others end.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trl.chat_template_utils import get_training_chat_template, is_chat_template_prefix_preserving

from wardian.envs.observation import parted
from wardian.tools.completions import CallFormat, parse_completion
from wardian.tools.contract import ToolCall
from wardian.tools.loading import Rejected
from wardian.trainers.client import CapacityReached
from wardian.trainers.trl.connection import Connection
from wardian.trainers.trl.encoding import Encoder
from wardian.trainers.trl.generation import Sampled, generate
from wardian.trainers.trl.outcome import TRANSIENT, Outcome, kind_of
from wardian.trainers.trl.prompts import Opening, task_of

WAIT_S = 60.0
"""How long an episode waits for room on the server while none of the batch runs."""


@dataclass(slots=True)
class Episode:
    """One row of the batch."""

    outcome: Outcome
    session: Any = None
    prompt_ids: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    """Of the completion: what was sampled, and between it what the environment said."""
    mask: list[int] = field(default_factory=list)
    """1: sampled; 0: the environment's."""
    logprobs: list[float] = field(default_factory=list)
    over: bool = False

    def add(self, sampled: Sampled) -> None:
        self.ids += sampled.ids
        self.mask += [1] * len(sampled.ids)
        self.logprobs += sampled.logprobs

    def add_told(self, ids: Sequence[int]) -> None:
        self.ids += ids
        self.mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)


@dataclass(frozen=True, slots=True)
class Limits:
    completion: int
    """Tokens of a completion, with what the environment says in it."""
    context: int
    """Tokens that the model can see at once."""
    turn: int
    """Tokens of one turn of the model."""

    def left(self, episode: Episode) -> int:
        """Tokens that may still be added."""
        return min(self.completion - len(episode.ids), self.context - len(episode.prompt_ids) - len(episode.ids))


@dataclass(frozen=True, slots=True)
class Rollouts:
    """How episodes are played; called as TRL's `rollout_func`."""

    connection: Connection
    world: str
    opening: Opening
    call_format: CallFormat
    show_tools: bool
    retries: int
    turn_tokens: int | None
    max_staleness: int | None
    version_of: Callable[[Any], int]

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play one episode for each of `prompts`, which come already repeated for each group.

        Gives `prompt_ids`, `completion_ids`, `logprobs` and `env_mask`, and `wardian`: an `Outcome` for each, for the reward function. What
        cannot be scored keeps its place, with nothing in it that trains.

        Raises:
            ServerError: the server refuses what is asked, which no further try would change.
            ValueError: a prompt names no task of ours.
        """
        version = self.version_of(trainer)
        encoder = Encoder(trainer._tokenizer, _template(trainer), trainer.chat_template_kwargs)
        limits = self._limits(trainer)
        tasks = [task_of(prompt) for prompt in prompts]
        done: dict[int, Episode] = {}
        left = list(range(len(tasks)))
        for attempt in range(1, self.retries + 2):
            fresh = {place: Episode(Outcome(*tasks[place], str(version), attempt=attempt)) for place in left}
            self._play(list(fresh.values()), encoder, limits, trainer)
            done |= fresh
            left = [place for place, episode in fresh.items() if episode.outcome.failure_kind is not None]
            if not left:
                break
        now = int(trainer.state.global_step)
        if self.max_staleness is not None and now - version > self.max_staleness:
            for episode in done.values():
                episode.outcome.fail("stale", f"played by version {version}, {now - version} behind")
        return _columns(list(done.values()), trainer._tokenizer.eos_token_id)

    def _limits(self, trainer: Any) -> Limits:
        context = getattr(trainer.model.config.get_text_config(), "max_position_embeddings", None) or 1 << 30
        return Limits(trainer.max_completion_length, context, self.turn_tokens or trainer.max_completion_length)

    def _play(self, episodes: Sequence[Episode], encoder: Encoder, limits: Limits, trainer: Any) -> None:
        with ThreadPoolExecutor(max_workers=len(episodes), thread_name_prefix="wardian-rollout") as threads:
            sampled: dict[int, Sampled] = {}
            room, wait_s = len(episodes), 0.0
            try:
                while left := [episode for episode in episodes if not episode.over]:
                    moving = [episode for episode in left if episode.prompt_ids]
                    moving += [episode for episode in left if not episode.prompt_ids][:room]
                    said = [sampled.get(id(episode)) for episode in moving]
                    list(threads.map(partial(self._advance, encoder, limits, wait_s), moving, said))
                    running = [episode for episode in left if episode.prompt_ids and not episode.over]
                    sampled = _generated(trainer, running, limits)
                    room, wait_s = (sum(episode.over for episode in moving), 0.0) if running else (1, WAIT_S)
            finally:
                list(threads.map(_close, episodes))

    def _advance(self, encoder: Encoder, limits: Limits, wait_s: float, episode: Episode, sampled: Sampled | None) -> None:
        """Take a turn, or begin where there is none yet; a failure of ours ends this episode alone."""
        try:
            if sampled is None:
                self._begin(episode, encoder, limits, wait_s)
            else:
                self._turn(episode, encoder, limits, sampled)
        except TRANSIENT as error:
            episode.outcome.fail(kind_of(error), str(error))
            episode.over = True
        if episode.over:
            _close(episode)

    def _begin(self, episode: Episode, encoder: Encoder, limits: Limits, wait_s: float) -> None:
        """Begin it, or leave it for later while others hold all that the server has; only with `wait_s` is a lack of room a failure."""
        outcome = episode.outcome
        episode.session = self.connection.client().session(world=self.world, policy_version=outcome.policy_version)
        try:
            first = episode.session.reset(outcome.task_id, seed=outcome.seed, wait_s=wait_s)
        except CapacityReached:
            if wait_s:
                raise
            _close(episode)
            return
        episode.prompt_ids = encoder.prompt(self.opening(first.text), first.tools if self.show_tools else ())
        if limits.left(episode) <= 0:
            raise ValueError(f"prompt: {outcome.task_id} begins with {len(episode.prompt_ids)} tokens; the model sees {limits.context}")

    def _turn(self, episode: Episode, encoder: Encoder, limits: Limits, sampled: Sampled) -> None:
        room = limits.left(episode)
        ended = sampled.ended and len(sampled.ids) <= room
        episode.add(Sampled(sampled.ids[:room], sampled.logprobs[:room], ended))
        if not ended:
            self._cut_off(episode)
            return
        text = encoder.text(sampled.ids[:-1])
        turn = episode.session.complete(text, format=self.call_format, sample=_sample(sampled))
        episode.outcome.take(turn)
        if turn.done or turn.failure_kind is not None:
            episode.over = True
            return
        told = encoder.answer(_told(turn, parse_completion(text, self.call_format)))
        if len(told) >= limits.left(episode):
            self._cut_off(episode)
        else:
            episode.add_told(told)

    def _cut_off(self, episode: Episode) -> None:
        """End it where the trainer's limit is: nothing of a turn that was cut is run, and what was done so far is judged."""
        episode.outcome.end_cause = "length"
        episode.outcome.conclude(episode.session)
        episode.over = True


def _template(trainer: Any) -> str | None:
    """The chat template that keeps earlier turns as they are, where the tokenizer's own does not; as TRL chooses it for tools."""
    tokenizer = trainer._tokenizer
    kept = trainer.chat_template or is_chat_template_prefix_preserving(tokenizer)
    found: str | None = trainer.chat_template if kept else get_training_chat_template(tokenizer)
    return found


def _generated(trainer: Any, running: Sequence[Episode], limits: Limits) -> dict[int, Sampled]:
    """The next turn of each, by the episode's identity."""
    if not running:
        return {}
    most = min(limits.turn, max(map(limits.left, running)))
    found = generate(trainer, [episode.prompt_ids + episode.ids for episode in running], most)
    return {id(episode): one for episode, one in zip(running, found, strict=True)}


def _told(turn: Any, called: tuple[ToolCall, ...] | Rejected) -> list[dict[str, str]]:
    """What the environment says, as messages: one of role `tool` for each call, and one of role `user` for all else."""
    if isinstance(called, Rejected):
        return [{"role": "user", "content": turn.text}]
    results, incoming = parted(turn.text)
    tools = [{"role": "tool", "name": call.tool, "content": line} for call, line in zip(called, results, strict=False)]
    return tools + ([{"role": "user", "content": "\n".join(incoming)}] if incoming else [])


def _sample(sampled: Sampled) -> dict[str, Any]:
    """For the trajectory: what was sampled, as it was sampled."""
    known = all(map(math.isfinite, sampled.logprobs))
    return {"token_ids": sampled.ids, **({"logprobs": sampled.logprobs} if known else {})}


def _close(episode: Episode) -> None:
    session, episode.session = episode.session, None
    if session is not None:
        session.close()


def _columns(episodes: Sequence[Episode], end: int) -> dict[str, Any]:
    """What the trainer wants. An episode without a reward has no token that trains; one that has no token at all gets an end."""
    columns: Mapping[str, list[Any]] = {"prompt_ids": [], "completion_ids": [], "logprobs": [], "env_mask": [], "wardian": []}
    for episode in episodes:
        scored = episode.outcome.failure_kind is None
        columns["prompt_ids"].append(episode.prompt_ids or [end])
        columns["completion_ids"].append(episode.ids or [end])
        columns["logprobs"].append(episode.logprobs or [0.0])
        columns["env_mask"].append(episode.mask if scored and episode.mask else [0] * max(1, len(episode.ids)))
        columns["wardian"].append(episode.outcome)
    return dict(columns)
