"""Trajectories as a data set in memory, in the forms that TRL's trainers read.

TRL 1.16 takes `messages` (trains on the model's turns where `assistant_only_loss` is set), or `prompt` and `completion` (trains on the
whole completion); both with `tools`. A chat of several turns as one prompt and one completion would train on the tools' answers as well, so
`turns` gives each turn of the model as a completion of its own.
"""

import importlib
import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.export.rows import Arguments, chat_row, turns_of
from wardian.rollouts.export.schemas import ToolSchemas
from wardian.rollouts.export.selection import Selection
from wardian.rollouts.records import Json
from wardian.tools.loading import INT_MAX, INT_MIN


class Form(StrEnum):
    MESSAGES = "messages"
    """One row for each episode, with `messages` and `tools`."""
    PROMPT_COMPLETION = "prompt_completion"
    """One row for each episode: `prompt` up to the model's first turn, `completion` the rest."""
    TURNS = "turns"
    """One row for each turn of the model, with `prompt` and `completion`."""


def load_rows(
    where: Path | str, form: str = Form.MESSAGES, *, split: str | None = None, include_masked: bool = False
) -> list[dict[str, Json]]:
    """The rows of a trajectory, as plain data. Arguments of calls are objects, as chat templates want them.

    Raises:
        SplitForbidden: an episode is held out from training; see `wardian.rollouts.export.selection`.
        LogBroken: there is no trajectory, or a line is not readable.
        NothingToExport: every episode was left out; says why.
        UsageProblem: there is no such form.
    """
    if form not in list(Form):
        raise UsageProblem(f"form: no {form!r}; there are {', '.join(Form)}")
    selection = Selection.open(Path(where), split=split, include_masked=include_masked)
    schemas = ToolSchemas(selection.log)
    rows = [row for episode in selection for row in _formed(chat_row(episode, schemas, Arguments.OBJECT), Form(form))]
    selection.must_have_some()
    return rows


def load_dataset(where: Path | str, form: str = Form.MESSAGES, *, split: str | None = None, include_masked: bool = False) -> Any:
    """The same as a `datasets.Dataset`, where that library (from 4.7) is installed; else the list of rows itself.

    Raises:
        As `load_rows`.
    """
    rows = load_rows(where, form, split=split, include_masked=include_masked)
    try:
        datasets = importlib.import_module("datasets")
    except ModuleNotFoundError as error:
        if error.name != "datasets":
            raise
        return rows
    features = {name: _type(datasets, name) for name in rows[0]}
    found: Any = datasets.Dataset.from_list(
        [{name: _stored(name, value) for name, value in row.items()} for row in rows], features=datasets.Features(features)
    )
    return found


# What has no one type in all rows is stored as JSON, which also keeps keys that are absent from coming back as None.
_OBJECTS = ("verdict", "reward_components")
_LISTS = ("messages", "prompt", "completion", "tools", "samples")
_PLAIN = {
    **dict.fromkeys(("episode_id", "task_id", "task_hash", "split", "canary", "env_version", "policy", "outcome", "end_cause"), "string"),
    **dict.fromkeys(("steps", "mask", "turn"), "int64"),
    "reward": "float64",
    "succeeded": "bool",
}


def _type(datasets: Any, name: str) -> Any:
    if name in _OBJECTS:
        return datasets.Json()
    if name in _LISTS:
        return datasets.List(datasets.Json())
    return datasets.List(datasets.Value("string")) if name == "policy_checkpoints" else datasets.Value(_PLAIN[name])


def _stored(name: str, value: Json) -> Json:
    # As text that is JSON already: the library's own writer (5.2) keeps ten digits of a fraction, its reader fifteen.
    if name in _OBJECTS:
        return None if value is None else json.dumps(_storable(value))
    if name in _LISTS:
        return [None if one is None else json.dumps(_storable(one)) for one in value]
    return _storable(value)


def _storable(value: Json) -> Json:
    """The value without what the library's reader cannot take."""
    if isinstance(value, dict):
        return {_storable(name): _storable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return str(value) if isinstance(value, int) and not INT_MIN <= value <= INT_MAX else value


def _formed(row: dict[str, Json], form: Form) -> Iterator[dict[str, Json]]:
    if form is Form.MESSAGES:
        yield row
    elif form is Form.TURNS:
        yield from turns_of(row)
    else:
        messages = row.pop("messages")
        first = next((place for place, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
        yield {"prompt": messages[:first], "completion": messages[first:], **row}
