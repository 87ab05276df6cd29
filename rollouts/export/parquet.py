"""Trajectories as Parquet: one row for each step, or one for each episode. What has no one type in all rows is a column of JSON text."""

import importlib
import json
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any

from wardian import __version__
from wardian.rollouts.export.atomic import new_file
from wardian.rollouts.export.errors import ExportNeeds
from wardian.rollouts.export.rows import chat_row, facts_of
from wardian.rollouts.export.schemas import ToolSchemas
from wardian.rollouts.export.selection import Episode, Selection
from wardian.rollouts.records import SCHEMA_VERSION, Json, SamplePart

ROWS_AT_ONCE = 1000
NOTHING = SamplePart()

EPISODE_COLUMNS = {
    **dict.fromkeys(("episode_id", "task_id", "task_hash", "split", "canary", "env_version", "policy"), "string"),
    "policy_checkpoints": "list<string>",
    "reward": "double",
    "reward_components": "json",
    "succeeded": "bool",
    "verdict": "json",
    **dict.fromkeys(("outcome", "end_cause"), "string"),
    "steps": "int32",
    "mask": "int8",
    **dict.fromkeys(("messages", "tools", "samples"), "json"),
}
"""Column and type; `json` is text."""

STEP_COLUMNS = {
    **dict.fromkeys(("episode_id", "task_id", "task_hash", "split", "canary", "env_version", "policy", "policy_checkpoint"), "string"),
    "step": "int32",
    **dict.fromkeys(("seen", "observation"), "string"),
    "observation_tokens": "int64",
    "action_type": "string",
    "tool": "string",
    "action": "json",
    "tool_status": "string",
    "latency_ms": "int64",
    "reward": "double",
    "reward_components": "json",
    **dict.fromkeys(("terminated", "truncated"), "bool"),
    "end_cause": "string",
    "clock_ms": "int64",
    "fingerprint": "string",
    "faults": "list<string>",
    "episode_reward": "double",
    "succeeded": "bool",
    "mask": "int8",
    **dict.fromkeys(("text", "raw"), "string"),
    **dict.fromkeys(("prompt_token_ids", "token_ids"), "list<int64>"),
    "logprobs": "list<double>",
    "loss_mask": "list<int8>",
    **dict.fromkeys(("prompt_tokens", "completion_tokens"), "int64"),
}


class Per(StrEnum):
    STEP = "step"
    EPISODE = "episode"


def export_parquet(selection: Selection, out: Path, per: Per = Per.STEP) -> None:
    """Write all of `selection` to the new file `out`.

    Raises:
        ExportNeeds: pyarrow is not installed.
        SplitForbidden, LogBroken, SchemasLost, UsageProblem: nothing was written.
    """
    arrow, parquet = _library("pyarrow"), _library("pyarrow.parquet")
    columns = STEP_COLUMNS if per is Per.STEP else EPISODE_COLUMNS
    schema = arrow.schema(
        [(name, _type(arrow, kind)) for name, kind in columns.items()],
        metadata={"wardian": __version__, "schema_version": str(SCHEMA_VERSION), "per": per.value},
    )
    rows = _rows(selection, per, columns)
    with new_file(out) as path, parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while part := list(islice(rows, ROWS_AT_ONCE)):
            writer.write_table(arrow.Table.from_pylist(part, schema=schema))
        selection.must_have_some()


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ExportNeeds(f"Parquet needs pyarrow: pip install 'wardian[parquet]' ({error})") from error


def _type(arrow: Any, kind: str) -> Any:
    kinds = {"double": arrow.float64(), "json": arrow.string(), "bool": arrow.bool_()}
    if kind.startswith("list<"):
        return arrow.list_(_type(arrow, kind[5:-1]))
    return kinds.get(kind) or getattr(arrow, kind)()


def _rows(selection: Selection, per: Per, columns: dict[str, str]) -> Iterator[dict[str, Json]]:
    schemas = ToolSchemas(selection.log)
    for episode in selection:
        for row in _step_rows(episode) if per is Per.STEP else (chat_row(episode, schemas),):
            yield {name: _value(row[name], kind) for name, kind in columns.items()}


def _value(value: Json, kind: str) -> Json:
    if kind == "json":
        return None if value is None else json.dumps(value, allow_nan=False)
    # A lone surrogate has no place in UTF-8; the JSON columns keep it as an escape.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _step_rows(episode: Episode) -> Iterator[dict[str, Json]]:
    facts, seen = facts_of(episode), episode.start.observation.rendered
    kept = ("episode_id", "task_id", "task_hash", "split", "canary", "env_version", "policy", "succeeded", "mask")
    for step in episode.steps:
        sample = step.sample or NOTHING
        yield {
            **{name: facts[name] for name in kept},
            "episode_reward": facts["reward"],
            "policy_checkpoint": step.policy_checkpoint,
            "step": step.step,
            "seen": seen,
            "observation": step.observation.rendered,
            "observation_tokens": step.observation.tokens,
            "action_type": step.action.type,
            "tool": step.action.tool,
            "action": step.action.model_dump(),
            "tool_status": step.tool_result.status,
            "latency_ms": step.tool_result.latency_ms,
            "reward": step.reward,
            "reward_components": dict(step.reward_components),
            "terminated": step.terminated,
            "truncated": step.truncated,
            "end_cause": step.end_cause,
            "clock_ms": step.clock_ms,
            "fingerprint": step.fingerprint.root if step.fingerprint else None,
            "faults": [event.fault for event in step.events if event.fault],
            **{name: getattr(sample, name) for name in SamplePart.model_fields},
        }
        seen = step.observation.rendered
