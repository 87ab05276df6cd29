"""The policy manual, the page and the contracts say the same."""

import re
from pathlib import Path
from typing import get_args

import pytest

from wardian.envs.definition import WorldDefinition
from wardian.envs.task import Difficulty
from wardian.envs.worlds.billing.cases import Kind
from wardian.envs.worlds.billing.families.recovery import TRAPS
from wardian.envs.worlds.billing.seed import AGENT_ID, QUEUES, SCOPES
from wardian.envs.worlds.billing.tools import TOOLS
from wardian.envs.worlds.billing.tools.acting import Resolution
from wardian.envs.worlds.billing.verify import APPROVAL_QUEUE

PAGE = (Path(__file__).parents[3] / "docs" / "billing.md").read_text()
WORD = re.compile(r"`([a-z][a-z_-]+)`")


def test_every_word_that_the_policy_sets_in_code_is_one_of_the_world(billing: WorldDefinition) -> None:
    tools = {tool.name for tool in billing.tools}
    codes = {kind.value for kind in Kind} | set(get_args(Resolution)) | {str(queue["id"]) for queue in QUEUES}
    shell = {"grep", "awk"}
    assert set(WORD.findall(billing.policy)) - {AGENT_ID} <= tools | codes | shell


def test_the_policy_names_every_code_that_a_verifier_wants(billing: WorldDefinition) -> None:
    wanted = {kind.value for kind in Kind} | {"refunded", "declined_unfounded", "already_refunded", APPROVAL_QUEUE, AGENT_ID}
    assert [code for code in sorted(wanted) if f"`{code}`" not in billing.policy] == []


def test_the_policy_names_every_evidence_file(billing: WorldDefinition) -> None:
    tasks = [billing.family("billing-dispute").generate(Difficulty.EASY, seed) for seed in range(40)]
    names = {path.rpartition("/")[2] for task in tasks for path in task.files.entries}
    assert [name for name in sorted(names) if f"`{name}`" not in billing.policy] == []


def test_tools_need_only_scopes_that_the_desk_has() -> None:
    assert {scope for tool in TOOLS for scope in tool.scopes} == set(SCOPES)


def test_sections_are_numbered_without_gaps(billing: WorldDefinition) -> None:
    for section in re.findall(r"^## (\d+)\.", billing.policy, re.MULTILINE):
        rules = [int(number) for number in re.findall(rf"^{section}\.(\d+) ", billing.policy, re.MULTILINE)]
        assert rules == list(range(1, len(rules) + 1)), section


@pytest.mark.parametrize("word", [*(tool.name for tool in TOOLS), *(kind.value for kind in Kind), *TRAPS])
def test_the_page_names_every_tool_kind_and_trap(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_the_page_names_every_family_and_check(billing: WorldDefinition) -> None:
    checks = ("refund", "not_overpaid", "ticket", "reply", "nothing_else", "audit", "evidence_kept", "order")
    assert [name for name in (*checks, *(family.name for family in billing.families)) if f"`{name}`" not in PAGE] == []
