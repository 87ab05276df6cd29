"""Whether every line of the log is of the published schema, and says which world and which weights it is of."""

from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread

from wardian.envs.versions import env_version
from wardian.rollouts.coherence import AnyLine
from wardian.rollouts.qa.lab import Lab
from wardian.rollouts.qa.outcome import Outcome
from wardian.rollouts.records import RunRecord
from wardian.rollouts.trajectory import validate

SHOWN = 20


async def lines_are_valid(lab: Lab) -> Outcome:
    """All lines of the log that was made here, and of the one that was given."""
    found = Outcome()
    world = lab.ground.world
    here = env_version(world)
    if not world.version.strip():
        found.findings.append(f"{world.name}: the world has no version; give WorldDefinition.version one, and another with each change")
    for where in filter(None, (lab.out, lab.asked.trajectories)):
        await anyio.to_thread.run_sync(_look, where, here, found)
    return found


def _look(where: Path, here: str, found: Outcome) -> None:
    lines, wrong, checkpoints = 0, list[str](), set[str]()
    for record, findings in validate(where):
        lines += 1
        wrong += [str(one) for one in findings if not one.torn]
        if record is not None:
            wrong += _unversioned(record, here)
            checkpoints |= set() if isinstance(record, RunRecord) else {record.policy_checkpoint}
    found.evidence.append(f"{lines} lines in {where}, against the schema and each other")
    found.figures[str(where)] = {"lines": lines, "wrong": len(wrong), "checkpoints": sorted(checkpoints)}
    found.findings += list(dict.fromkeys(wrong))[:SHOWN]


def _unversioned(record: AnyLine, here: str) -> Iterator[str]:
    version = record.versions.env if isinstance(record, RunRecord) else record.env_version
    where = f"run {record.run}" if isinstance(record, RunRecord) else record.episode_id
    if version != here:
        yield f"{where}: made by {version}, and the world here is {here}"
    if not isinstance(record, RunRecord) and not record.policy_checkpoint.strip():
        yield f"{where}: a {record.record} line names no checkpoint"
