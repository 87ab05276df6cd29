"""From a trajectory to what trainers read: whole, honest about what is left out, and never from what is held out."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wardian.envs.action import Message, Observation, call
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.export import load_dataset
from wardian.rollouts.export.chat_file import export_chats
from wardian.rollouts.export.dataset import load_rows
from wardian.rollouts.export.errors import NothingToExport, SchemasLost, SplitForbidden
from wardian.rollouts.export.parquet import EPISODE_COLUMNS, STEP_COLUMNS, Per, export_parquet
from wardian.rollouts.export.rows import messages_of
from wardian.rollouts.export.selection import Selection
from wardian.rollouts.policies.base import Scripted, TaskView
from wardian.rollouts.policies.sampled import Sampled
from wardian.rollouts.trajectory import FILE, TrajectoryLog

WARDIAN = (sys.executable, "-c", "from wardian.cli import main; main()")
EPISODES = 4


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Experts and vandals in the toy world; read it, do not change it."""
    out = tmp_path_factory.mktemp("runs") / "one"
    options = ("--episodes", str(EPISODES), "--cells", "2", "--policy", "expert,vandal", "--faults", "mild", "--out", str(out))
    done = subprocess.run([*WARDIAN, "run", "toy", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def altered(run_folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the log with its records changed by a function, which gives `None` for those to leave out."""

    def alter(change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Path:
        records = [change(json.loads(line)) for line in (run_folder / FILE).read_text().splitlines()]
        (tmp_path / FILE).write_text("".join(json.dumps(record) + "\n" for record in records if record is not None))
        return tmp_path

    return alter


def first_of(record: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The record; with `fields` where it is a line of the first episode."""
    return record | fields if record.get("episode_id", "").endswith("-00000") else record


def chats(where: Path, tmp_path: Path, **options: Any) -> tuple[list[dict[str, Any]], Selection]:
    selection = Selection.open(where, **options)
    out = tmp_path / "chats"
    export_chats(selection, out)
    return [json.loads(line) for line in out.read_text("ascii").splitlines()], selection


def test_each_episode_is_a_chat_with_its_tools_and_what_it_earned(run_folder: Path, tmp_path: Path) -> None:
    rows, selection = chats(run_folder, tmp_path)
    log = TrajectoryLog.open(run_folder)
    assert (len(rows), selection.left_out) == (EPISODES, {})
    for row in rows:
        (attempt,) = log.attempts(row["episode_id"])
        assert attempt.start is not None
        assert attempt.end is not None
        assert (row["reward"], row["split"], row["mask"], row["task_hash"]) == (attempt.end.reward, "train", 1, attempt.start.task_hash)
        assert [tool["function"]["name"] for tool in row["tools"]] == list(attempt.start.tools)
        assert sum(message["role"] == "assistant" for message in row["messages"]) == len(attempt.steps)
        assert [message["role"] for message in row["messages"]][:3] == ["system", "user", "assistant"]
        assert row["messages"][-1]["role"] == "assistant"


def test_a_chat_holds_every_call_and_what_each_gave(run_folder: Path, tmp_path: Path) -> None:
    rows, _ = chats(run_folder, tmp_path)
    row = next(row for row in rows if row["policy"] == "expert")
    steps = TrajectoryLog.open(run_folder).attempts(row["episode_id"])[0].steps
    made = [part["function"] for message in row["messages"] for part in message.get("tool_calls", ())]
    assert [(call["name"], json.loads(call["arguments"])) for call in made] == [
        (s.action.tool, s.action.args) for s in steps if s.action.tool
    ]
    given = [message["content"] for message in row["messages"] if message["role"] == "tool"]
    assert given == [step.observation.rendered for step in steps[:-1]]


def test_a_folder_with_held_out_episodes_is_refused_and_nothing_is_written(altered: Any, tmp_path: Path) -> None:
    where = altered(lambda record: first_of(record, split="heldout"))
    with pytest.raises(SplitForbidden, match="-00000: its task is of the split 'heldout', which is never exported"):
        chats(where, tmp_path)
    with pytest.raises(SplitForbidden):
        export_parquet(Selection.open(where), tmp_path / "t.parquet")
    with pytest.raises(SplitForbidden):
        load_dataset(where)
    assert {file.name for file in tmp_path.iterdir()} == {FILE}


@pytest.mark.parametrize("record", ["episode_start", "step", "episode_end"])
def test_one_line_that_says_held_out_is_enough(altered: Any, tmp_path: Path, record: str) -> None:
    where = altered(lambda one: first_of(one, split="eval") if one["record"] == record else one)
    with pytest.raises(SplitForbidden):
        chats(where, tmp_path)


def test_the_training_split_alone_can_be_taken_and_no_other(altered: Any, tmp_path: Path) -> None:
    where = altered(lambda record: first_of(record, split="heldout"))
    rows, selection = chats(where, tmp_path, split="train")
    assert (len(rows), dict(selection.left_out)) == (EPISODES - 1, {"split heldout": 1})
    for split in ("heldout", "eval"):
        with pytest.raises(SplitForbidden, match="is held out"):
            Selection.open(where, split=split)
    for split in ("Train", ""):
        with pytest.raises(UsageProblem, match=f"split: no '{split}'; there are train, eval, heldout"):
            Selection.open(where, split=split)


def test_a_held_out_episode_is_refused_even_masked_or_unfinished(altered: Any, tmp_path: Path) -> None:
    where = altered(lambda one: None if one["record"] == "episode_end" else first_of(one, split="heldout"))
    with pytest.raises(SplitForbidden):
        chats(where, tmp_path)


def test_what_failed_or_never_ended_is_left_out_and_counted(altered: Any, tmp_path: Path) -> None:
    def change(record: dict[str, Any]) -> dict[str, Any] | None:
        name, kind = record.get("episode_id", "")[-5:], record["record"]
        if kind == "episode_end" and name == "00000":
            return record | {"mask": 0, "outcome": "failed", "end_cause": "infrastructure", "reward": None, "succeeded": None}
        return None if (kind == "episode_end" and name == "00001") or (kind == "step" and name == "00002") else record

    rows, selection = chats(altered(change), tmp_path)
    assert (len(rows), dict(selection.left_out)) == (1, {"masked (infrastructure)": 1, "unfinished": 1, "lines missing": 1})
    again = load_rows(tmp_path / FILE, include_masked=True)
    assert [(row["mask"], row["reward"]) for row in again if not row["mask"]] == [(0, None)]
    assert len(again) == 2


def test_only_the_final_attempt_of_an_episode_counts(altered: Any, tmp_path: Path) -> None:
    where = altered(lambda record: record)
    lines = [json.loads(line) for line in (where / FILE).read_text().splitlines()]
    again = [line | {"attempt": 2} for line in lines if line.get("episode_id", "").endswith("-00000")]
    first = [first_of(line, mask=0, retried=True, outcome="failed") if line["record"] == "episode_end" else line for line in lines]
    (where / FILE).write_text("".join(json.dumps(line) + "\n" for line in [*first, *again]))
    rows, selection = chats(where, tmp_path)
    assert (len(rows), len({row["episode_id"] for row in rows}), selection.left_out) == (EPISODES, EPISODES, {})


def test_chats_are_not_written_where_they_would_be_read_as_a_trajectory(altered: Any) -> None:
    where = altered(lambda record: record)
    with pytest.raises(UsageProblem, match="would be read as a trajectory"):
        export_chats(Selection.open(where), where / "chats.jsonl")
    assert {file.name for file in where.iterdir()} == {FILE}


def test_nothing_to_export_is_said_with_the_reasons(altered: Any, tmp_path: Path) -> None:
    where = altered(lambda record: None if record["record"] == "episode_end" else record)
    with pytest.raises(NothingToExport, match=f"left out: {EPISODES} unfinished"):
        chats(where, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {FILE}
    with pytest.raises(NothingToExport):
        load_dataset(where)


def test_schemas_come_from_the_world_where_the_log_has_none_and_only_the_same(altered: Any, tmp_path: Path) -> None:
    where = altered(lambda record: None if record["record"] == "run" else record)
    rows, _ = chats(where, tmp_path)
    assert rows[0]["tools"][0]["function"]["parameters"]["type"] == "object"
    (tmp_path / "chats").unlink()

    def foreign(record: dict[str, Any]) -> dict[str, Any] | None:
        return None if record["record"] == "run" else record | {"versions": record["versions"] | {"tools": "other"}}

    with pytest.raises(SchemasLost, match="the world toy has others here now"):
        chats(altered(foreign), tmp_path)


@pytest.mark.parametrize("per", Per)
def test_a_table_has_the_columns_that_the_page_names_and_the_values_of_the_log(run_folder: Path, tmp_path: Path, per: Per) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    export_parquet(Selection.open(run_folder), tmp_path / "t.parquet", per)
    table = parquet.read_table(tmp_path / "t.parquet")
    log = TrajectoryLog.open(run_folder)
    attempts = [log.attempts(name)[0] for name in log.episodes]
    columns = STEP_COLUMNS if per is Per.STEP else EPISODE_COLUMNS
    assert table.column_names == list(columns)
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    assert [name for name in columns if f"`{name}`" not in page] == []
    if per is Per.EPISODE:
        assert table["reward"].to_pylist() == [attempt.end and attempt.end.reward for attempt in attempts]
        return
    steps = [step for attempt in attempts for step in attempt.steps]
    assert table["fingerprint"].to_pylist() == [step.fingerprint and step.fingerprint.root for step in steps]
    assert [json.loads(action) for action in table["action"].to_pylist()] == [step.action.model_dump() for step in steps]
    assert table["seen"][1].as_py() == steps[0].observation.rendered


@pytest.mark.anyio
async def test_tokens_and_weights_of_each_turn_are_exported(player: Any, tmp_path: Path) -> None:
    def learns(first: Observation, view: TaskView) -> Any:
        yield Sampled(call("show_item", item_id=101), "w-1", "Look.", token_ids=[1, 2], logprobs=[-0.5, -1], loss_mask=[0, 1])
        yield Message("Done.")

    await player.play(tmp_path, Scripted("learner", "w-0", learns), episodes=1)
    selection = Selection.open(tmp_path)
    export_parquet(selection, tmp_path / "t.parquet")
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "t.parquet")
    assert table["policy_checkpoint"].to_pylist() == ["w-1", "w-0"]
    assert (table["token_ids"].to_pylist(), table["loss_mask"].to_pylist()) == ([[1, 2], None], [[0, 1], None])
    messages = messages_of(next(iter(Selection.open(tmp_path))))
    assert (messages[2]["content"], messages[-1]["content"]) == ("Look.", "Done.")


def rounded(rows: Any) -> Any:
    """With fractions as exact as the library keeps them."""
    return json.loads(json.dumps(rows), parse_float=lambda text: round(float(text), 12))


def test_a_data_set_takes_what_its_json_cannot_hold_as_text(altered: Any) -> None:
    pytest.importorskip("datasets")
    odd = {"item_id": 2**80}

    def oddly(one: dict[str, Any]) -> dict[str, Any]:
        called = one["record"] == "step" and one["action"]["type"] == "tool_call" and one["action"]["tool"]
        return one | {"action": one["action"] | {"args": odd}} if called else one

    rows = load_dataset(altered(oddly))
    calls = [call for row in rows for message in row["messages"] for call in message.get("tool_calls", ())]
    assert {"item_id": str(2**80)} in [call["function"]["arguments"] for call in calls]


@pytest.mark.parametrize("form", ["messages", "prompt_completion", "turns"])
def test_a_data_set_holds_the_rows_as_they_are(run_folder: Path, form: str) -> None:
    pytest.importorskip("datasets")
    rows, found = load_rows(run_folder, form), load_dataset(run_folder, form)
    assert type(found).__name__ == "Dataset"
    assert rounded(list(found)) == rounded(rows)
    calls = [call for row in found for message in row.get("messages", row.get("completion")) for call in message.get("tool_calls", ())]
    assert calls
    assert all(isinstance(call["function"]["arguments"], dict) for call in calls)


def test_turns_are_whole_prompts_with_one_answer_each(run_folder: Path) -> None:
    whole, turns = load_rows(run_folder), load_rows(run_folder, "turns")
    assert len(turns) == sum(row["steps"] for row in whole)
    last = [row for row in turns if row["episode_id"] == whole[0]["episode_id"]][-1]
    assert [*last["prompt"], *last["completion"]] == whole[0]["messages"]
    assert last["turn"] == whole[0]["steps"]


def test_without_the_libraries_rows_are_plain_and_parquet_says_what_it_needs(run_folder: Path, tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["datasets"] = sys.modules["pyarrow"] = None
from pathlib import Path
from wardian.rollouts.export import load_dataset
print(type(load_dataset({str(run_folder)!r})).__name__)
from wardian.cli import main
sys.argv = ["wardian", "export", "parquet", {str(run_folder)!r}, "--out", {str(tmp_path / "t.parquet")!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("list\n", 2)
    assert "pip install 'wardian[parquet]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_commands_export_count_and_refuse(wardian: Any, run_folder: Path, altered: Any, tmp_path: Path) -> None:
    out = tmp_path / "chats"
    done = wardian("export", "chat", run_folder, "--out", out)
    assert (done.returncode, done.stdout) == (0, f"exported {EPISODES} episodes to {out}\n"), done.stderr
    again = wardian("export", "chat", run_folder, "--out", out)
    assert (again.returncode, "is there already" in again.stderr) == (2, True)
    where = altered(lambda record: first_of(record, split="heldout"))
    refused = wardian("export", "parquet", where, "--out", tmp_path / "t.parquet")
    assert (refused.returncode, "never exported for training" in refused.stderr) == (2, True)
    taken = wardian("export", "parquet", where, "--out", tmp_path / "t.parquet", "--split", "train", "--json")
    assert json.loads(taken.stdout) == {"exported": EPISODES - 1, "left_out": {"split heldout": 1}, "out": str(tmp_path / "t.parquet")}
