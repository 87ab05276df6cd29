"""`openenv validate` passes on a running server, and so do the checks that it makes of packages."""

import json

import pytest
from openenv.cli._validation import validate_running_environment

from .conftest import TOKEN, Ask

CRITERIA = [
    "openapi_version_available",
    "health_endpoint",
    "metadata_endpoint",
    "schema_endpoint",
    "mcp_endpoint",
    "mode_endpoint_consistency",
]


@pytest.mark.parametrize("path", ["", "/faulty"])
def test_a_server_and_each_of_its_worlds_pass(url: str, path: str) -> None:
    report = validate_running_environment(f"{url}{path}")
    assert [one["id"] for one in report["criteria"] if one["passed"]] == CRITERIA
    assert (report["passed"], report["mode"], report["standard_profile"]) == (True, "simulation", "openenv-http/1.x")


def test_a_server_with_a_token_passes_too(guarded: str) -> None:
    assert validate_running_environment(guarded)["summary"]["failed_criteria"] == []


def test_tasks_are_listed_and_those_held_out_are_not(url: str, ask: Ask) -> None:
    assert ask(f"{url}/list_environments") == (200, ["faulty"])
    assert ask(f"{url}/faulty/splits") == (200, [{"name": "train", "type": "train"}])
    count = ask(f"{url}/faulty/num_tasks", {"split": "train"})[1]["num_tasks"]
    tasks = ask(f"{url}/faulty/tasks", {"split": "train"})[1]
    assert (len(tasks["tasks"]), tasks["env_name"]) == (count, "faulty")
    assert ask(f"{url}/faulty/task", {"split": "train", "index": 3}) == (200, {"task": tasks["tasks"][3]})
    assert ask(f"{url}/faulty/task_range", {"split": "train", "start": 2, "stop": 4})[1]["tasks"] == tasks["tasks"][2:4]
    assert ask(f"{url}/faulty/task_range", {"split": "train", "start": -2})[1]["tasks"] == tasks["tasks"][-2:]
    wrong = ({"split": "train", "index": count}, {"split": "train", "index": 0, "more": 1}, {"split": "heldout", "index": 0})
    assert [ask(f"{url}/faulty/task", body)[0] for body in wrong] == [400, 422, 422]
    assert ask(f"{url}/nowhere/splits")[0] == 404
    assert {task["split"] for task in tasks["tasks"]} == {"train"}


def test_a_route_without_a_lease_says_where_leases_are(url: str, ask: Ask) -> None:
    status, seen = ask(f"{url}/reset", {"split": "train", "index": 3})
    assert (status, seen["done"], seen["metadata"]["split"]) == (200, False, "train")
    assert ask(f"{url}/step", {"action": {}})[0] == 409
    assert ask(f"{url}/counters")[1]["sessions_open"] == 0


def test_the_token_is_not_given_away_by_what_is_open(guarded: str, ask: Ask) -> None:
    opened = [ask(f"{guarded}{path}") for path in ("/health", "/metadata", "/schema", "/openapi.json")]
    assert [status for status, _ in opened] == [200] * 4
    assert TOKEN not in json.dumps([body for _, body in opened])
    assert [ask(f"{guarded}{path}")[0] for path in ("/counters", "/list_environments", "/metrics")] == [401] * 3
