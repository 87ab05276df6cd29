"""Verifiers under attack: declared failures that look like success, and a sample of mutants of solved states."""

from wardian.envs.settings import MalformedPolicy, Settings
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome
from wardian.rollouts.redteam.attacking import attack_world
from wardian.rollouts.redteam.mutants import ENOUGH, Fate
from wardian.rollouts.redteam.mutating import mutate
from wardian.rollouts.redteam.solving import Witness
from wardian.tools.faults import NONE

SEEDS = (1,)
MOST = 150
"""Mutants of one task; `wardian mutate` makes more."""
SHOWN = 5
"""Survivors of a family that are named."""


async def withstand(lab: Lab) -> Outcome:
    """Every attack is blocked, and nearly every mutant fails."""
    found = Outcome()
    async with lab.environment(NONE) as env:
        attacked = await attack_world(env, lab.families)
    found.findings += [f"{one.family}: {one.attack or 'attacks'}: {one.problem}" for one in attacked if not one.blocked]
    witness = Witness()
    holding = Settings(hold_ended=True)
    async with lab.ground.environment(NONE, MalformedPolicy.RECOVER, holding, witness.watch(lab.ground.world)) as env:
        scores = await mutate(env, witness, lab.families, SEEDS, MOST)
    for score in scores:
        found.figures[score.family] = {
            "attacks": sum(bool(one.attack) for one in attacked if one.family == score.family),
            "mutants": len(score.judged),
            "score": round(score.score, 4),
            **{fate.value: score.count(fate) for fate in Fate},
        }
        if score.score < ENOUGH:
            such = "; ".join(f"{one.name} ({one.task_id})" for one in score.survivors[:SHOWN])
            found.findings.append(
                f"{score.family}: {score.score:.3f} of the mutants fail, and {ENOUGH} must; survivors: {such or 'there is none'}"
            )
    found.evidence.append(
        f"{sum(bool(one.attack) for one in attacked)} attacks, and {sum(len(score.judged) for score in scores)} mutants of solved states, "
        f"at most {MOST} of a task (`wardian redteam`, `wardian mutate` tell more)"
    )
    return found
