"""The page of the support desk says what the code says."""

import re
from pathlib import Path

from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty
from wardian.envs.verifier import FinalState
from wardian.envs.worlds.billing.cases import Kind
from wardian.envs.worlds.billing.families.recovery import TRAPS
from wardian.envs.worlds.billing.verify import check_ticket
from wardian.sandbox.files import FileChanges
from wardian.tools.registry import describe

PAGE = (Path(__file__).parents[2] / "docs" / "billing.md").read_text()
WORLD = load_world("billing")


def rows(title: str) -> list[list[str]]:
    """Cells of each row of the first table below a heading."""
    below = PAGE.split(f"\n{title}\n", 1)[1]
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


def test_the_page_lists_the_parameters() -> None:
    section = PAGE.split("\n## Checks\n")[0].split("Parameters of a task", 1)[1]
    task = WORLD.family("error-recovery").generate(Difficulty.EASY, 1)
    assert set(re.findall(r"`(\w+)`", section)) == set(task.parameters)


def test_the_page_lists_the_checks_and_which_are_hard() -> None:
    task = WORLD.family("billing-dispute").generate(Difficulty.EASY, 1)
    state = FinalState(task, None, (), FileChanges({}), {}, (), "message")
    checks = [(check.name, "yes" if check.hard else "no") for check in check_ticket(state).checks]
    assert [(row[0].strip("`"), row[-1]) for row in rows("## Checks")] == checks


def test_the_page_measures_every_policy_and_profile() -> None:
    measured = [tuple(row[:3]) for row in rows("## Success by policy")]
    assert len(measured) == len(set(measured)) == 2 * 3 * 4
    assert all(cell == "20/20" for row in rows("## Success by policy") if row[1] == "expert" for cell in row[3:6])
    assert all(cell == "0/20" for row in rows("## Success by policy") if row[1] == "idle" for cell in row[3:6])
