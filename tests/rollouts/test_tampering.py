"""Whatever field of a recorded log is changed, `validate` or `replay` names it, but for those that are declared free."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from wardian.envs.action import Malformed, Message, Observation, ToolCalls, call
from wardian.rollouts.compare import differences, end_difference, start_difference, step_difference
from wardian.rollouts.ground import Ground
from wardian.rollouts.policies.base import Scripted, TaskView
from wardian.rollouts.policies.sampled import Sampled
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, RunRecord, StepRecord
from wardian.rollouts.replay import Replay, select
from wardian.rollouts.trajectory import FILE, TrajectoryLog, load, validate
from wardian.sandbox.differing import Difference
from wardian.tools.contract import ToolCall

pytestmark = pytest.mark.anyio

FREE = {
    "run": {"started_at", "python", "parameters"},
    "episode_start": {
        *("policy_checkpoint", "receipt.agent_uid", "receipt.fingerprint", "receipt.ended_ms", "receipt.made_ms"),
        *("receipt.verified_ms", "reset_ms"),
    },
    "step": {
        *(
            "policy_checkpoint",
            "wall_ms",
            "sample.text",
            "sample.raw",
            "sample.prompt_token_ids",
            "sample.prompt_token_ids[]",
            "sample.token_ids[]",
        ),
        *("sample.logprobs[]", "sample.loss_mask[]"),
    },
    "episode_end": {"wall_ms"},
}
"""What nothing else follows from: real times, the machine's own marks, what was asked for, and what a model gave."""
INPUT = "step action."
"""What a replay takes as it stands; only running it again can tell."""
UNREAD = {"step action.text"}
"""An input that a world may leave unread, as this one does: then nothing that happened depends on it."""


def script(first: Observation, view: TaskView) -> Any:
    """Something of every kind."""
    yield call("shell", command="echo begun > log; cat log")
    yield Malformed('{"name": "list_items", ', "it breaks off")
    yield ToolCalls((ToolCall("list_files", {"path": "/workspace"}), ToolCall("show_item", {"item_id": 101})))
    lend = call("lend_item", item_id=101, member_id=1, days=3)
    yield Sampled(lend, "other", "Lend.", "Lend. (and the call)", [9], [1, 2], [-0.5, -1.5], [0, 1], 70, 2)
    yield call("shell", command="sleep 30", timeout_s=1)
    yield Message("I am done.")


@dataclass(frozen=True, slots=True)
class Change:
    """One field of one line, changed."""

    number: int
    """Of the line, from 0."""
    kind: str
    field: str
    line: dict[str, Any]


def leaves(value: Any, path: str = "", keys: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """Every value in a line, with its path (without indices) and keys."""
    if path:
        yield path, keys, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}".lstrip("."), (*keys, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[]", (*keys, index))


def another(value: Any) -> Any:
    """Another value of the same type where there is one."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case None:
            return "x"
        case list():
            return value[:-1] if value else ["x"]
    return dict(list(value.items())[:-1]) if value else {"x": 1}


def changes(lines: list[dict[str, Any]]) -> Iterator[Change]:
    """Each field of each kind of line, changed once in the first line that has it, and once where its value is of another type."""
    seen: set[tuple[str, str, type]] = set()
    for number, line in enumerate(lines):
        for path, keys, value in leaves(line):
            mark = (line["record"], path, type(value))
            if mark in seen:
                continue
            seen.add(mark)
            changed = copy.deepcopy(line)
            at = changed
            for key in keys[:-1]:
                at = at[key]
            at[keys[-1]] = another(value)
            yield Change(number, line["record"], path, changed)


def found_by_validate(folder: Path, lines: list[str]) -> list[str]:
    (folder / FILE).write_text("".join(f"{line}\n" for line in lines))
    return [str(finding) for _, findings in validate(folder) for finding in findings]


def found_by_comparison(whole: dict[str, Any], changed: dict[str, Any]) -> Difference | None:
    """What a replay says, which finds for each line the whole one."""
    here, there = load(json.dumps(whole)), load(json.dumps(changed))
    match there, here:
        case RunRecord(), RunRecord():
            return next(differences("run.tool_schemas", there.tool_schemas, here.tool_schemas), None)
        case EpisodeStart(), EpisodeStart():
            return start_difference(there, here)
        case StepRecord(), StepRecord():
            return step_difference(there, here, files_inexact=False)
        case EpisodeEnd(), EpisodeEnd():
            return end_difference(there, here)
    return None


async def differs(ground: Ground, folder: Path, lines: list[str]) -> bool:
    """Run it again, and say whether that tells the difference."""
    (folder / FILE).write_text("".join(f"{line}\n" for line in lines))
    log = TrajectoryLog.open(folder)
    return not all(replayed.identical for replayed in await Replay(log, ground).run(select(log).episodes, workers=2))


async def test_a_change_of_any_field_is_named(ground: Ground, player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, Scripted("all", "1", script), episodes=2, faults="mild")
    whole = (tmp_path / FILE).read_text().splitlines()
    assert not found_by_validate(tmp_path, whole)
    assert not await differs(ground, tmp_path, whole)
    unnamed: dict[str, list[str]] = {}
    for change in changes([json.loads(line) for line in whole]):
        lines = [*whole[: change.number], json.dumps(change.line), *whole[change.number + 1 :]]
        if not found_by_validate(tmp_path, lines) and not found_by_comparison(json.loads(whole[change.number]), change.line):
            unnamed[f"{change.kind} {change.field}"] = lines
    read = {name for name, lines in unnamed.items() if name.startswith(INPUT) and await differs(ground, tmp_path, lines)}
    assert set(unnamed) - read == UNREAD | {f"{kind} {field}" for kind, fields in FREE.items() for field in fields}
