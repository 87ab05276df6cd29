"""Baselines of model routing: learned policies reach the optimum, and the command says so without an engine."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wardian.cli import build_app
from wardian.envs.worlds.routing.exact import best_by_observation, value_of
from wardian.envs.worlds.routing.model import Move, Moved, Parameters
from wardian.rollouts.baseline.routing import CLOSE, baselines, flips_at
from wardian.rollouts.baseline.tabular import Learning, Table, learn, policy_of
from wardian.rollouts.trajectory import validate


@pytest.mark.parametrize("seed", range(10))
def test_ten_of_ten_learned_policies_are_as_good_as_the_optimum(seed: int) -> None:
    p = Parameters()
    value = value_of(p, policy_of(learn(p, seed)))
    assert best_by_observation(p).value - value <= CLOSE


def test_equal_seeds_learn_equal_tables() -> None:
    short = Learning(episodes=500)
    one, again, other = (learn(Parameters(), seed, short).values for seed in (1, 1, 2))
    assert one == again != other


def test_a_truncated_episode_is_bootstrapped_from_and_a_terminated_one_is_not() -> None:
    table = Table(values={(2, 0): [0.0, 0.4, 0.0]})
    table.update((1, 0), Move.CHEAP, Moved(-0.02, truncated=True), (2, 0), decay=1.0)
    table.update((1, 0), Move.STRONG, Moved(0.8, terminated=True), (2, 0), decay=1.0)
    assert table.row((1, 0)) == pytest.approx([0.38, 0.8, 0.0])


def test_step_sizes_decay_with_visits() -> None:
    table = Table()
    for reward in (1.0, 0.0, 0.0, 0.0):
        table.update((0, 0), Move.CHEAP, Moved(reward, terminated=True), (0, 0), decay=1.0)
    assert table.row((0, 0))[Move.CHEAP] == pytest.approx(0.25), "with steps 1/n a value is the mean"


def test_the_choice_after_a_cheap_rejection_flips_near_eight_cents() -> None:
    assert flips_at(Parameters()) == pytest.approx(0.0814, abs=1e-4)
    assert flips_at(Parameters(strong_cost=0.9)) is None
    best = [best_by_observation(Parameters(cheap_cost=cost)).move((1, 0)) for cost in (0.08, 0.083)]
    assert best == [Move.CHEAP, Move.STRONG]


@pytest.mark.parametrize(("field", "value"), [("episodes", 0), ("explore", 0), ("decay", 0.5)])
def test_learning_that_cannot_work_is_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Learning(**{field: value})  # type: ignore[arg-type]


def test_all_figures_are_data() -> None:
    found = json.loads(json.dumps(baselines(Parameters(), [3], Learning(episodes=200), sweep_seeds=1).as_json()))
    assert found["fixed"]["always cheap"] == pytest.approx(0.755, abs=1e-3)
    assert [row["rejected"]["cheap"] for row in found["table"]] == [0, 1, 0, 2, 1, 0]
    assert [at["cost"] for at in found["sweep"]] == [number / 100 for number in range(2, 11)]


def test_the_command_needs_no_engine_and_draws_the_sweep(wardian: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "DOCKER_HOST", "tcp://127.0.0.1:1")
    done = wardian("baseline", "routing", "--seeds", 1, "--episodes", 12_000, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 of 1" in done.stdout
    assert "at 0.0814" in done.stdout
    assert (tmp_path / "routing.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "baseline.json").read_text())["close"] == 1
    assert "world: baselines are there for routing" in wardian("baseline", "toy").stderr
    assert "world: no 'nope'; built in are" in wardian("baseline", "nope").stderr


def test_without_matplotlib_all_but_the_plot_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = CliRunner().invoke(build_app(), ["baseline", "routing", "--seeds", "1", "--episodes", "300", "--out", str(tmp_path / "new")])
    assert (done.exception is None or isinstance(done.exception, SystemExit), "wardian[plot]" in done.stderr) == (True, True)
    assert "optimum over the belief" in done.stdout
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["baseline.json"]


def test_a_run_of_the_world_needs_no_engine_and_replays(wardian: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "DOCKER_HOST", "tcp://127.0.0.1:1")
    policies = "expert,careless,greedy,random,idle"
    done = wardian("run", "routing", "--policy", policies, "--episodes", 40, "--faults", "realistic", "--out", tmp_path, "--no-progress")
    assert done.returncode == 0, done.stderr
    assert "identical 40/40" in wardian("replay", tmp_path, "--no-progress").stdout
    assert [str(finding) for _, findings in validate(tmp_path) for finding in findings] == []
