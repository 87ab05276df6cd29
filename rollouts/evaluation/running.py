"""Plays the set of an evaluation under each fault profile, and without faults, and writes down what came of it."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wardian.envs.settings import Settings
from wardian.envs.task import CANARY
from wardian.envs.tokens import ESTIMATE, Tokenizer
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.evaluation.checkpoints import FILE, VERSION
from wardian.rollouts.evaluation.results import ProfileResults, profile_report, twin_report
from wardian.rollouts.evaluation.taskset import TaskSet
from wardian.rollouts.ground import Ground
from wardian.rollouts.plan import new_run_id
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.policies.lifetime import opened
from wardian.rollouts.recording import Setting, log_at, versions_of
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, Json
from wardian.rollouts.runner import ATTEMPTS, EpisodePool
from wardian.rollouts.trajectory import FILE as LOG
from wardian.tools.faults import NONE, FaultProfile


def with_twins(profiles: Sequence[FaultProfile]) -> tuple[FaultProfile, ...]:
    """The profiles that are played: those asked for, and the one without faults, which the others are compared with.

    Raises:
        UsageProblem: none, or two of one name.
    """
    names = [one.name for one in profiles]
    if not names or len(set(names)) < len(names):
        raise UsageProblem(f"faults: name each profile once, by commas; got {', '.join(names) or 'none'}")
    return (*profiles, *(() if NONE.name in names else (NONE,)))


@dataclass(slots=True)
class Evaluation:
    """One evaluation of one policy. `run` once; `interrupt` from the same event loop."""

    ground: Ground
    asked_for: str
    """The world's name as it was given."""
    tasks: TaskSet
    profiles: tuple[FaultProfile, ...]
    """The first one decides which checkpoint is kept."""
    policy: Policy
    k: int
    """Of pass@k and pass^k."""
    parameters: Mapping[str, Json] = field(default_factory=dict)
    malformed: str = "recover"
    tokenizer: Tokenizer = ESTIMATE
    out: Path | None = None
    """Folder of its own; `None` keeps nothing."""
    watch: Callable[[EpisodeEnd], None] = lambda end: None
    run_id: str = field(default_factory=new_run_id)
    interrupted: bool = False
    _pool: EpisodePool | None = None
    _checkpoints: set[str] = field(default_factory=set)

    async def run(self, *, workers: int) -> dict[str, Json]:
        """Play all; gives the report, which also stands in `out` unless it was interrupted.

        Raises:
            HeldOut, LogBroken, PolicyHopeless, SandboxError: as a run.
        """
        played: dict[str, ProfileResults] = {}
        async with opened([self.policy]):
            for one in self.profiles:
                if not self.interrupted:
                    played[one.name] = await self._play(one, workers)
        found = self._report(played)
        if self.out is not None and not self.interrupted:
            (self.out / FILE).write_text(json.dumps(found, indent=2) + "\n", "utf-8")
        return found

    def interrupt(self) -> None:
        """Give running episodes up; `run` returns with what was played."""
        self.interrupted = True
        if self._pool is not None:
            self._pool.interrupt()

    async def _play(self, faults: FaultProfile, workers: int) -> ProfileResults:
        results = ProfileResults.of(self.tasks)
        world = self.ground.world
        versions = versions_of(self.ground)
        every = Settings().recompute_every
        setting = Setting(world, self.asked_for, versions, faults, self.malformed, every, self.tokenizer, self.tasks.split)

        def ended(end: EpisodeEnd) -> None:
            results.add(end)
            self._checkpoints.add(end.policy_checkpoint)
            self.watch(end)

        def began(start: EpisodeStart) -> None:
            self._checkpoints.add(start.policy_checkpoint)

        with log_at(self.out / faults.name / LOG if self.out else None, setting, self.run_id, self.parameters) as writer:
            self._pool = EpisodePool(self.ground, setting, writer, ATTEMPTS, ended, began)
            await self._pool.run(self.tasks.planned(self.policy, self.run_id), workers=workers)
        return results.gather()

    def _report(self, played: Mapping[str, ProfileResults]) -> dict[str, Json]:
        free = played.get(NONE.name)
        return {
            "eval_version": VERSION,
            "canary": CANARY,
            "run": self.run_id,
            "world": self.asked_for,
            "env_version": self.tasks.env_version,
            "split": self.tasks.split.value,
            "set": self.tasks.key,
            "tasks": len(self.tasks.tasks),
            "repeats": self.tasks.repeats,
            "k": self.k,
            "policy": self.policy.name,
            "checkpoints": sorted(self._checkpoints),
            "headline": self.profiles[0].name,
            "profiles": {name: profile_report(results, self.k) for name, results in played.items()},
            "twins": {name: twin_report(results, free) for name, results in played.items() if free is not None and results is not free},
            "interrupted": self.interrupted,
            "parameters": dict(self.parameters),
        }


def next_folder(out: Path, policy: str) -> Path:
    """A folder in `out` that is not there yet, numbered so that names stand in the order of time."""
    taken = [int(found[1]) for one in out.glob("*/") if (found := re.match(r"(\d+)-", one.name))]
    return out / f"{max(taken, default=0) + 1:03d}-{re.sub(r'[^A-Za-z0-9._-]+', '_', policy)}"
