"""`wardian faults` and profiles from files, as commands."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from wardian.cli import build_app
from wardian.envs.errors import TaskError
from wardian.envs.registry import load_world, profile
from wardian.envs.task import Difficulty
from wardian.tools.faults import PROFILES, FaultPlan, possible


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), list(arguments))


def report(*arguments: str) -> dict[str, dict[str, Any]]:
    found = json.loads(invoke("faults", *arguments, "--json").stdout)
    return {tool["tool"]: {line["fault"]: line for line in tool["faults"]} | {"itself": tool} for tool in found["tools"]}


@pytest.mark.parametrize("world", ["billing", "toy"])
def test_every_fault_that_can_hit_a_tool_is_explained_and_no_other(world: str) -> None:
    found, definition = report(world), load_world(world)
    scopes = tuple({scope for family in definition.families for scope in family.generate(Difficulty.EASY, 1).revocable_scopes})
    assert list(found) == [tool.name for tool in definition.tools]
    for name, one in PROFILES.items():
        plan = FaultPlan(one, scopes, can_wait=True, has_replica=True)
        for tool in definition.tools:
            lines = found[tool.name]
            drawn = {fault for fault in lines if fault != "itself" and lines[fault]["profiles"].get(name, {}).get("chance")}
            assert drawn == {fault.value for fault in possible(tool, plan)}


def test_chances_views_and_states_are_those_of_the_contract() -> None:
    refund = report("billing", "--tool", "issue_refund")["issue_refund"]
    assert refund["unavailable"]["profiles"]["realistic"] == {"chance": 0.03, "sees": "unavailable", "state": "untouched"}
    assert refund["duplicate"]["profiles"]["harsh"]["state"] == "committed twice; once with idempotency_key"
    assert refund["rate_limited"]["profiles"]["harsh"]["sees"] == "rate_limited, for 2 to 30 s"
    assert refund["revoked"]["demanded"]
    assert refund["revoked"]["profiles"]["realistic"]["state"] == "the agent holds refunds:write no longer"
    assert "none" not in refund["unavailable"]["profiles"]


def test_a_family_that_declares_no_scope_loses_none() -> None:
    assert {"revoked", "missing"} & set(report("billing", "--family", "billing-dispute")["issue_refund"]) == set()


def test_a_declared_rate_is_told_and_a_tool_that_waits_has_no_faults() -> None:
    found = report("billing")
    assert found["find_customers"]["itself"]["rate_limit"] == {"calls": 20, "per_s": 60}
    assert list(found["wait"]) == ["itself"]


def test_the_table_is_for_people() -> None:
    printed = invoke("faults", "billing", "--profile", "harsh").stdout
    assert len(printed.splitlines()) < 60
    row = next(line.split() for line in printed.splitlines() if line.startswith("issue_refund"))
    assert row == ["issue_refund", "9", "3", "6*", "6*", "6", "1.5*", "3*", "3", "3", "9"]
    assert "at most 2 in a row per tool and 30 per episode" in printed
    assert "find_customers takes 20 calls in 60 s of world time, under every profile" in printed
    assert "under the profile realistic" in invoke("faults", "billing").stdout


def test_details_are_there_when_asked_for() -> None:
    printed = invoke("faults", "billing", "--tool", "issue_refund").stdout
    assert all(word in printed for word in ("mild", "harsh", "agent sees", "committed twice"))
    assert len(invoke("faults", "billing", "--details").stdout.splitlines()) > 200


def test_a_profile_without_faults_has_no_table() -> None:
    assert invoke("faults", "toy", "--profile", "none").stdout.startswith("none: no faults")


def test_a_profile_from_a_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[tools.list_items]\nempty = 0.5\n")
    found = report("toy", "--profile", str(path))
    assert found["list_items"]["empty"]["profiles"]["mine"]["chance"] == 0.5
    assert [name for name, lines in found.items() if len(lines) > 1] == ["list_items"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("faults", "nowhere"), "world: no 'nowhere'"),
        (("faults", "toy", "--family", "x"), "family: toy has no 'x'"),
        (("faults", "toy", "--tool", "x"), "tool: no 'x'"),
        (("faults", "toy", "--profile", "hrash"), "faults: no profile 'hrash'"),
        (("faults", "toy", "--profile", "none.toml"), "none.toml cannot be read"),
        (
            ("run", "toy", "--faults", "{0.parent}/mild.toml"),
            "mild.toml: name: 'mild', as the file is called, is the name of a shipped profile",
        ),
        (("run", "toy", "--faults", "{0.parent}/stale.toml"), "stale.toml:2: tools.lend_item.stale: this fault can never hit lend_item"),
        (("run", "toy", "--faults", "{0}"), "mine.toml:2: tools.list_item: the world has no tool 'list_item'; did you mean list_items?"),
    ],
)
def test_what_there_is_not_ends_the_command_with_2(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("\n[tools.list_item]\nslow = 1\n")
    (tmp_path / "mild.toml").write_text("slow = 0.5\n")
    (tmp_path / "stale.toml").write_text("[tools.lend_item]\nstale = 0.5\n")
    ended = invoke(*(argument.format(path) for argument in arguments))
    assert (ended.exit_code, told in ended.stderr.replace("\n", "")) == (2, True), ended.stderr


def test_a_profile_of_ones_own_may_speak_of_any_tool_where_no_world_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[tools.anything]\nslow = 1\n")
    assert profile(str(path)).tools == {"anything": {"slow": 1.0}}
    with pytest.raises(TaskError, match="the world has no tool"):
        profile(str(path), load_world("toy"))
