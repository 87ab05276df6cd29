"""The other process of the replay check: takes an order on stdin, runs a log again, and gives what became of each episode on stdout."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio

from wardian.envs.taskfile.opening import world_named
from wardian.rollouts.ground import open_ground
from wardian.rollouts.replay import Replay, select, uids_of
from wardian.rollouts.trajectory import TrajectoryLog
from wardian.sandbox.database.choice import DatabaseChoice, DatabaseEngine


async def run_again(order: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a log again. `order`: its `folder`, how many `cells`, the file of `tasks`, the database `engine` and the `url` of its server.

    Raises:
        LogForeign: the world here is not the one that made the log.
    """
    log = TrajectoryLog.open(Path(order["folder"]))
    chosen = select(log)
    attempt = chosen.episodes[0]
    assert attempt.start is not None, "only started attempts are selected"
    world = world_named(attempt.start.world, Path(order["tasks"]) if order["tasks"] else None)
    database = DatabaseChoice(DatabaseEngine(order["engine"]), order["url"])
    async with open_ground(world, cells=order["cells"], uids=uids_of(chosen.episodes), database=database) as ground:
        results = await Replay(log, ground).run(chosen.episodes, workers=order["cells"])
    return [
        {"episode_id": one.episode_id, "steps": one.steps, "inexact": one.inexact, "identical": one.identical, "text": str(one)}
        for one in results
    ]


if __name__ == "__main__":
    json.dump(anyio.run(run_again, json.load(sys.stdin)), sys.stdout)
