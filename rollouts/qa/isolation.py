"""Whether an episode knows anything of those before it: the reference is played again after vandals, and must meet the same world."""

from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Family
from wardian.rollouts.qa.acting import difference, play
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome

SEED = 11
VANDALS = 3
"""Vandal episodes before each second look, with seeds of their own."""


async def isolated(lab: Lab) -> Outcome:
    """Fingerprints after resets, and whole episodes, before and after episodes that dirty what they can."""
    found = Outcome()
    starts = 0
    async with lab.environment() as env:
        families = [family for family in lab.families if lab.steady(family)]
        for family in families:
            starts += await _family(lab, env, family, found)
        leaks = env.leaks_found
    pool = lab.ground.cells.statistics() if lab.ground.cells else None
    found.figures = {
        "families": len(families),
        "starts_compared": starts,
        "leaks_of_starts": leaks,
        "leaks_of_cells": len(pool.leaks) if pool else None,
    }
    found.evidence.append(
        f"{len(families)} families: {starts} resets by fingerprint, and the reference's whole episode after {VANDALS} vandals each"
    )
    found.unjudged = "" if families else "no family repeats even without anything in between; see the check irreproducible"
    if leaks:
        found.findings.append(f"{leaks} starts were not clean and were thrown away")
    if pool and pool.leaks:
        found.findings += [f"cell: {leak}" for leak in pool.leaks]
    return found


async def _family(lab: Lab, env: ToolEnvironment, family: Family, found: Outcome) -> int:
    """Look at the hardest task; gives how many starts were compared."""
    expert, vandal = lab.policy("expert"), lab.policy("vandal")
    task_id = lab.tasks(family)[-1]
    before = await play(env, expert, task_id, SEED)
    clean = env.reset_info.fingerprint
    compared = 0
    for number in range(VANDALS):
        dirty = await play(env, vandal, task_id, seed=number)
        if dirty.last.failed is not None:
            lab.broken.append(f"{task_id}: vandal breaks the episode with {str(dirty.actions[-1])[:120]}: {dirty.last.failed[:200]}")
        await env.reset(task_id, SEED, uid=env.reset_info.agent_uid)
        compared += 1
        lines = env.reset_info.fingerprint.differences(clean)
        found.findings += [f"{task_id}: after vandal {number} the start differs: {line}" for line in lines[:3]]
    after = await play(env, expert, task_id, SEED)
    if where := difference(before, after):
        found.findings.append(f"{task_id}: after {VANDALS} vandals the same actions lead elsewhere, first {where}")
    return compared
