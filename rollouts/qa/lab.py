"""What checks work with: the ground of a world, a log of scripted policies on it, and what was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Family
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.task import TaskId
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.ground import Ground
from wardian.rollouts.plan import Planned, new_run_id
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.policies.registry import load_policies
from wardian.rollouts.qa.acting import Took, difference, play
from wardian.rollouts.qa.courses import Course, read_courses
from wardian.rollouts.recording import Setting, log_at, versions_of
from wardian.rollouts.records import Json
from wardian.rollouts.runner import EpisodePool
from wardian.rollouts.summary import Tally
from wardian.rollouts.trajectory import FILE
from wardian.sandbox.database.choice import DatabaseChoice
from wardian.sandbox.streams import stream
from wardian.tools.faults import FaultProfile

REFERENCE_MIX = ("expert", "idle", "careless", "greedy", "best-guess", "random")
"""Policies whose episodes are the log; a world may lack some. The expert is first, on a process that nothing was done in."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How much is played, and what bounds speed has to keep."""

    seeds: int = 2
    """Tasks of each family and difficulty, for each policy."""
    cells: int = 2
    """Episodes at once."""
    max_reset_ms: float | None = None
    """Bound of the 95th percentile of resets; `None`: it is measured only."""
    min_episodes_per_s: float | None = None
    """The same for whole episodes."""
    trajectories: Path | None = None
    """A log to audit: what the current policy did. `None`: the reference mix."""
    tasks: Path | None = None
    """File of the tasks of a world on a template."""


@dataclass(slots=True)
class Lab:
    """One examination of one world. `record` comes first."""

    ground: Ground
    name: str
    """The world's, as it was asked for."""
    faults: FaultProfile
    asked: Asked
    out: Path
    """Folder of the log."""
    database: DatabaseChoice = DatabaseChoice()  # noqa: RUF009 - frozen
    setting: Setting = field(init=False)
    """How the log was recorded."""
    planned: Sequence[Planned] = ()
    """Its episodes."""
    tally: Tally = field(default_factory=Tally)
    played_s: float = 0.0
    """Wall time in which the log was made."""
    own: list[Course] = field(default_factory=list)
    """What the scripted policies did."""
    audited: list[Course] = field(default_factory=list)
    """What the policy did that is audited."""
    unsteady: dict[str, str] = field(default_factory=dict)
    """By task: where two episodes of one seed differ, one right after the other. Other comparisons leave these families out."""

    dawdlers: list[Took] = field(default_factory=list)
    """Episodes of those who go on until something ends them, once they are played."""

    broken: list[str] = field(default_factory=list)
    """Episodes of vandals that were played beside the log and failed, in sentences."""

    @property
    def families(self) -> tuple[Family, ...]:
        """Of the world."""
        return self.ground.world.families

    def steady(self, family: Family) -> bool:
        """Whether no task of the family was found unsteady."""
        return not any(TaskId.parse(one).family == family.name for one in self.unsteady)

    def policy(self, name: str) -> Policy:
        """A scripted one that every world has."""
        return load_policies(name, self.ground.world, self.name)[0]

    def environment(self, faults: FaultProfile | None = None, malformed: MalformedPolicy = MalformedPolicy.RECOVER) -> ToolEnvironment:
        """One to play in unlogged; under the faults of the log where none are given."""
        return self.ground.environment(faults or self.faults, malformed, Settings())

    def tasks(self, family: Family, count: int = 1) -> list[str]:
        """The first tasks of each difficulty of a family, which are those of the log."""
        return [str(TaskId(family.name, level, seed)) for level in family.difficulties for seed in range(1, count + 1)]

    async def record(self) -> None:
        """Play the reference mix into the log, and read the log.

        Raises:
            LogBroken: the log cannot be written, or the one to audit cannot be read.
        """
        began = perf_counter()
        world = self.ground.world
        run = new_run_id()
        self.planned = self._planned(run)
        versions = versions_of(self.ground)
        self.setting = setting = Setting(
            world, self.name, versions, self.faults, MalformedPolicy.RECOVER.value, Settings().recompute_every, split=None
        )
        asked: dict[str, Json] = {"world": self.name, "seeds": self.asked.seeds, "cells": self.asked.cells}
        with log_at(self.out / FILE, setting, run, asked) as writer:
            self.tally = await EpisodePool(self.ground, setting, writer).run(self.planned, workers=self.asked.cells)
        self.played_s = perf_counter() - began
        self.own = read_courses(self.out)
        self.audited = self.own if self.asked.trajectories is None else read_courses(self.asked.trajectories)
        await self._compare_twice()

    async def _compare_twice(self) -> None:
        """Play the reference of each first task twice in a row."""
        expert = self.policy("expert")
        async with self.environment() as env:
            for task_id in (task for family in self.families for task in self.tasks(family)):
                one, other = [await play(env, expert, task_id, seed=7) for _ in range(2)]
                if where := difference(one, other):
                    self.unsteady[task_id] = where

    def _planned(self, run: str) -> Sequence[Planned]:
        planned: list[Planned] = []
        for policy in reference_mix(self):
            for task_id in (task for family in self.families for task in self.tasks(family, self.asked.seeds)):
                rng = stream(0, f"qa/{policy.name}/{task_id}")
                number = f"{run}-{len(planned):05d}"
                planned.append(Planned(number, TaskId.parse(task_id), rng.getrandbits(32), policy, rng.getrandbits(32)))
        return planned


def reference_mix(lab: Lab) -> list[Policy]:
    """The scripted policies that this world has."""
    found = []
    for name in REFERENCE_MIX:
        try:
            found.append(lab.policy(name))
        except UsageProblem:
            continue  # the world has no such policy of its own
    return found
