"""Two snapshots alone are compared: what they hold of files and rows, with no cell to look into."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.envs.conftest import MakeEnv
from wardian.cli import build_app
from wardian.envs.action import call
from wardian.envs.diff import between, moment_of
from wardian.envs.errors import TaskError
from wardian.envs.registry import load_world, open_environment
from wardian.envs.saving import MANIFEST, save
from wardian.sandbox.sealed import SealedFiles

pytestmark = pytest.mark.anyio
TASK = "lending-desk/easy/seed-1"
LEND = call("lend_item", item_id=102, member_id=3, days=7)


async def test_two_saved_snapshots_are_compared_without_an_engine(make_env: MakeEnv, tmp_path: Path) -> None:
    async with make_env() as env:
        await env.reset(TASK, 5)
        await env.step(call("write_file", path="/workspace/report.txt", content="one\n"))
        save(await env.snapshot(), tmp_path / "one")
        await env.step(LEND)
        await env.step(call("write_file", path="/workspace/report.txt", content="one\ntwo\n"))
        save(await env.snapshot(), tmp_path / "two")
    runner = CliRunner(env={"DOCKER_HOST": "tcp://127.0.0.1:1"})
    done = runner.invoke(build_app(), ["diff", str(tmp_path / "one"), str(tmp_path / "two"), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [(row["table"], row["change"]) for row in found["rows"]] == [("loans", "added")]
    (file,) = found["files"]
    assert (file["path"], file["change"], file["diff"][-2:]) == ("/workspace/report.txt", "changed", [" one", "+two"])
    assert {"path": "steps", "before": 1, "after": 3} in found["spent"]
    refused = runner.invoke(build_app(), ["diff", str(tmp_path / "one"), str(tmp_path / "two"), "--to", "3"])
    assert (refused.exit_code, "is a snapshot" in refused.stderr) == (2, True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "trajectories.jsonl").touch()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / MANIFEST).write_text("{")
    for name, code, said in (("none", 2, "there is no snapshot"), ("run", 2, "that is a run"), ("broken", 1, "damaged; take the")):
        wrong = runner.invoke(build_app(), ["diff", str(tmp_path / "one"), str(tmp_path / name)])
        assert (wrong.exit_code, said in wrong.stderr, "Error" in wrong.stderr) == (code, True, False), wrong.stderr


async def test_a_file_as_at_the_start_is_said_to_be_that(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(TASK, 5)
        start = moment_of(await env.snapshot(), "start")
        await env.step(call("write_file", path="/workspace/NOTES.txt", content="mine\n"))
        found = between(start, moment_of(await env.snapshot(), "later"))
    (file,) = found.files
    assert (file.path, file.as_json()["before"], file.text()) == ("/workspace/NOTES.txt", "as at the start", None)


def test_the_bytes_of_sealed_files_are_found_by_path() -> None:
    table = [
        [1, "workspace", "directory", 0o755, -1, -1, 0, None, {}],
        [2, "sparse", "file", 0o644, -1, -1, 0, [6, [[1, 2], [4, 1]]], {}],
        [2, "large", "file", 0o644, -1, -1, 0, [99, [[0, 3]]], {}],
        [2, "d", "directory", 0o755, -1, -1, 0, None, {}],
        [3, "whole", "file", 0o644, -1, -1, 0, [2, [[0, 2]]], {}],
        [2, "again", "hard", 0, 0, 0, 0, 4, {}],
        [1, "tmp", "directory", 0o1777, 0, 0, 0, None, {}],
        [2, "link", "link", 0o777, -1, -1, 0, "whole", {}],
    ]
    sealed = SealedFiles("{}", json.dumps(table).encode(), b"abcLLLhi")
    assert sealed.contents(most_bytes=10) == {
        "/workspace/sparse": b"\0ab\0c\0", "/workspace/d/whole": b"hi", "/workspace/again": b"hi"
    }  # fmt: skip


async def test_snapshots_of_two_templates_are_not_compared(make_env: MakeEnv) -> None:
    async with make_env() as env, open_environment(load_world("routing")) as other:
        await env.reset(TASK)
        await other.reset("model-routing/easy/seed-1")
        one, two = moment_of(await env.snapshot(), "one"), moment_of(await other.snapshot(), "two")
    with pytest.raises(TaskError, match=r"template: one stands on \w+, two on \w+"):
        between(one, two)
