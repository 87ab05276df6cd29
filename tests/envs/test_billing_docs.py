"""The page of the support desk says what the code says."""

import re
from pathlib import Path

import pytest

from wardian.envs.parameters import describe as describe_parameters
from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty
from wardian.envs.verifier import FinalState
from wardian.envs.worlds.billing.cases import Kind
from wardian.envs.worlds.billing.differences import ITEMS
from wardian.envs.worlds.billing.families.escalation import SCENARIOS
from wardian.envs.worlds.billing.families.recovery import TRAPS
from wardian.envs.worlds.billing.links import ABUSE, INNOCENT, MEANING
from wardian.rollouts.policies.registry import SCRIPTED
from wardian.sandbox.files import FileChanges
from wardian.tools.faults import PROFILES
from wardian.tools.registry import describe

DOCS = Path(__file__).parents[2] / "docs"
PAGE, BASELINES = ((DOCS / name).read_text() for name in ("billing.md", "baselines.md"))
WORLD = load_world("billing")


def rows(title: str, page: str = PAGE) -> list[list[str]]:
    """Cells of each row of the first table below a heading."""
    below = page.split(f"\n{title}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.group().splitlines()[2:]]


def named(title: str) -> list[str]:
    """Names in the first cell of each row."""
    return [name for row in rows(title) for name in re.findall(r"`(\w+)`", row[0])]


def test_the_page_lists_the_tools_as_they_are() -> None:
    assert PAGE.split("\n## Tools\n", 1)[1].strip() == describe(WORLD.tools).strip()


def test_the_page_lists_the_tables() -> None:
    assert sorted(named("## Tables")) == sorted(WORLD.template.metadata.tables)


def test_the_page_lists_families_claims_and_traps() -> None:
    assert re.findall(r"^### `([a-z-]+)`$", PAGE.split("\n## Tools\n")[0], re.MULTILINE) == [family.name for family in WORLD.families]
    assert named("### `billing-dispute`") == [kind.value for kind in Kind]
    assert named("### `error-recovery`") == list(TRAPS)
    assert named("### `policy-escalation`") == list(SCENARIOS)
    assert named("### `statement-reconciliation`") == list(ITEMS)
    assert rows("### `chargeback-fraud`") == [
        [f"`{name}`", MEANING[name], rows("### `chargeback-fraud`")[at][2]] for at, name in enumerate((*ABUSE, *INNOCENT))
    ]


def test_the_page_lists_the_parameters_as_they_are_drawn() -> None:
    section = PAGE.split("\n## Parameters\n", 1)[1].split("\n## Checks\n")[0]
    for family in WORLD.families:
        for line in describe_parameters(family.parameters).splitlines()[2:]:
            assert f"\n{line}\n" in section or f"\n| `{family.name}` {line}\n" in section


def test_the_page_names_the_whole_truth_of_a_task() -> None:
    truth = set(re.findall(r"`(\w+)`", PAGE.split("The truth\nof a task:", 1)[1].split("\n\n", 1)[0]))
    for family in WORLD.families:
        drawn = {one.name for one in family.parameters}
        assert set(family.generate(Difficulty.HARD, 1).parameters) - drawn <= truth


@pytest.mark.parametrize(("title", "family"), [("## Checks", "billing-dispute"), ("Of a reconciliation:", "statement-reconciliation")])
def test_the_page_lists_the_checks_and_which_are_hard(title: str, family: str) -> None:
    task = WORLD.family(family).generate(Difficulty.EASY, 1)
    state = FinalState(task, None, (), FileChanges({}), {}, (), "message")
    checks = [(check.name, "yes" if check.hard else "no") for check in WORLD.family(family).verify(state).checks]
    assert [(row[0].strip("`"), row[-1]) for row in rows(title)] == checks


def solved(policy: str, families: tuple[str, ...] = ()) -> float:
    """Share of the episodes of a policy in the table."""
    cells = [
        cell
        for row in rows("## Success in `billing`", BASELINES)
        if row[1] == policy and row[0] in (families or row[0])
        for cell in row[3:6]
    ]
    pairs = [tuple(map(int, cell.split("/"))) for cell in cells]
    return sum(pair[0] for pair in pairs) / sum(pair[1] for pair in pairs)


def test_the_table_of_policies_is_whole() -> None:
    measured = [tuple(row[:3]) for row in rows("## Success in `billing`", BASELINES)]
    expected = [(family.name, policy, faults) for family in WORLD.families for policy in SCRIPTED for faults in PROFILES]
    assert sorted(measured) == sorted(expected)


def test_no_family_is_free_and_none_impossible() -> None:
    for family in WORLD.families:
        assert solved("expert", (family.name,)) == 1
        assert solved("idle", (family.name,)) == 0
        assert solved("random", (family.name,)) < 0.05
        assert solved("careless", (family.name,)) < 0.25
        assert 0.2 < solved("best-guess", (family.name,)) < 0.9
