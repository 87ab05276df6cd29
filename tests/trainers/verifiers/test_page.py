"""The commands of docs/trainers/verifiers.md, run as they stand there, with a model that knows the solutions."""

import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.trainers.endpoints import endpoint
from tests.trainers.serving import WARDIAN, served
from wardian.envs.registry import load_world

from .conftest import BIN, KEY, counted, episodes_in, run
from .player import Solver

TOP = Path(__file__).parents[3]
PAGE = (TOP / "docs" / "trainers" / "verifiers.md").read_text()
COMMANDS = [line for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
URL = "http://127.0.0.1:8900"


def family_of(instruction: str) -> str:
    return "at-the-counter" if "stands at the counter" in instruction else "lending-desk"


class Walked(NamedTuple):
    episodes: list[dict[str, Any]]
    validated: list[dict[str, Any]]
    counters: dict[str, Any]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walked]:
    """All that the page says, in its order, but for what installs or builds Wardian itself."""
    folder, site = tmp_path_factory.mktemp("page"), tmp_path_factory.mktemp("site")
    serving = next(shlex.split(line) for line in COMMANDS if line.startswith("wardian serve"))
    solver = Solver(load_world("toy"), family_of)
    path = os.pathsep.join((str(Path(WARDIAN).parent), str(BIN), os.environ["PATH"]))
    with served(*serving[2 : serving.index("--port")]) as url, endpoint(solver) as model:
        words = {"MODEL": "m", "URL": model, "VARIABLE": KEY, "./wardian-toy": f"--target {site} --no-deps ./wardian-toy"}
        for line in COMMANDS:
            command = " ".join(words.get(word, word) for word in line.split(" "))
            if line.startswith("vf-validate"):
                command += f" --taskset.url {url} --no-rich"
            elif line.startswith("vf-eval"):
                command += f" --env.taskset.url {url} --no-rich"
            elif line.startswith(('pip install "wardian', "wardian serve", "wardian build-images")):
                continue
            run(["bash", "-c", command], cwd=folder, PATH=path, PYTHONPATH=str(site), **{KEY: "none"})
        (results,) = folder.rglob("results.jsonl")
        validated = [json.loads(line) for line in results.read_text().splitlines()]
        yield Walked(episodes_in(folder), validated, counted(url))


def test_every_command_of_the_page_is_known_here() -> None:
    assert [line.split()[0] for line in COMMANDS] == ["pip", "wardian", "wardian", "pip", "wardian", "pip", "vf-eval", "vf-validate"]
    extras = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {extra for line in COMMANDS for extra in re.findall(r"wardian\[(\w+)\]", line)} <= set(extras)


def test_the_reference_solutions_solve_every_task(walked: Walked) -> None:
    traces = [episode["traces"][0] for episode in walked.episodes]
    assert len(traces) == 8
    assert {(trace["ok"], trace["metrics"]["success"], trace["info"]["wardian"]["end_cause"]) for trace in traces} == {
        (True, 1.0, "message")
    }
    assert {trace["task"]["data"]["name"].split("/")[0] for trace in traces} == {"lending-desk", "at-the-counter"}


def test_a_customers_answer_begins_the_next_turn(walked: Walked) -> None:
    trace = next(one["traces"][0] for one in walked.episodes if one["task"]["data"]["name"].startswith("at-the-counter"))
    roles = [node["message"]["role"] for node in trace["nodes"]]
    assert roles[:6] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert '"from": "customer"' in trace["nodes"][3]["message"]["content"]


def test_doing_nothing_solves_no_task_for_vf_validate(walked: Walked) -> None:
    assert [row["reason"] for row in walked.validated] == ["valid"] * 4


def test_every_lease_was_closed(walked: Walked) -> None:
    found = walked.counters
    assert (found["sessions_opened"], found["sessions_closed"], found["failed"]) == (8 + 4, 8 + 4, {})


def test_the_page_names_every_setting() -> None:
    from wardian.trainers.verifiers.taskset import WardianConfig

    own = set(WardianConfig.model_fields) - {"id", "task", "system_prompt"}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == own


def test_the_pages_rule_for_retries_matches_what_is_raised() -> None:
    from wardian.trainers.verifiers.state import Course

    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (rule,) = tomllib.loads(block)["env"]["retries"]["rules"]
    with pytest.raises(Exception) as raised:
        Course(over=True, failure_kind="timeout", message="too slow").score()
    assert re.search(rule["message"], f"task WardianTask scoring: {raised.type.__name__}: {raised.value}")
