"""Integers that no float holds, from a model's text through database and log to a replay."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wardian.envs.action import Message, Observation, ToolCalls
from wardian.envs.registry import load_world
from wardian.envs.worlds.toy.schema import Member
from wardian.rollouts.ground import Ground, open_ground
from wardian.rollouts.policies.base import Scripted, TaskView
from wardian.rollouts.replay import Replay, select
from wardian.rollouts.trajectory import FILE, TrajectoryLog
from wardian.tools.contract import Arguments, Json, Tool, ToolCall, ToolContext

pytestmark = pytest.mark.anyio
WIDE = (9007199254740993, 7203918846621000003, 8070450532247928833, 9223372036854775807, -9223372036854775808)


class AddMember(Arguments):
    member_id: int
    name: str


async def add_member(context: ToolContext, arguments: AddMember) -> Json:
    context.db.add(Member(id=arguments.member_id, name=arguments.name, suspended=False))
    context.note("added", member_id=arguments.member_id)
    return {"member_id": arguments.member_id}


@pytest.fixture(scope="module")
async def ground(anyio_backend: str) -> AsyncIterator[Ground]:
    tools = (Tool("add_member", "Add a member.", AddMember, add_member, mutates=True),)
    world = replace(load_world("toy"), tools=tools, needs_cell=False)
    async with open_ground(world, cells=0) as found:
        yield found


def script(first: Observation, view: TaskView) -> Any:
    """Each number as the model may write it: bare, and as a string for a field that takes none."""
    for number in WIDE:
        text = f'"{number}"' if number % 2 else str(number)
        yield ToolCalls((ToolCall("add_member", f'{{"member_id": {text}, "name": "n{number}"}}'),))
    yield Message("")


async def test_integers_beyond_floats_survive_text_database_log_and_replay(ground: Ground, player: Any, tmp_path: Path) -> None:
    await player.play(tmp_path, Scripted("wide", "1", script), episodes=1)
    steps = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines() if '"record":"step"' in line.replace(" ", "")]
    for number, step in zip(WIDE, steps, strict=False):
        assert step["events"][0]["args"] == {"member_id": number, "name": f"n{number}"}
        assert (step["events"][0]["effects"][0]["member_id"], step["database"][0]["after"]["id"]) == (number, number)
        assert f'"member_id": {number}}}' in step["observation"]["rendered"]
    log = TrajectoryLog.open(tmp_path)
    (replayed,) = await Replay(log, ground).run(select(log).episodes, workers=1)
    assert (replayed.identical, str(replayed.difference), len(steps)) == (True, "None", len(WIDE) + 1)
