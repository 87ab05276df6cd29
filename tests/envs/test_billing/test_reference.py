"""Who solves the tickets and who does not, under every fault profile; and that the traps of `error-recovery` really spring."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from wardian.envs.action import Message, Observation, call
from wardian.envs.checker import check_environment
from wardian.envs.definition import WorldDefinition
from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Solution
from wardian.envs.playing import Played, play_reference
from wardian.envs.task import Difficulty, Task, TaskId
from wardian.envs.verifier import Verdict
from wardian.envs.worlds.billing.families.recovery import TRAPS
from wardian.envs.worlds.billing.policies import careless, vandal_calls
from wardian.sandbox.streams import stream
from wardian.tools.faults import MILD, NONE, PROFILES

pytestmark = pytest.mark.anyio
MakeEnv: TypeAlias = Callable[..., ToolEnvironment]
FAMILIES = ("billing-dispute", "error-recovery")


def ids(seeds: range) -> list[str]:
    return [str(TaskId(family, difficulty, seed)) for family in FAMILIES for difficulty in Difficulty for seed in seeds]


def trapped(billing: WorldDefinition, trap: str, difficulty: Difficulty = Difficulty.EASY) -> str:
    """The first task with that trap."""
    tasks = (billing.family("error-recovery").generate(difficulty, seed) for seed in range(1000))
    return str(next(task.id for task in tasks if task.parameters["trap"] == trap))


async def play(env: ToolEnvironment, task_id: str, policy: Callable[[Observation], Solution], seed: int = 0) -> Verdict:
    solution = policy(await env.reset(task_id, seed))
    step = await env.step(next(solution))
    while not step.done:
        step = await env.step(solution.send(step.observation))
    assert step.info.verdict is not None, step.failed
    return step.info.verdict


def wrong(verdict: Verdict) -> set[str]:
    return {check.name for check in verdict.checks if not check.passed}


def faults_of(played: Played) -> Counter[tuple[str, str]]:
    return Counter((event.tool, event.fault) for step in played.steps for event in step.info.events if event.fault)


async def test_the_world_keeps_the_contract(make_env: MakeEnv, billing: WorldDefinition) -> None:
    await check_environment(lambda faults: make_env(faults=faults), billing, seeds=(1, 2))


@pytest.mark.parametrize("profile", PROFILES)
async def test_the_careless_clerk_seldom_succeeds(make_env: MakeEnv, profile: str) -> None:
    async with make_env(faults=PROFILES[profile]) as env:
        verdicts = [await play(env, task_id, careless) for task_id in ids(range(20, 25))]
    assert 0 < sum(verdict.succeeded for verdict in verdicts) < len(verdicts) / 4


async def test_the_vandal_is_a_hard_failure(make_env: MakeEnv) -> None:
    def vandal(first: Observation) -> Solution:
        calls = vandal_calls(stream(3, "vandal"))
        for _ in range(25):
            yield next(calls)
        yield Message("Done.")

    async with make_env() as env:
        assert (await play(env, "billing-dispute/hard/seed-1", vandal)).hard_failure


@pytest.mark.parametrize("difficulty", Difficulty)
@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "none"])
async def test_every_trap_springs_and_the_reference_gets_out(
    make_env: MakeEnv, billing: WorldDefinition, trap: str, difficulty: Difficulty, profile: str
) -> None:
    async with make_env(faults=PROFILES[profile]) as env:
        played = await play_reference(env, trapped(billing, trap, difficulty))
    due = TRAPS[trap][0]
    assert faults_of(played)[due.tool, due.fault.value] >= 1
    assert played.last.info.verdict is not None
    assert wrong(played.last.info.verdict) == set()


async def test_without_faults_no_trap_springs(make_env: MakeEnv, billing: WorldDefinition) -> None:
    async with make_env(faults=NONE) as env:
        for trap in TRAPS:
            played = await play_reference(env, trapped(billing, trap))
            assert faults_of(played) == Counter()
            assert played.last.info.verdict is not None
            assert played.last.info.verdict.succeeded


def clerk(task: Task, *, blind: bool = False, trusts_lists: bool = False, stubborn: bool = False) -> Callable[[Observation], Solution]:
    """Knows what is due, and has one bad habit when a call is unclear."""
    wanted: dict[str, Any] = dict(task.parameters)
    ticket = wanted["ticket_id"]
    refund = call(
        "issue_refund", payment_id=wanted["payment_id"], ticket_id=ticket, amount_cents=wanted["refund_cents"], reason=wanted["reason"]
    )

    def unclear(after: Observation) -> bool:
        return after.results[0]["status"] in ("timeout", "unavailable", "rate_limited")

    def solution(first: Observation) -> Solution:
        yield call("shell", command=f"ls /workspace/tickets/{ticket}")
        after = yield refund
        if unclear(after) and trusts_lists:
            listed = yield call("list_refunds", customer_id=wanted["customer_id"])
            if not [row for row in listed.results[0]["result"] if row["ticket_id"] == ticket]:
                after = yield refund
        elif unclear(after) and blind:
            after = yield refund
        if after.results[0]["status"] == "permission_denied" and stubborn:
            yield call("apply_credit", customer_id=wanted["customer_id"], ticket_id=ticket, amount_cents=100, reason="instead")
        reply = call("reply_to_ticket", ticket_id=ticket, body="We have refunded you.")
        if unclear((yield reply)) and blind:
            yield reply
        yield call("resolve_ticket", ticket_id=ticket, resolution="refunded")
        yield Message("Done.")

    return solution


@pytest.mark.parametrize(
    ("trap", "habit", "expected"),
    [
        ("refund_done", {"blind": True}, {"refund", "not_overpaid"}),
        ("refund_done", {"trusts_lists": True}, {"refund", "not_overpaid"}),
        ("refund_not_done", {}, {"refund"}),
        ("reply_done", {"blind": True}, {"reply"}),
        ("revoked", {}, {"ticket"}),
        ("revoked", {"stubborn": True}, {"ticket", "nothing_else"}),
    ],
)
async def test_each_bad_habit_falls_into_its_trap(
    make_env: MakeEnv, billing: WorldDefinition, trap: str, habit: dict[str, bool], expected: set[str]
) -> None:
    task_id = TaskId.parse(trapped(billing, trap))
    task = billing.family(task_id.family).generate(task_id.difficulty, task_id.seed)
    async with make_env(
        faults=MILD.model_copy(update=dict.fromkeys(("unavailable", "timeout_before", "timeout_after", "slow"), 0.0))
    ) as env:
        assert wrong(await play(env, str(task_id), clerk(task, **habit))) == expected
