"""The command line in a process of its own, and the ground of the toy world with a shell in it."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pytest

from wardian.envs.definition import WorldDefinition
from wardian.envs.registry import load_world, profile
from wardian.envs.tokens import load_tokenizer
from wardian.rollouts.ground import Ground, open_ground
from wardian.rollouts.plan import plan
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.policies.registry import load_policies
from wardian.rollouts.recording import Setting, log_at, versions_of
from wardian.rollouts.runner import EpisodePool
from wardian.rollouts.summary import Tally
from wardian.rollouts.trajectory import FILE
from wardian.tools.packs.shell import SHELL

WARDIAN = (sys.executable, "-c", "from wardian.cli import main; main()")
DEADLINE_S = 180

Wardian: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def wardian() -> Wardian:
    """Run a command to its end; under a hash seed that no other process has."""

    def run(*arguments: object, hash_seed: str = "4711") -> "subprocess.CompletedProcess[str]":
        command = [*WARDIAN, *map(str, arguments)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, env=environment, check=False)

    return run


@pytest.fixture(scope="session")
def shell_world() -> WorldDefinition:
    toy = load_world("toy")
    return replace(toy, name="toy-shell", tools=(*toy.tools, SHELL))


@pytest.fixture(scope="module")
async def ground(anyio_backend: str, shell_world: WorldDefinition) -> AsyncIterator[Ground]:
    async with open_ground(shell_world, cells=2) as found:
        yield found


@dataclass(frozen=True, slots=True)
class Player:
    """Plays episodes on the ground and keeps their log."""

    ground: Ground

    async def play(
        self, out: Path, policies: str | Policy, episodes: int = 4, faults: str = "none", seed: int = 0, tokenizer: str = "estimate"
    ) -> Tally:
        world = self.ground.world
        chosen = load_policies(policies, world, "toy") if isinstance(policies, str) else (policies,)
        versions = versions_of(self.ground)
        setting = Setting(world, "toy", versions, profile(faults), "recover", 16, load_tokenizer(tokenizer))
        with log_at(out / FILE, setting, "test", {}) as writer:
            pool = EpisodePool(self.ground, setting, writer)
            return await pool.run(plan(world, chosen, run="test", episodes=episodes, seed=seed), workers=2)


@pytest.fixture
def player(ground: Ground) -> Player:
    return Player(ground)
