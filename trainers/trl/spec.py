"""`WardianSpec`: what `GRPOTrainer` needs of a server, checked before the first step."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from wardian.rollouts.chat import opening
from wardian.tools.completions import CallFormat
from wardian.trainers.trl.connection import Connection
from wardian.trainers.trl.environment import Setting, Version, make
from wardian.trainers.trl.prompts import Opening, row
from wardian.trainers.trl.reward import episode_reward
from wardian.trainers.trl.rollout import Rollouts

PAGE = 1000


def global_step(trainer: Any) -> int:
    """The version of weights that a trainer samples from itself."""
    return int(trainer.state.global_step)


class WardianSpec:
    """One world of a server, for TRL.

    Give the trainer `train_dataset`, `reward_funcs` and one of `rollout_func` (episodes side by side; schemas as they are; any chat
    template that keeps earlier turns) or `environment_factory` (TRL's own loop, one call after another).
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        world: str | None = None,
        split: str = "train",
        *,
        families: Sequence[str] = (),
        difficulties: Sequence[str] = (),
        count: int | None = None,
        opening: Opening = opening,
        call_format: str = "tags",
        show_tools: bool = True,
        retries: int = 1,
        turn_tokens: int | None = None,
        max_staleness: int | None = None,
        version_of: Callable[[Any], int] = global_step,
    ) -> None:
        """Ask the server what it has.

        Args:
            url: Of the server.
            token: The trainers', where the server wants one.
            world: By its name there; the server's first where it is not given.
            split: Whose tasks are listed.
            families: Only tasks of these.
            difficulties: Only tasks of these: `easy`, `medium`, `hard`.
            count: At most so many tasks.
            opening: What a conversation begins with, from the text of a first observation.
            call_format: How the model writes calls: `json`, `tags`, `mistral`, `invoke`.
            show_tools: Give the tools' schemas to the chat template.
            retries: How often an episode is played again that failed through us.
            turn_tokens: Most tokens of one turn of the model; without it the completion's own limit.
            max_staleness: Leave out episodes of weights that are more versions behind than that.
            version_of: The version of the weights that act, where that is not the trainer's own step.

        Raises:
            ValueError: there is no such world, split, family, difficulty or format, or no task is left; says what there is.
            ServerError: the server cannot be asked.
        """
        self.connection = Connection(url, token)
        client = self.connection.client()
        worlds = list(client.info()["worlds"])
        self.world = str(_one_of("world", world or worlds[0], worlds))
        self.split = _one_of("split", split, client.splits(self.world))
        self.tools = tuple(client.tools(self.world))
        self.tasks = self._listed(families, difficulties, count)
        form = CallFormat(_one_of("call_format", call_format, [one.value for one in CallFormat]))
        self._version = Version()
        self._setting = Setting(self.connection, self.world, self.tools, opening, retries, self._version)
        self.rollout_func = Rollouts(
            self.connection, self.world, opening, form, show_tools, retries, turn_tokens, max_staleness, version_of
        )
        """For `GRPOTrainer(rollout_func=...)`."""
        self.reward_funcs = [episode_reward]
        """For `GRPOTrainer(reward_funcs=...)`, with either way of playing."""

    @property
    def environment_factory(self) -> "functools.partial[Any]":
        """For `GRPOTrainer(environment_factory=...)`. Pickles.

        Raises:
            ValueError: a tool has a name that TRL cannot take for a method's.
        """
        factory = functools.partial(make, self._setting)
        factory()
        return factory

    @functools.cached_property
    def train_dataset(self) -> Any:
        """A `datasets.Dataset`: `prompt`, `task_id`, `seed`, `index`. The text of a prompt comes with its episode."""
        from datasets import Dataset  # type: ignore[import-untyped]  # has no types

        return Dataset.from_list([row(task, int(task["seed"])) for task in self.tasks])

    @functools.cached_property
    def callback(self) -> Any:
        """For `GRPOTrainer(callbacks=[...])`, with `environment_factory`: says which weights act. `rollout_func` needs none."""
        from transformers import TrainerCallback

        version = self._version

        class Versions(TrainerCallback):
            def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                version.value = str(state.global_step)

        return Versions()

    def close(self) -> None:
        """End the connection, and every lease of it. Idempotent."""
        self.connection.close()

    def _listed(self, families: Sequence[str], difficulties: Sequence[str], count: int | None) -> list[dict[str, Any]]:
        client = self.connection.client()
        total = client.num_tasks(self.split, self.world)
        every = [task for start in range(0, total, PAGE) for task in client.tasks(self.split, start, start + PAGE, self.world)]
        for name, wanted in (("family", families), ("difficulty", difficulties)):
            for one in wanted:
                _one_of(name, one, sorted({task[name] for task in every}))
        found = [
            task
            for task in every
            if (not families or task["family"] in families) and (not difficulties or task["difficulty"] in difficulties)
        ][:count]
        if not found:
            raise ValueError(f"tasks: of {total} in the split {self.split} of {self.world}, families, difficulties and count leave none")
        return found


def _one_of(name: str, given: str, known: Sequence[str]) -> str:
    if given not in known:
        raise ValueError(f"{name}: the server has no {given!r}; it has {', '.join(known)}")
    return given
