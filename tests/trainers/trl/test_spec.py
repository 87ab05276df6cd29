"""What is checked before the first step, what stands in the data set, and whose weights acted."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trl import GRPOTrainer

from tests.trainers.trl.plans import GOOD, WRONG, speaking
from wardian.rollouts.export.dataset import load_rows
from wardian.rollouts.export.selection import Selection
from wardian.trainers.client import Unreachable
from wardian.trainers.trl import WardianSpec, fresh_episodes, fresh_rows
from wardian.trainers.trl.reward import episode_reward
from wardian.trainers.trl.staleness import staleness, version_number


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"world": "nowhere"}, "world: the server has no 'nowhere'; it has"),
        ({"split": "heldout"}, "split: the server has no 'heldout'; it has train"),
        ({"families": ["birds"]}, "family: the server has no 'birds'; it has echoes"),
        ({"difficulties": ["extreme"]}, "difficulty: the server has no 'extreme'; it has easy, hard, medium"),
        ({"difficulties": ["easy"], "count": 0}, "families, difficulties and count leave none"),
        ({"call_format": "xml"}, "call_format: the server has no 'xml'; it has json"),
    ],
)
def test_what_the_server_has_not_is_refused_before_the_first_step(url: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WardianSpec(url, **options)


def test_an_address_without_a_server_is_refused_before_the_first_step() -> None:
    with pytest.raises(Unreachable):
        WardianSpec("http://127.0.0.1:9")


def test_rows_name_their_tasks_also_in_the_prompt(url: str) -> None:
    spec = WardianSpec(url, difficulties=["easy", "hard"], count=5)
    rows = spec.train_dataset
    assert len(rows) == 5
    assert set(rows.column_names) == {"prompt", "task_id", "seed", "index"}
    assert rows[3]["prompt"][-1]["wardian"] == {"task_id": rows[3]["task_id"], "seed": rows[3]["seed"]}


def test_the_rollout_function_pickles(url: str) -> None:
    rollouts = WardianSpec(url).rollout_func
    assert pickle.loads(pickle.dumps(rollouts)).connection.url == url


def test_a_reward_without_a_way_of_playing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"give the trainer WardianSpec.rollout_func or WardianSpec.environment_factory"):
        episode_reward(completions=[[]])


def test_every_trajectory_says_which_weights_acted(url: str, logs: Path, trained: Callable[..., GRPOTrainer]) -> None:
    spec = WardianSpec(url, difficulties=["medium"], count=3)
    trained(spec, speaking(GOOD, WRONG), rollout_func=spec.rollout_func).train()
    ours = [row for row in load_rows(logs) if row["task_id"].startswith("echoes/medium/")]
    assert sorted({version for row in ours for version in row["policy_checkpoints"]}) == ["0", "1"]
    assert len(list(fresh_rows(ours, now=2, max_staleness=1))) == len(ours) / 2
    episodes = [episode for episode in Selection.open(logs) if episode.end.task_id.startswith("echoes/medium/")]
    assert len(list(fresh_episodes(episodes, now=2, max_staleness=1))) == len(ours) / 2
    assert all(step.sample and step.sample.token_ids for episode in episodes for step in episode.steps)


def test_the_age_of_an_episode_is_that_of_its_oldest_weights() -> None:
    assert staleness(["step-4", "step-7"], now=9) == 5
    with pytest.raises(ValueError, match="ends with no number"):
        version_number("latest")
