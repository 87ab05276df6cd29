"""Tasks of a file under attack: attacks and mutants need nothing that their author wrote beside the task."""

from typing import Any, TypeAlias

import pytest

from tests.envs.taskfile.conftest import one_task, tasks_in
from wardian.envs.environment import ToolEnvironment
from wardian.envs.settings import Settings
from wardian.envs.taskfile.opening import on_import
from wardian.rollouts.redteam.attacking import attack_world
from wardian.rollouts.redteam.mutants import ENOUGH
from wardian.rollouts.redteam.mutating import mutate
from wardian.rollouts.redteam.solving import Witness
from wardian.tools.faults import NONE

pytestmark = pytest.mark.anyio
Fixture: TypeAlias = Any
ONLY = "{only: [{table: Sale, where: {SaleId: 1}, columns: [Amount]}]}"
ANSWERED = "[{name: amount, sql: SELECT amount FROM Sale, rows: [[7], [0.2], [5.94], [1.5]]}, {name: said, answer: {contains: ['7']}}]"
STRONG = {"checks": ANSWERED, "changes": ONLY, "solution": "[{sql: UPDATE Sale SET Amount = 7 WHERE SaleId = 1}, {message: It is 7 now.}]"}
WEAK = {
    "checks": "[{name: amount, sql: SELECT amount FROM Sale WHERE SaleId = 1, rows: [[7]]}]",
    "changes": "{only: any}",
    "solution": "[{sql: UPDATE Sale SET Amount = 7 WHERE SaleId = 1}]",
}


@pytest.mark.parametrize(("parts", "holds"), [(STRONG, True), (WEAK, False)])
async def test_a_task_that_guards_what_it_does_not_name_holds(
    shop: Fixture, sqlite_shop: Fixture, parts: dict[str, str], holds: bool
) -> None:
    witness = Witness()
    world = on_import(shop, tasks_in(one_task(**parts)))
    watched, settings = witness.watch(world), Settings(hold_ended=True)
    async with ToolEnvironment(watched, template=sqlite_shop, cells=None, faults=NONE, settings=settings) as env:
        attacked = await attack_world(env, world.families)
        (score,) = await mutate(env, witness, world.families, seeds=(1,))
    assert [one.problem for one in attacked] == [""] * len(attacked)
    assert {one.attack for one in attacked} >= {"claim_only", "acts_left_out"}
    assert (score.score >= ENOUGH) is holds, score.survivors
    assert "nudged other People.Name" in {one.name for one in score.judged}
