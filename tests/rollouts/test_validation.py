"""`wardian validate` refuses every damaged log, with file, line, record, field and fix, and takes what a crash leaves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from typer.testing import CliRunner

from wardian.cli import build_app
from wardian.rollouts.agreement import disagreements
from wardian.rollouts.records import SCHEMA_VERSION, ResultPart, StepRecord
from wardian.rollouts.trajectory import FILE, load

pytestmark = pytest.mark.anyio
Lines: TypeAlias = list[bytes]
"""Those of two episodes, one after the other: a run line, then start, steps and end of each."""


@pytest.fixture(scope="module")
def kept() -> Lines:
    """The log, recorded once."""
    return []


@pytest.fixture
async def lines(player: Any, tmp_path: Path, kept: Lines) -> Lines:
    if not kept:
        await player.play(tmp_path / "whole", "expert", episodes=2, faults="mild")
        found = (tmp_path / "whole" / FILE).read_bytes().splitlines()
        kept += sorted(found, key=lambda line: b"" if b'"record": "run"' in line else line[:40])
    return [*kept]


def validated(folder: Path, lines: Lines, end: bytes = b"\n") -> tuple[int, str]:
    (folder / FILE).write_bytes(b"\n".join(lines) + end)
    answered = CliRunner().invoke(build_app(), ["validate", str(folder)])
    return answered.exit_code, answered.output


def at(lines: Lines, kind: str, number: int = 0) -> int:
    """Place of the n-th line of a kind."""
    return [place for place, line in enumerate(lines) if f'"record": "{kind}"'.encode() in line][number]


def with_field(line: bytes, path: str, value: Any) -> bytes:
    fields = json.loads(line)
    inner = fields
    *folders, name = path.split(".")
    for folder in folders:
        inner = inner[int(folder)] if isinstance(inner, list) else inner[folder]
    inner[name] = value
    return json.dumps(fields).encode()


def changed(kind: str, path: str, value: Any, number: int = 0) -> Callable[[Lines], Lines]:
    """One field of the n-th line of a kind."""

    def damage(lines: Lines) -> Lines:
        place = at(lines, kind, number)
        return [*lines[:place], with_field(lines[place], path, value), *lines[place + 1 :]]

    return damage


def swapped(lines: Lines) -> Lines:
    place = at(lines, "step", 1)
    return [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]


def twice(kind: str) -> Callable[[Lines], Lines]:
    return lambda lines: [*lines[: at(lines, kind) + 1], *lines[at(lines, kind) :]]


def without(kind: str, number: int = 0) -> Callable[[Lines], Lines]:
    return lambda lines: [*lines[: at(lines, kind, number)], *lines[at(lines, kind, number) + 1 :]]


def raw(kind: str, old: bytes, new: bytes) -> Callable[[Lines], Lines]:
    """Bytes of the first line of a kind, replaced once."""

    def damage(lines: Lines) -> Lines:
        place = at(lines, kind)
        assert old in lines[place]
        return [*lines[:place], lines[place].replace(old, new, 1), *lines[place + 1 :]]

    return damage


def unheard(lines: Lines) -> Lines:
    """An observation without the words that the customer said in its step."""
    place = next(place for place, line in enumerate(lines) if rb"\n{\"from\": " in line)
    rendered = json.loads(lines[place])["observation"]["rendered"]
    return [*lines[:place], with_field(lines[place], "observation.rendered", rendered.split("\n")[0]), *lines[place + 1 :]]


DAMAGES: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "nan": (changed("step", "reward_components.task", float("nan")), "step: holds NaN, which is not JSON; write a finite number"),
    "infinity": (changed("episode_end", "reward", float("-inf")), "episode_end: holds -Infinity, which is not JSON"),
    "overflow": (raw("step", b'"wall_ms": ', b'"wall_ms": 1e999'), "which no number of 64 bits holds; write a finite number"),
    "key twice": (raw("step", b'"seed": ', b'"seed": 1, "seed": '), "step seed: has the key 'seed' twice"),
    "long integer": (raw("step", b'"seed": ', b'"seed": ' + b"9" * 10_000), "step: holds an integer of 100"),
    "no utf-8": (raw("step", b'"policy": "', b'"policy": "\xff'), "step: is not UTF-8: byte 0xff"),
    "lone surrogate": (raw("step", b'"rendered": "', b'"rendered": "\\ud800'), "step observation.rendered: holds a lone surrogate"),
    "duplicated step": (twice("step"), "is 1 where 2 is due: a line stands twice, or out of order; put the lines in order"),
    "duplicated start": (twice("episode_start"), "attempt: 1 of this episode begins a second time; first at"),
    "duplicated end": (twice("episode_end"), "ends a second time"),
    "duplicated run": (twice("run"), "run test: stands twice; first at"),
    "reordered": (swapped, "step: is 3 where 2 is due"),
    "step lost": (without("step", 2), "step: is 4 where 3 is due: a line is missing"),
    "last step lost": (lambda lines: [*lines[:-2], lines[-1]], "steps: is "),
    "step number": (changed("step", "step", 7), "step: is 7 where 1 is due"),
    "no start": (without("episode_start"), "step 1 stands before any start of attempt 1 of its episode in this file"),
    "after the end": (lambda lines: [*lines, lines[-2]], "stands after the end of its episode"),
    "no run line": (without("run"), "no run line stands before it in this file; put the file's first line back"),
    "reward": (changed("step", "reward", 3.0), "reward: is 3.0, and its components sum to -0.002; write -0.002"),
    "end steps": (changed("episode_end", "steps", 1), "steps: is 1, and the steps make it"),
    "end reward": (changed("episode_end", "reward", 5.0), "reward: is 5.0, and its components sum to "),
    "end components": (changed("episode_end", "reward_components.task", 5.0), "reward_components: are {'task': 5.0"),
    "end outcome": (changed("episode_end", "outcome", "truncated"), "outcome: is 'truncated', and the last step had terminated"),
    "format": (
        changed("episode_end", "schema_version", 99),
        f"schema_version: this log is of format 99, and this Wardian reads {SCHEMA_VERSION}; use the version of Wardian that wrote it",
    ),
    "unknown key": (changed("step", "surprise", 1), "step surprise: is no field of this record; delete it"),
    "field lost": (raw("step", b'"wall_ms": ', b'"wall": '), "wall_ms: is missing; add it"),
    "type": (changed("step", "step", "x"), "step: should be a valid integer"),
    "foreign line": (lambda lines: [*lines[:1], b'{"record": "note"}', *lines[1:]], ":2: is no record of ours: `record` must be run"),
    "no object": (lambda lines: [*lines[:1], b"1", *lines[1:]], ":2: is no record of ours: `record` must be run"),
    "garbage": (
        lambda lines: [lines[0], b"{rubbish", *lines[1:]],
        ":2: is no JSON: Expecting property name enclosed in double quotes at column 2; take the line from a whole copy",
    ),
    "torn in the middle": (lambda lines: [lines[0], lines[1][:99], *lines[2:]], ":2: is no JSON, and other lines of its writer follow"),
    "argument": (
        changed("step", "action.args.path", "x"),
        "events[0].args.path: is '/workspace/requests.txt', and the action says otherwise",
    ),
    "argument of an event": (changed("step", "events.0.args", {}), "events[0].args.path: is missing, and the action says otherwise"),
    "tool": (changed("step", "events.0.tool", "lend_item"), "events[0].tool: is 'lend_item', and the action calls 'read_file'"),
    "event lost": (changed("step", "events", []), "events: are 0 of calls, and the action has 1"),
    "status": (changed("step", "events.0.status", "timeout"), "tool_results[0].status: is 'ok', and the call's event says 'timeout'"),
    "latency": (changed("step", "events.0.latency_ms", 1), "and the call's event says 1"),
    "shown status": (
        raw("step", b'{\\"status\\": \\"ok', b'{\\"status\\": \\"no'),
        "observation.rendered: shows results ['no'], and tool_results",
    ),
    "shown twice": (raw("step", b'{\\"status', b'{}\\n{\\"status'), "observation.rendered: shows results [None, 'ok'], and tool_results"),
    "words": (unheard, "observation.rendered: shows the words [], and the background says [('customer', "),
    "versions": (changed("episode_start", "versions.tools", "x"), "versions: are not those of the run line before it"),
    "attempt": (changed("episode_end", "attempt", 2), "ends and has no start before it in this file"),
    "goes on": (
        lambda lines: [*lines, *(with_field(line, "attempt", 2) for line in lines[at(lines, "episode_start", 1) :])],
        "goes on after its final end",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
async def test_a_damaged_log_is_refused_with_place_and_fix(lines: Lines, tmp_path: Path, name: str) -> None:
    damage, says = DAMAGES[name]
    code, output = validated(tmp_path, damage(lines))
    assert (code, says in output) == (1, True), output
    assert output.startswith(f"error: {tmp_path / FILE}:")


async def test_a_cell_that_ended_during_a_call_or_after_it_is_no_contradiction(lines: Lines) -> None:
    step = load(lines[at(lines, "step")])
    assert isinstance(step, StepRecord)
    after = step.model_copy(update={"end_cause": "cell_died"})
    gone = ResultPart(status="unavailable", latency_ms=0)
    seen = step.observation.model_copy(update={"rendered": '{"status": "unavailable", "error": "ended"}'})
    during = after.model_copy(update={"events": [], "tool_result": gone, "tool_results": [gone], "observation": seen})
    assert [list(disagreements(one)) for one in (after, during)] == [[], []]
    assert list(disagreements(during.model_copy(update={"end_cause": "message"})))


async def test_zero_is_never_written_with_a_sign(lines: Lines) -> None:
    assert not [line for line in lines if b"-0.0," in line or b"-0.0}" in line]


async def test_a_whole_log_is_valid_and_a_torn_one_says_what_is_unfinished(lines: Lines, tmp_path: Path) -> None:
    assert validated(tmp_path, lines) == (0, f"valid: {len(lines)} lines\n")
    code, output = validated(tmp_path, [*lines[:-1], lines[-1][:-9]], end=b"")
    assert (code, output.splitlines()[-1]) == (0, f"valid: {len(lines) - 1} lines, 1 unfinished episodes")
    assert output.startswith(f"warning: {tmp_path / FILE}:{len(lines)}: torn by a crash, skipped")


async def test_an_episode_is_unfinished_by_its_attempts_and_not_by_the_order_of_files(lines: Lines, tmp_path: Path) -> None:
    """`continued-001.jsonl` comes before `trajectories.jsonl`, whose attempt was cut off."""
    first = at(lines, "episode_start", 1)
    (tmp_path / "continued-001.jsonl").write_bytes(
        b"\n".join([with_field(lines[0], "python", "other"), *(with_field(line, "attempt", 2) for line in lines[first:])]) + b"\n"
    )
    assert validated(tmp_path, lines[:-1]) == (0, f"valid: {2 * len(lines) - first} lines\n")
    (tmp_path / "continued-001.jsonl").unlink()
    assert validated(tmp_path, lines[:-1]) == (0, f"valid: {len(lines) - 1} lines, 1 unfinished episodes\n")


BROKEN: dict[str, Callable[[Lines], Lines]] = {
    "torn": lambda lines: [*lines[:4], lines[4][:200], *lines[5:]],
    "broken within": lambda lines: [*lines[:4], lines[4][:200] + b"}", *lines[5:]],
    "garbage": lambda lines: [*lines[:4], b"{rubbish}", *lines[4:]],
}


@pytest.mark.parametrize(
    "command", [("validate",), ("show",), ("show", "0"), ("replay",), ("export", "chat", "--out", "new.json")], ids=str
)
@pytest.mark.parametrize("kind", BROKEN)
async def test_every_command_names_a_broken_line_in_the_middle(lines: Lines, tmp_path: Path, command: tuple[str, ...], kind: str) -> None:
    (tmp_path / FILE).write_bytes(b"\n".join(BROKEN[kind](lines)) + b"\n")
    first, *rest = [str(tmp_path / word) if word == "new.json" else word for word in command]
    place = [*rest[:1], str(tmp_path), *rest[1:]] if first == "export" else [str(tmp_path), *rest]
    answered = CliRunner().invoke(build_app(), [first, *place])
    assert (answered.exit_code, f"{FILE}:5: is no JSON" in answered.output.replace("\n", "")) == (1, True), answered.output
    assert not (tmp_path / "new.json").exists()


def test_a_replay_of_an_ended_episode_without_a_line_ends_with_1(anyio_backend: str, lines: Lines, tmp_path: Path) -> None:
    place, start = at(lines, "step"), at(lines, "episode_start", 1)
    (tmp_path / FILE).write_bytes(b"\n".join([*lines[:place], *lines[place + 1 : start]]) + b"\n")
    answered = CliRunner().invoke(build_app(), ["replay", str(tmp_path)])
    assert (answered.exit_code, answered.output.splitlines()[-1]) == (1, "identical 0/1"), answered.output
    assert "episode test-00000: lines missing: of its 8 steps the log lacks 1" in answered.output


@pytest.mark.parametrize(
    ("command", "code"), [(("show",), 0), (("show", "0"), 0), (("replay",), 1), (("export", "chat", "--out", "new.json"), 2)], ids=str
)
async def test_every_command_says_that_a_run_line_is_missing(lines: Lines, tmp_path: Path, command: tuple[str, ...], code: int) -> None:
    (tmp_path / FILE).write_bytes(b"\n".join(lines[1:]) + b"\n")
    first, *rest = [str(tmp_path / word) if word == "new.json" else word for word in command]
    place = [*rest[:1], str(tmp_path), *rest[1:]] if first == "export" else [str(tmp_path), *rest]
    answered = CliRunner().invoke(build_app(), [first, *place])
    assert (answered.exit_code, "identical" in answered.output) == (code, False), answered.output
    assert "warning: this log is damaged" in answered.stderr
    assert "no run line stands before it in this file" in answered.stderr


async def test_show_says_what_it_cut_and_prints_it_whole_when_asked(lines: Lines, tmp_path: Path) -> None:
    long = json.dumps({"status": "ok", "result": "x" * 700 + " END"})
    (tmp_path / FILE).write_bytes(b"\n".join(changed("step", "observation.rendered", long)(lines)) + b"\n")
    shown, whole = (CliRunner().invoke(build_app(), ["show", str(tmp_path), "0", *more]).stdout for more in ([], ["--full"]))
    assert (long in shown, f"[... cut, {len(long)} characters in all]" in shown) == (False, True)
    assert "1 texts were cut after 600 characters; --full prints them whole" in shown
    assert (long in whole, "cut" in whole) == (True, False)


async def test_a_torn_last_line_is_told_and_tolerated(lines: Lines, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\n".join([*lines, lines[1][:200]]))
    for command in (["validate"], ["show"], ["export", "chat", "--out", str(tmp_path / "new.json")]):
        answered = CliRunner().invoke(build_app(), [*command, str(tmp_path)])
        assert (answered.exit_code, f"{FILE}:{len(lines) + 1}: torn" in answered.output.replace("\n", "")) == (0, True), answered.output


@pytest.mark.parametrize("command", ["validate", "show", "replay"])
@pytest.mark.parametrize("content", [b"", b"\n\n", b"garbage\n", b"\x00\xff\xfe", b'{"episode_id": "r-0', b"[]\n", b"[" * 100_000])
def test_what_is_no_log_ends_with_an_error(command: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(content)
    answered = CliRunner().invoke(build_app(), [command, str(tmp_path)])
    assert (answered.exit_code, type(answered.exception)) == (1, SystemExit)
    assert FILE in answered.output.replace("\n", "") or "holds no whole line" in answered.output.replace("\n", " ")


@pytest.mark.parametrize("command", ["validate", "show", "replay"])
@pytest.mark.parametrize("place", ["", "gone", "/dev/null"])
def test_where_there_is_no_log_is_asked_for_wrongly(command: str, place: str, tmp_path: Path) -> None:
    answered = CliRunner().invoke(build_app(), [command, str(tmp_path / place)])
    assert (answered.exit_code, "give the folder that `wardian run --out` made" in " ".join(answered.stderr.split())) == (2, True)
