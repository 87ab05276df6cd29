"""All checks, in the order in which they are told, and the order in which they have to run."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from wardian.envs.definition import WorldDefinition
from wardian.envs.versions import env_version
from wardian.rollouts.ground import open_ground
from wardian.rollouts.qa.baselines import scripted
from wardian.rollouts.qa.determinism import replayed, reproducible
from wardian.rollouts.qa.distribution import audited
from wardian.rollouts.qa.heldout import kept_out
from wardian.rollouts.qa.isolation import isolated
from wardian.rollouts.qa.lab import Asked, Lab
from wardian.rollouts.qa.mishaps import defined
from wardian.rollouts.qa.observing import tells_apart
from wardian.rollouts.qa.outcome import Outcome, Report, Result
from wardian.rollouts.qa.rewards import comparable, on_the_way
from wardian.rollouts.qa.schema import lines_are_valid
from wardian.rollouts.qa.speed import measured
from wardian.rollouts.qa.truncation import accounted, told_apart
from wardian.rollouts.qa.verifiers import withstand
from wardian.sandbox.database.choice import DatabaseChoice
from wardian.sandbox.errors import SandboxError
from wardian.tools.faults import FaultProfile


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    question: str
    run: Callable[[Lab], Awaitable[Outcome]]


CHECKS = (
    Check("replay", "Does another process, under another hash seed, reproduce every step?", replayed),
    Check("isolation", "Does a reset leave nothing of the episodes before, those of vandals included?", isolated),
    Check("baselines", "Do scripted policies come to what is expected: expert high, careless low, idle near zero?", scripted),
    Check("verifiers", "Do the verifiers withstand failures that look like success, and mutants of solved states?", withstand),
    Check("mishaps", "Has everything that goes wrong a defined outcome?", defined),
    Check("truncation", "Does a budget end every episode, and is it counted as that?", accounted),
    Check("distribution", "What is trained on: which mixture, how hard, how often the same, and where does the policy succeed?", audited),
    Check("speed", "How fast are resets and episodes, with so many at once?", measured),
    Check("schema", "Is every line of the log valid, with the versions of world and policy?", lines_are_valid),
    Check("heldout", "Does what is held out stay out of every way into training?", kept_out),
    Check("observation", "Is an agent shown what the right action depends on?", tells_apart),
    Check("scales", "Do families pay on one scale, and success more than idleness?", comparable),
    Check("termination", "Is no limit taken for the end of a task?", told_apart),
    Check("irreproducible", "Are two episodes of one seed the same, one right after the other?", reproducible),
    Check("sparse", "Do long episodes pay before their end?", on_the_way),
)
"""The checks before a first training job, and after them the mistakes that make a world untrainable. They run in this order: before
`isolation` nothing in this process has been done by a vandal."""


@asynccontextmanager
async def open_lab(
    world: WorldDefinition, name: str, faults: FaultProfile, asked: Asked, out: Path, database: DatabaseChoice | None = None
) -> AsyncIterator[Lab]:
    """A lab with its log recorded; cells and template are gone when the block ends.

    Raises:
        SandboxError: cells or template cannot be had.
        LogBroken: the log to audit cannot be read.
    """
    async with open_ground(world, cells=asked.cells, deep_checks=True, database=database) as ground:
        lab = Lab(ground, name, faults, asked, out, database or DatabaseChoice())
        await lab.record()
        yield lab


async def examine(lab: Lab, watch: Callable[[Result], None] = lambda result: None) -> Report:
    """Run all checks. One that breaks on a world has failed.

    Raises:
        SandboxError: the infrastructure failed, so that nothing can be said.
    """
    began = perf_counter()
    results = []
    for check in CHECKS:
        started = perf_counter()
        result = Result(check.name, check.question, await _outcome(check, lab), perf_counter() - started)
        watch(result)
        results.append(result)
    return Report(env_version(lab.ground.world), results, perf_counter() - began)


async def _outcome(check: Check, lab: Lab) -> Outcome:
    try:
        return await check.run(lab)
    except SandboxError:
        raise
    except Exception as error:  # noqa: BLE001 - the edge of a check: one that a world breaks must not hide the others
        return Outcome(findings=[f"the check could not be carried out: {type(error).__name__}: {error}"])
