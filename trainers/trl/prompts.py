"""Rows of the trainer's data set: each names a task, and carries that name through the trainer in its prompt."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Opening: TypeAlias = Callable[[str], Sequence[Mapping[str, str]]]
"""From the text of a first observation to the messages that a conversation begins with. A module's function, where it is to be pickled."""

KEY = "wardian"
"""Of a prompt's last message: the trainer hands a `rollout_func` nothing but prompts."""


def row(task: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """A row for one task; the text of the prompt comes with the episode."""
    named = {"task_id": str(task["task_id"]), "seed": seed}
    return {"prompt": [{"role": "user", "content": "", KEY: named}], **named, "index": int(task["index"])}


def task_of(prompt: Any) -> tuple[str, int]:
    """Task and seed that a prompt names.

    Raises:
        ValueError: it names none.
    """
    named = prompt[-1].get(KEY) if isinstance(prompt, Sequence) and prompt and isinstance(prompt[-1], Mapping) else None
    if not isinstance(named, Mapping):
        raise ValueError(f"prompt: names no task; take rows of WardianSpec.train_dataset. Got {str(prompt)[:200]}")
    return str(named["task_id"]), int(named["seed"])
