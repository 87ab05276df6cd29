"""Whether the same seed and actions give the same episode: twice in a row, and in another process under another hash seed."""

import json
import os
import sys

import anyio

from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome
from wardian.rollouts.records import Json

OTHER_HASH_SEED = "4711" if os.environ.get("PYTHONHASHSEED") != "4711" else "815"
DEADLINE_S = 900.0
SHOWN = 20


async def reproducible(lab: Lab) -> Outcome:
    """Two episodes in a row of the reference, of one seed."""
    found = Outcome()
    compared = [task for family in lab.families for task in lab.tasks(family)]
    found.evidence.append(f"{len(compared)} tasks, each played twice in a row by the expert: observations, rewards, times, fingerprints")
    found.figures = {"tasks": len(compared), "different": len(lab.unsteady)}
    found.findings += [f"{task}: two episodes of one seed differ {where}" for task, where in lab.unsteady.items()]
    return found


async def replayed(lab: Lab) -> Outcome:
    """The whole log, run again by another process."""
    found = Outcome()
    if not any(course.judged for course in lab.own):
        found.unjudged = "no episode of the log was judged"
        return found
    results = await elsewhere(
        {
            "folder": str(lab.out),
            "cells": lab.asked.cells,
            "tasks": str(lab.asked.tasks) if lab.asked.tasks else None,
            "engine": lab.database.engine.value,
            "url": lab.database.url,
        }
    )
    steady = {family.name for family in lab.families if lab.steady(family)}
    families = {course.episode_id: course.family for course in lab.own}
    left_out = [one for one in results if families.get(one["episode_id"]) not in steady]
    kept = [one for one in results if one not in left_out]
    steps = sum(one["steps"] for one in kept)
    found.evidence.append(
        f"{len(kept)} episodes, {steps} steps, run again in another process under hash seed {OTHER_HASH_SEED}: "
        "every observation, result, reward and fingerprint"
    )
    if left_out:
        found.evidence.append(f"left out: {len(left_out)} episodes of families that do not repeat in one process either")
    found.unjudged = "" if kept else "no family repeats even in one process; see the check irreproducible"
    different = [one["text"] for one in kept if not one["identical"]]
    found.figures = {
        "episodes": len(kept),
        "steps": steps,
        "different": len(different),
        "inexact_steps": sum(one["inexact"] for one in kept),
    }
    found.findings += different[:SHOWN]
    return found


async def elsewhere(order: dict[str, Json]) -> list[dict[str, Json]]:
    """What `wardian.rollouts.qa.again` makes of an order in another process, which finds modules where this one does.

    Raises:
        RuntimeError: it did not come to an end.
    """
    environment = {**os.environ, "PYTHONHASHSEED": OTHER_HASH_SEED, "PYTHONPATH": os.pathsep.join(sys.path)}
    with anyio.fail_after(DEADLINE_S):
        done = await anyio.run_process(
            [sys.executable, "-m", "wardian.rollouts.qa.again"], input=json.dumps(order).encode(), check=False, env=environment
        )
    if done.returncode != 0:
        raise RuntimeError(f"the other process ended with {done.returncode}: {done.stderr.decode('utf-8', 'replace')[-1000:]}")
    return list(json.loads(done.stdout))
