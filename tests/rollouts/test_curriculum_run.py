"""`wardian curriculum`, and runs whose tasks a curriculum chooses."""

import json
from pathlib import Path

import pytest

from tests.rollouts.conftest import Wardian
from wardian.cli.steering import steered
from wardian.envs.registry import load_world
from wardian.rollouts.curriculum.curriculum import open_curriculum
from wardian.rollouts.curriculum.settings import CurriculumSettings, PoolSettings
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.policies.registry import load_policies
from wardian.tools.faults import NONE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A curriculum of the world that needs no cell."""
    settings = CurriculumSettings(group=2, pool=PoolSettings(share=0.5))
    open_curriculum(tmp_path / "c.db", load_world("routing"), "routing", settings)
    return tmp_path / "c.db"


def test_runs_draw_from_a_curriculum_tell_it_go_on_and_fill_its_pool(wardian: Wardian, file: Path, tmp_path: Path) -> None:
    run = ("run", "routing", "--policy", "random", "--curriculum", file, "--out", tmp_path / "a", "--json")
    first = wardian(*run, "--episodes", "6")
    assert first.returncode == 0, first.stderr
    longer = json.loads(wardian(*run, "--episodes", "10").stdout)
    assert (longer["resumed"], longer["episodes"]) == (6, 10)
    assert (longer["curriculum"]["groups"], longer["curriculum"]["judged"]) == (5, 10)
    starts = [json.loads(line) for one in (tmp_path / "a").glob("*.jsonl") for line in one.read_text().splitlines()]
    played = sorted((one["episode_id"], one["task_id"], one["seed"]) for one in starts if one["record"] == "episode_start")
    assert all(a[1:] == b[1:] for a, b in zip(played[::2], played[1::2], strict=True))
    assert len({task_id for _, task_id, _ in played}) == 5

    added = wardian("curriculum", "add", file, tmp_path / "a")
    assert added.returncode == 0, added.stderr
    pool = open_curriculum(file, load_world("routing"), "routing").failures()
    assert {str(one.task_id) for one in pool} <= {task_id for _, task_id, _ in played}
    assert 0 < len(pool) <= 5, "a group's episodes are one failure"
    hard = json.loads(
        wardian("run", "routing", "--policy", "random", "--curriculum", file, "--from-pool", "--episodes", "4", "--json").stdout
    )
    assert hard["episodes"] == 4
    report = json.loads(wardian("curriculum", "report", file, "--json").stdout)
    assert (report["hard"]["groups"], report["whole"]["groups"], report["draws"]) == (2, 5, 7)


@pytest.mark.parametrize(
    ("changed", "policies", "words"),
    [
        ({"episodes": 3}, "random", "episodes: 3 make no whole groups of 2, as the curriculum plays; give a multiple of 2"),
        ({"workers": 2}, "random", "workers: does not go with --curriculum"),
        ({"family": "model-routing"}, "random", "family: does not go with --curriculum: it chooses families itself"),
        ({"split": "all"}, "random", "split: does not go with --curriculum: it chooses of the split 'train' alone"),
        ({}, "expert,idle", "policy: a curriculum follows one policy"),
    ],
)
def test_what_does_not_go_with_a_curriculum_is_refused(file: Path, changed: dict[str, object], policies: str, words: str) -> None:
    world = load_world("routing")
    asked: dict[str, object] = {
        "world": "routing",
        "episodes": 4,
        "workers": 1,
        "twin": False,
        "family": None,
        "difficulty": None,
        "seed": 0,
    }
    asked |= {"split": "train", "mix": None, "group": 1}
    loaded = load_policies(policies, world, "routing")
    with pytest.raises(UsageProblem, match=words):
        steered(str(file), {**asked, "from_pool": False, **changed}, world, loaded, "r", NONE, None)


def test_a_pool_without_a_curriculum_and_a_second_curriculum_in_a_file_are_refused(wardian: Wardian, file: Path) -> None:
    assert "from_pool: it is the pool of a curriculum" in wardian("run", "routing", "--from-pool").stderr
    assert "is there already" in wardian("curriculum", "create", file, "routing").stderr
