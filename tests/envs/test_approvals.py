"""Scopes in world state: revoked midway, granted after an approval; rows that the world changes, and never the agent. No cell is needed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from wardian.envs.action import Action, Message, Step, call
from wardian.envs.approvals import Approval
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import TaskError
from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.envs.worlds.billing.families.recovery import ErrorRecovery
from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import Template
from wardian.tools.faults import NONE, DueFault, Fault, FaultProfile

pytestmark = pytest.mark.anyio
BILLING = load_world("billing")
SCOPE = "refunds:write"
FAULTED = FaultProfile(name="quiet", lagging=1e-9)
"""Under which only what a task demands happens."""
TASK = "error-recovery/easy/seed-1"
WANTED = ErrorRecovery().generate(Difficulty.EASY, 1).parameters
REFUND = call("issue_refund", payment_id=WANTED["payment_id"], ticket_id=WANTED["ticket_id"], amount_cents=1, reason="goodwill")
ASK = call("request_approval", scope=SCOPE, reason="a refund")
SCOPES = call("my_scopes")


class Judged(ErrorRecovery):
    def __init__(self, *approvals: Approval, fault: Fault = Fault.REVOKED) -> None:
        self.approvals, self.fault = approvals, fault
        self.seen: list[FinalState] = []

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        task = super().generate(difficulty, seed)
        return replace(task, due_faults=(DueFault("issue_refund", 0, self.fault),), approvals=self.approvals)

    def verify(self, state: FinalState) -> Verdict:
        self.seen.append(state)
        return Verdict((Check("seen", True),))


SOON = Approval(SCOPE, 60, 60)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return SqliteTemplate.build(BILLING.template, tmp_path_factory.mktemp("billing"))


@pytest.fixture
def play(desk: Template) -> Callable[..., Any]:
    async def played(
        family: Judged, *actions: Action, faults: FaultProfile = FAULTED, world: WorldDefinition = BILLING, seed: int = 0
    ) -> list[Step]:
        without = replace(world, needs_cell=False, families=(family,))
        async with ToolEnvironment(without, template=desk, cells=None, faults=faults) as env:
            await env.reset(TASK, seed)
            return [await env.step(action) for action in actions]

    return played


def status(step: Step) -> str:
    return str(step.observation.results[0]["status"])


@pytest.mark.parametrize("fault", [Fault.REVOKED, Fault.MISSING])
async def test_a_scope_that_goes_away_is_a_row_that_changed(play: Any, fault: Fault) -> None:
    before, refused, after = await play(Judged(fault=fault), SCOPES, REFUND, SCOPES)
    assert SCOPE in before.observation.results[0]["result"]
    assert (status(refused), [event.fault for event in refused.info.events]) == ("permission_denied", [fault.value])
    (row,) = refused.info.database
    assert (row.table, row.key) == ("agents", ("agent-7",))
    assert before.info.fingerprint.leaves["database/agents"] != refused.info.fingerprint.leaves["database/agents"]
    assert SCOPE not in after.observation.results[0]["result"]


async def test_it_is_the_worlds_doing_and_hidden_from_the_agent(play: Any) -> None:
    family = Judged()
    refused, _ = await play(family, REFUND, Message("Done."))
    assert [(event.kind, event.facts["scope"]) for event in refused.info.background] == [("scope_revoked", SCOPE)]
    assert refused.observation.incoming == ()
    (state,) = family.seen
    assert ([change.table for change in state.changes], state.agent_changes) == (["agents"], ())


async def test_a_scope_is_granted_some_time_after_it_was_asked_for(play: Any) -> None:
    steps = await play(Judged(SOON), REFUND, ASK, call("wait", seconds=58), REFUND, call("wait", seconds=3), REFUND)
    _, asked, early, refused, told, done = steps
    assert asked.observation.results[0]["result"] == {"scope": SCOPE, "state": "pending"}
    assert (early.info.background, status(refused)) == ((), "permission_denied")
    assert [event.kind for event in told.info.background] == ["scope_granted"]
    assert told.observation.incoming[0]["text"] == f"Your request is approved: you hold {SCOPE} now."
    assert (status(done), [event.fault for event in done.info.events]) == ("ok", [None])


async def test_asking_again_says_how_it_stands_and_asks_for_nothing_more(play: Any) -> None:
    steps = await play(Judged(SOON), REFUND, ASK, ASK, call("wait", seconds=60), ASK)
    assert [step.observation.results[0]["result"]["state"] for step in (steps[1], steps[2], steps[4])] == ["pending", "pending", "granted"]
    assert sum(len(step.info.background) for step in steps) == 2


async def test_what_nobody_grants_is_refused_for_good(play: Any) -> None:
    refused, other = await play(Judged(), ASK, call("request_approval", scope="all", reason="x"))
    assert (status(refused), status(other)) == ("permission_denied", "permission_denied")
    assert "the way that your policy names" in refused.observation.results[0]["error"]


async def test_a_granted_scope_is_not_taken_away_again(play: Any) -> None:
    faults = FaultProfile(name="greedy", revoked=1.0, max_total=100)
    steps = await play(Judged(SOON), REFUND, ASK, call("wait", seconds=60), *[REFUND] * 5, faults=faults)
    assert [status(step) for step in steps[3:]] == ["ok"] * 5


async def test_the_time_of_an_approval_is_drawn_within_its_span_and_alike_without_faults(play: Any) -> None:
    spans = set()
    for seed in range(4):
        for faults in (FAULTED, NONE):
            steps = await play(Judged(Approval(SCOPE, 10, 600)), ASK, call("wait", seconds=700), faults=faults, seed=seed)
            (event,) = steps[1].info.background
            spans.add((seed, event.at_ms - steps[0].info.clock_ms + steps[0].info.events[0].latency_ms))
    assert len(spans) == 4
    assert all(10_000 <= span_ms <= 600_000 for _, span_ms in spans)


async def test_approvals_need_a_world_that_can_write_scopes(play: Any) -> None:
    with pytest.raises(TaskError, match="set_scope"):
        await play(Judged(SOON), world=replace(BILLING, set_scope=None))
    with pytest.raises(TaskError, match="earliest_s"):
        Approval(SCOPE, 5, 4)
