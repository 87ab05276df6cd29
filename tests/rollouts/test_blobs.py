"""Large observations stand beside the log, once each, and whoever reads the log does not notice."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from blake3 import blake3
from jsonschema import Draft202012Validator

from wardian.envs.action import Observation, call
from wardian.rollouts.blobs import FOLDER, LARGE_BYTES, Blobs
from wardian.rollouts.errors import LogBroken
from wardian.rollouts.ground import Ground
from wardian.rollouts.policies.base import Scripted, TaskView
from wardian.rollouts.records import json_schema
from wardian.rollouts.replay import Replay, select
from wardian.rollouts.trajectory import FILE, TrajectoryLog, validate

NOISE = "head -c 15000 /dev/zero | tr '\\0' '\\377'"
COUNTING = "seq 1 9000; seq 1 9000 >&2"


def loud(first: Observation, view: TaskView) -> Any:
    """Prints much, twice the same, and once what is no text."""
    yield call("shell", command=COUNTING)
    yield call("shell", command=COUNTING)
    yield call("shell", command=NOISE)


@dataclass(frozen=True)
class Played:
    """A log of three loud episodes, and where it is."""

    out: Path

    @property
    def blobs(self) -> list[Path]:
        return sorted((self.out / FOLDER).iterdir())

    def findings(self) -> list[str]:
        return [str(finding) for _, found in validate(self.out) for finding in found]

    def attempt(self) -> Any:
        return TrajectoryLog.open(self.out).attempts("test-00000")[0]


@pytest.fixture
async def played(player: Any, tmp_path: Path) -> Played:
    await player.play(tmp_path, Scripted("loud", "1", loud), episodes=3)
    return Played(tmp_path)


@pytest.mark.anyio
async def test_what_is_large_is_stored_once_under_its_digest_and_read_back(played: Played) -> None:
    # Of each command a rendering and its raw output, which for the numbers is the same on stdout and stderr, and in all episodes.
    assert len(played.blobs) == 4
    assert [blake3(blob.read_bytes()).hexdigest() for blob in played.blobs] == [blob.name for blob in played.blobs]
    assert max(map(len, (played.out / FILE).read_text().splitlines())) < LARGE_BYTES
    first, again, noise, _ = played.attempt().steps
    assert first.observation.rendered == again.observation.rendered
    assert json.loads(first.observation.rendered)["result"]["stdout"].startswith("1\n2\n")
    assert len(noise.events[0].attachments["stdout"]) == 20_000
    assert played.findings() == []


@pytest.mark.anyio
async def test_lines_with_references_hold_to_the_schema_and_replay(played: Played, ground: Ground) -> None:
    schema = Draft202012Validator(json_schema())
    lines = [json.loads(line) for line in (played.out / FILE).read_text().splitlines()]
    assert any(isinstance(line.get("observation", {}).get("rendered"), dict) for line in lines)
    assert all(schema.is_valid(line) for line in lines)
    log = TrajectoryLog.open(played.out)
    assert [replayed.identical for replayed in await Replay(log, ground).run(select(log).episodes, workers=2)] == [True] * 3


@pytest.mark.anyio
async def test_a_missing_blob_is_named(played: Played) -> None:
    gone = played.blobs[0]
    gone.unlink()
    assert all(f"blob {gone.name} cannot be read: No such file" in finding for finding in played.findings())
    assert len(played.findings()) in (3, 6)  # the lines of three episodes, where it is of one step or of two
    with pytest.raises(LogBroken, match=rf"{FILE}:\d+: .*blob {gone.name}"):
        played.attempt()


@pytest.mark.anyio
async def test_an_altered_blob_is_named_with_its_field(played: Played) -> None:
    for blob in played.blobs:
        data = bytearray(blob.read_bytes())
        data[100] ^= 1
        blob.write_bytes(data)
    found = played.findings()
    assert any(" observation.rendered: blob" in finding and "not those that it is named by; copy" in finding for finding in found)
    assert sum("not those that it is named by" in finding for finding in found) == 9, found


@pytest.mark.parametrize("reference", [{}, {"blob": "../../etc/passwd", "size_bytes": 1}, {"blob": "A" * 64, "size_bytes": 1}, {"blob": 1}])
def test_a_reference_that_is_none_is_never_a_path(tmp_path: Path, reference: dict[str, Any]) -> None:
    (tmp_path / FILE).write_text(json.dumps({"record": "step", "observation": {"rendered": reference, "tokens": 1}}) + "\n")
    (found,) = Played(tmp_path).findings()
    assert "step observation.rendered: is neither text nor a reference to a blob" in found


@pytest.mark.parametrize(("text", "stored"), [("x" * LARGE_BYTES, 0), ("x" * (LARGE_BYTES + 1), 1), ("é" * (LARGE_BYTES // 2 + 1), 1)])
def test_the_limit_is_one_of_bytes(tmp_path: Path, text: str, stored: int) -> None:
    blobs = Blobs(tmp_path / FOLDER)
    line = {"observation": {"rendered": text, "tokens": 1}, "events": [{"attachments": {"stdout": text}}]}
    away = blobs.put_away(line)
    blobs.sync()
    assert (away != line) == bool(stored)
    assert len(list(tmp_path.glob(f"{FOLDER}/*"))) == stored
    assert Blobs(tmp_path / FOLDER).take_back(away) == line


@pytest.mark.parametrize(("text", "back"), [("\ud800" * LARGE_BYTES, "\\ud800" * LARGE_BYTES), ("\x00\r\n" * LARGE_BYTES,) * 2])
def test_any_large_text_comes_back_well_formed(tmp_path: Path, text: str, back: str) -> None:
    blobs = Blobs(tmp_path / FOLDER)
    away = json.loads(json.dumps(blobs.put_away({"observation": {"rendered": text}})))
    assert blobs.take_back(away) == {"observation": {"rendered": back}}


@pytest.mark.anyio
async def test_writers_that_store_the_same_at_once_leave_one_whole_blob(tmp_path: Path) -> None:
    line = {"observation": {"rendered": "x" * 10**6}}
    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(anyio.to_thread.run_sync, Blobs(tmp_path / FOLDER).put_away, line)
    (blob,) = (tmp_path / FOLDER).iterdir()
    assert blob.stat().st_size == 10**6


def test_a_torn_blob_of_a_crash_is_stored_again(tmp_path: Path) -> None:
    line = {"observation": {"rendered": "x" * 10**6}}
    Blobs(tmp_path / FOLDER).put_away(line)
    (blob,) = (tmp_path / FOLDER).iterdir()
    blob.write_bytes(b"x")
    away = Blobs(tmp_path / FOLDER).put_away(line)
    assert Blobs(tmp_path / FOLDER).take_back(away) == line
