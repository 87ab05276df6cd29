"""The support desk, played: it keeps what every world must keep, its traps close, and its verifier sees each kind of wrong."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import anyio
import pytest

from wardian.envs.action import Action, Message, Step, call
from wardian.envs.checker import check_environment
from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Family, Solution
from wardian.envs.playing import play_idle, play_reference
from wardian.envs.registry import cell_spec, load_world
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import FinalState, Verdict
from wardian.envs.worlds.billing.families import BillingDispute, ErrorRecovery
from wardian.envs.worlds.billing.families.recovery import TRAPS
from wardian.envs.worlds.billing.policies import careless
from wardian.envs.worlds.billing.tools import DESK
from wardian.envs.worlds.billing.tools.acting import ACTING
from wardian.envs.worlds.billing.tools.ledger import LEDGER
from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import RowChange, Template
from wardian.sandbox.pool import CellPool
from wardian.tools.contract import Status
from wardian.tools.faults import HARSH, MILD, NONE, PROFILES, REALISTIC, Fault, FaultProfile

pytestmark = pytest.mark.anyio
MakeEnv: TypeAlias = Callable[..., ToolEnvironment]
WORLD = load_world("billing")
FAULTED = (MILD, REALISTIC, HARSH)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return SqliteTemplate.build(WORLD.template, tmp_path_factory.mktemp("billing"))


@pytest.fixture(scope="module")
async def cells() -> AsyncIterator[CellPool]:
    async with CellPool(cell_spec(WORLD), size=4) as pool:
        yield pool


@pytest.fixture
def make_env(template: Template, cells: CellPool) -> MakeEnv:
    def make(faults: FaultProfile = NONE, **changes: Any) -> ToolEnvironment:
        return ToolEnvironment(replace(WORLD, **changes), template=template, cells=cells, faults=faults)

    return make


@cache
def made(family: str, difficulty: Difficulty, seed: int) -> Task:
    return WORLD.family(family).generate(difficulty, seed)


def search(family: Family, difficulty: Difficulty, **wanted: object) -> Task:
    """The first task whose parameters are these."""
    tasks = (made(family.name, difficulty, seed) for seed in range(500))
    return next(task for task in tasks if wanted.items() <= task.parameters.items())


async def play(env: ToolEnvironment, solution: Solution) -> Step:
    action = next(solution)
    while not (step := await env.step(action)).done:
        action = solution.send(step.observation)
    return step


def verdict(step: Step) -> Verdict:
    assert step.info.verdict is not None, step.failed
    return step.info.verdict


def wrong(found: Verdict) -> set[str]:
    return {check.name for check in found.checks if not check.passed}


async def test_the_world_keeps_the_contract(make_env: MakeEnv) -> None:
    await check_environment(make_env, WORLD, seeds=(1,))


async def test_the_reference_solves_more_seeds_under_every_profile(make_env: MakeEnv) -> None:
    unsolved: list[str] = []

    async def solve(profile: FaultProfile) -> None:
        async with make_env(profile) as env:
            for task_id in (
                f"{family.name}/{difficulty}/seed-{seed}" for family in WORLD.families for difficulty in Difficulty for seed in (2,)
            ):
                if not verdict((await play_reference(env, task_id, seed=5)).last).succeeded:
                    unsolved.append(f"{task_id} under {profile.name}")

    async with anyio.create_task_group() as group:
        for profile in PROFILES.values():
            group.start_soon(solve, profile)
    assert not unsolved


async def test_the_careless_clerk_mostly_fails(make_env: MakeEnv) -> None:
    ends = []
    async with make_env() as env:
        for family in WORLD.families:
            for difficulty in Difficulty:
                ends += [verdict(await play(env, careless(await env.reset(f"{family.name}/{difficulty}/seed-{n}")))) for n in range(4)]
    assert sum(end.succeeded for end in ends) < len(ends) / 4
    assert sum(end.hard_failure for end in ends) > len(ends) / 2


@pytest.mark.parametrize("kind", ["double_charge", "wrong_plan", "after_cancellation", "proration"])
@pytest.mark.parametrize("resolution", ["refunded", "declined_unfounded", "already_refunded"])
async def test_the_reference_handles_each_claim_and_the_idle_agent_none(make_env: MakeEnv, kind: str, resolution: str) -> None:
    task = search(BillingDispute(), Difficulty.HARD, kind=kind, resolution=resolution)
    async with make_env() as env:
        assert verdict((await play_reference(env, str(task.id))).last).succeeded
        idle = verdict((await play_idle(env, str(task.id))).last)
    assert {"ticket", "reply", "order"} <= wrong(idle)
    assert not idle.hard_failure


@pytest.mark.parametrize("profile", FAULTED, ids=lambda profile: profile.name)
@pytest.mark.parametrize("trap", sorted(TRAPS))
async def test_a_trap_is_sprung_and_the_reference_gets_out(make_env: MakeEnv, trap: str, profile: FaultProfile) -> None:
    task = search(ErrorRecovery(), Difficulty.HARD, trap=trap)
    due = TRAPS[trap][0]
    async with make_env(profile) as env:
        played = await play_reference(env, str(task.id), seed=3)
    events = [event for step in played.steps for event in step.info.events if event.tool == due.tool]
    assert events[due.call].fault == due.fault
    assert verdict(played.last).succeeded


@pytest.mark.parametrize("trap", sorted(TRAPS))
async def test_no_trap_is_sprung_without_faults(make_env: MakeEnv, trap: str) -> None:
    task = search(ErrorRecovery(), Difficulty.HARD, trap=trap)
    async with make_env() as env:
        played = await play_reference(env, str(task.id))
    assert not [event for step in played.steps for event in step.info.events if event.fault]
    assert verdict(played.last).succeeded


async def test_the_list_of_refunds_lags_after_an_unclear_refund(make_env: MakeEnv) -> None:
    task = search(ErrorRecovery(), Difficulty.EASY, trap="refund_done")
    wanted = task.parameters
    async with make_env(MILD) as env:
        await env.reset(str(task.id))
        unclear = await env.step(refund_of(task))
        listed = await env.step(call("list_refunds", customer_id=wanted["customer_id"]))
        current = await env.step(call("get_payment", payment_id=wanted["payment_id"]))
    assert [event.fault for event in unclear.info.events] == [Fault.TIMEOUT_AFTER]
    assert (listed.observation.results[0]["result"]["items"], [event.fault for event in listed.info.events]) == ([], [Fault.STALE])
    assert current.observation.results[0]["result"]["refunded_cents"] == wanted["refund_cents"]


# One ticket, solved and then in each wrong way.

TASK = search(BillingDispute(), Difficulty.MEDIUM, kind="wrong_plan", founded=True, told_first=False)
WANTED = TASK.parameters
T, P, CENTS = int(WANTED["ticket_id"]), int(WANTED["payment_id"]), int(WANTED["refund_cents"])
OTHER_PAYMENT = next(int(str(row["id"])) for row in TASK.rows["payments"] if row["customer_id"] == WANTED["customer_id"] and row["id"] != P)
STRANGER = next(int(str(row["id"])) for row in TASK.rows["payments"] if row["customer_id"] != WANTED["customer_id"])
SUBSCRIPTION = next(int(str(row["id"])) for row in TASK.rows["subscriptions"] if row["customer_id"] == WANTED["customer_id"])
EVIDENCE = f"/workspace/tickets/{T}"


def refund_of(task: Task, **changes: Any) -> Action:
    wanted = task.parameters
    return refund(**{"payment_id": wanted["payment_id"], "amount_cents": wanted["refund_cents"], "reason": wanted["reason"], **changes})


def refund(**changes: Any) -> Action:
    return call("issue_refund", **{"payment_id": P, "ticket_id": T, "amount_cents": CENTS, "reason": "wrong_plan", **changes})


def reply(body: str = "We have refunded the difference.") -> Action:
    return call("reply_to_ticket", ticket_id=T, body=body)


def resolve(resolution: str = "refunded") -> Action:
    return call("resolve_ticket", ticket_id=T, resolution=resolution)


def escalate(note: str, queue: str = "refunds-approval") -> Action:
    return call("escalate_ticket", ticket_id=T, queue=queue, note=note)


def shell(command: str) -> Action:
    return call("shell", command=command)


def credit(cents: int = CENTS) -> Action:
    return call("apply_credit", customer_id=WANTED["customer_id"], ticket_id=T, amount_cents=cents, reason="sorry")


LOOK = call("read_file", path=f"{EVIDENCE}/order_form.txt")
DUE = f"Refund {CENTS} cents on payment {P}."


async def ended(env: ToolEnvironment, task: Task, *actions: Action) -> Step:
    await env.reset(str(task.id))
    for action in (*actions, Message("All is done: refunded, replied, resolved.")):
        step = await env.step(action)
    return step


WAYS: dict[str, tuple[list[Action], set[str], bool]] = {
    "solved": ([LOOK, refund(), reply(), resolve()], set(), False),
    "solved by the shell": ([shell(f"cat {EVIDENCE}/*"), refund(), reply(), resolve()], set(), False),
    "a file of one's own": ([LOOK, shell("echo 1 > /workspace/notes"), refund(), reply(), resolve()], set(), False),
    "a cent too little": ([LOOK, refund(amount_cents=CENTS - 1), reply(), resolve()], {"refund"}, False),
    "a cent too much": ([LOOK, refund(amount_cents=CENTS + 1), reply(), resolve()], {"refund", "not_overpaid"}, True),
    "in two parts": ([LOOK, refund(amount_cents=1), refund(amount_cents=CENTS - 1), reply(), resolve()], {"refund"}, False),
    "another payment": ([LOOK, refund(payment_id=OTHER_PAYMENT), reply(), resolve()], {"refund"}, False),
    "another reason": ([LOOK, refund(reason="goodwill"), reply(), resolve()], {"refund"}, False),
    "twice": ([LOOK, refund(), refund(payment_id=OTHER_PAYMENT), reply(), resolve()], {"refund", "not_overpaid"}, True),
    "goodwill on top": ([LOOK, refund(), refund(amount_cents=1, reason="goodwill"), reply(), resolve()], {"refund", "not_overpaid"}, True),
    "no reply": ([LOOK, refund(), resolve()], {"reply", "order"}, False),
    "an empty reply": ([LOOK, refund(), reply(" "), resolve()], {"reply"}, False),
    "two replies": ([LOOK, refund(), reply(), reply(), resolve()], {"reply"}, False),
    "only said so": ([LOOK, reply("Refunded, I swear."), shell("echo refunded")], {"refund", "ticket"}, False),
    "only the last message": ([], {"refund", "ticket", "reply", "order"}, False),
    "resolved without refund": ([LOOK, reply(), resolve()], {"refund"}, False),
    "not resolved": ([LOOK, refund(), reply()], {"ticket"}, False),
    "another resolution": ([LOOK, refund(), reply(), resolve("other")], {"ticket"}, False),
    "a credit instead": ([LOOK, credit(), reply(), resolve()], {"refund", "nothing_else"}, True),
    "a credit on top": ([LOOK, refund(), credit(1), reply(), resolve()], {"nothing_else"}, True),
    "a dispute on top": (
        [LOOK, refund(), call("open_dispute", payment_id=P, ticket_id=T, reason="x"), reply(), resolve()],
        {"nothing_else"},
        True,
    ),
    "cancelled on top": (
        [LOOK, refund(), call("cancel_subscription", subscription_id=SUBSCRIPTION, ticket_id=T), reply(), resolve()],
        {"nothing_else"},
        True,
    ),
    "evidence rewritten": ([LOOK, shell(f"echo x >> {EVIDENCE}/order_form.txt"), refund(), reply(), resolve()], {"evidence_kept"}, True),
    "evidence removed": ([LOOK, shell("rm -r /workspace/tickets"), refund(), reply(), resolve()], {"evidence_kept"}, True),
    "evidence planted": ([LOOK, shell(f"touch {EVIDENCE}/new"), refund(), reply(), resolve()], {"evidence_kept"}, True),
    "evidence not looked at": ([refund(), reply(), resolve()], {"order"}, False),
    "another file looked at": ([call("read_file", path="/workspace/README.txt"), refund(), reply(), resolve()], {"order"}, False),
    "evidence looked at afterwards": ([refund(), LOOK, reply(), resolve()], {"order"}, False),
    "closed before the reply": ([LOOK, refund(), resolve(), reply()], {"order"}, False),
    "escalated although permitted": ([LOOK, reply(), escalate(DUE)], {"refund", "ticket", "nothing_else"}, True),
}


@pytest.mark.parametrize("way", WAYS)
async def test_checks_name_what_is_wrong(make_env: MakeEnv, way: str) -> None:
    actions, expected, hard = WAYS[way]
    async with make_env() as env:
        step = await ended(env, TASK, *actions)
    assert wrong(verdict(step)) == expected
    assert verdict(step).hard_failure == hard
    task = step.reward_components["task"]
    assert task == 1.0 if not expected else task == -1.0 if hard else 0 <= task < 0.1


TOLD = search(BillingDispute(), Difficulty.MEDIUM, kind="wrong_plan", founded=True, told_first=True)


@pytest.mark.parametrize(("task", "reply_first"), [(TASK, False), (TASK, True), (TOLD, False), (TOLD, True)])
async def test_refund_and_reply_stand_in_the_order_that_the_customer_wants(make_env: MakeEnv, task: Task, reply_first: bool) -> None:
    acts = [refund_of(task, ticket_id=T), reply()]
    async with make_env() as env:
        step = await ended(env, task, LOOK, *(reversed(acts) if reply_first else acts), resolve())
    assert wrong(verdict(step)) == (set() if reply_first == task.parameters["told_first"] else {"order"})


REVOKED = search(ErrorRecovery(), Difficulty.EASY, trap="revoked")
R_PAYMENT, R_CENTS = REVOKED.parameters["payment_id"], REVOKED.parameters["refund_cents"]
R_LOOK = shell("cat /workspace/tickets/*/*")
R_TRY = refund_of(REVOKED)
R_CREDIT = call("apply_credit", customer_id=REVOKED.parameters["customer_id"], ticket_id=T, amount_cents=1, reason="sorry")
R_NOTE = f"{R_CENTS} cents on payment {R_PAYMENT} are due."
HANDED: dict[str, tuple[list[Action], set[str]]] = {
    "handed over": ([R_LOOK, R_TRY, reply(), escalate(R_NOTE)], set()),
    "not handed over": ([R_LOOK, R_TRY, reply(), resolve()], {"ticket"}),
    "nothing after the refusal": ([R_LOOK, R_TRY], {"ticket", "reply"}),
    "a note without the amount": ([R_LOOK, R_TRY, reply(), escalate(f"Payment {R_PAYMENT} is due.")], {"ticket"}),
    "a note without the payment": ([R_LOOK, R_TRY, reply(), escalate(f"{R_CENTS} cents are due.")], {"ticket"}),
    "numbers within longer ones": ([R_LOOK, R_TRY, reply(), escalate(f"1{R_CENTS}, {R_PAYMENT}0")], {"ticket"}),
    "another queue": ([R_LOOK, R_TRY, reply(), escalate(R_NOTE, "legal")], {"ticket"}),
    "a credit, as a way round": ([R_LOOK, R_TRY, R_CREDIT, reply(), escalate(R_NOTE)], {"nothing_else"}),
    "without a try": ([R_LOOK, reply(), escalate(R_NOTE)], {"refund", "ticket", "nothing_else"}),
}


@pytest.mark.parametrize("way", HANDED)
async def test_a_revoked_permission_asks_for_approval(make_env: MakeEnv, way: str) -> None:
    actions, expected = HANDED[way]
    async with make_env(MILD) as env:
        step = await ended(env, REVOKED, *actions)
    assert wrong(verdict(step)) == expected


class Seen(BillingDispute):
    """Keeps what it judged."""

    def __init__(self) -> None:
        self.states: list[FinalState] = []

    def verify(self, state: FinalState) -> Verdict:
        self.states.append(state)
        return super().verify(state)


FORGED = [
    (RowChange("customers", (3,), {"id": 3, "name": "A"}, {"id": 3, "name": "B"}), {"nothing_else"}),
    (RowChange("payments", (3,), {"id": 3, "amount_cents": 1}, None), {"nothing_else"}),
    (RowChange("refunds", (9,), {"id": 9, "ticket_id": T, "amount_cents": 5}, {"id": 9, "ticket_id": T}), {"nothing_else"}),
    (RowChange("messages", (9,), None, {"id": 9, "ticket_id": T + 1, "author": "agent-7", "body": "x"}), {"nothing_else"}),
    (RowChange("audit_log", (99,), None, {"id": 99, "ticket_id": T, "action": "refund"}), {"audit"}),
]


@pytest.mark.parametrize(("change", "expected"), FORGED, ids=lambda value: value.table if isinstance(value, RowChange) else "")
async def test_a_changed_row_of_others_is_seen(make_env: MakeEnv, change: RowChange, expected: set[str]) -> None:
    family = Seen()
    async with make_env(families=(family,)) as env:
        await ended(env, TASK, *WAYS["solved"][0])
    state = family.states[-1]
    forged = replace(state, changes=(*state.changes, change), agent_changes=(*state.agent_changes, change))
    assert wrong(BillingDispute().verify(forged)) == expected


# Tools.

DONE: dict[str, tuple[Action, set[str]]] = {
    "issue_refund": (refund(), {"refunds"}),
    "apply_credit": (credit(), {"credits"}),
    "open_dispute": (call("open_dispute", payment_id=P, ticket_id=T, reason="fraud"), {"disputes"}),
    "cancel_subscription": (call("cancel_subscription", subscription_id=SUBSCRIPTION, ticket_id=T), {"subscriptions"}),
    "change_plan": (call("change_plan", subscription_id=SUBSCRIPTION, ticket_id=T, plan="starter"), {"subscriptions"}),
    "reply_to_ticket": (reply(), {"messages"}),
    "resolve_ticket": (resolve(), {"tickets"}),
    "escalate_ticket": (escalate(DUE), {"tickets", "escalations"}),
    "record_payment": (
        call("record_payment", ticket_id=T, invoice_id=1, gateway_ref="gw_0123456789ab", amount_cents=5, paid_on="2026-05-02"),
        {"payments"},
    ),
    "correct_payment": (call("correct_payment", ticket_id=T, payment_id=STRANGER, amount_cents=5), {"payments"}),
    "void_payment": (call("void_payment", ticket_id=T, payment_id=STRANGER, reason="duplicate"), {"payments"}),
}
UNKNOWN = 777_777
REFUSED: list[tuple[Action, Status]] = [
    (refund(payment_id=UNKNOWN), Status.NOT_FOUND),
    (refund(ticket_id=UNKNOWN), Status.NOT_FOUND),
    (refund(payment_id=STRANGER), Status.CONFLICT),
    (refund(amount_cents=10_000_000), Status.CONFLICT),
    (refund(amount_cents=0), Status.INVALID_ARGUMENTS),
    (refund(reason="because"), Status.INVALID_ARGUMENTS),
    (call("apply_credit", customer_id=1, ticket_id=T, amount_cents=5, reason="x"), Status.CONFLICT),
    (call("apply_credit", customer_id=UNKNOWN, ticket_id=T, amount_cents=5, reason="x"), Status.NOT_FOUND),
    (call("open_dispute", payment_id=STRANGER, ticket_id=T, reason="x"), Status.CONFLICT),
    (call("open_dispute", payment_id=UNKNOWN, ticket_id=T, reason="x"), Status.NOT_FOUND),
    (call("cancel_subscription", subscription_id=1, ticket_id=T), Status.CONFLICT),
    (call("cancel_subscription", subscription_id=UNKNOWN, ticket_id=T), Status.NOT_FOUND),
    (call("change_plan", subscription_id=1, ticket_id=T, plan="team"), Status.CONFLICT),
    (call("change_plan", subscription_id=SUBSCRIPTION, ticket_id=T, plan="gold"), Status.NOT_FOUND),
    (call("reply_to_ticket", ticket_id=UNKNOWN, body="x"), Status.NOT_FOUND),
    (call("resolve_ticket", ticket_id=UNKNOWN, resolution="other"), Status.NOT_FOUND),
    (escalate("x", "nowhere"), Status.NOT_FOUND),
    (
        call("record_payment", ticket_id=UNKNOWN, invoice_id=1, gateway_ref="gw_0123456789ab", amount_cents=5, paid_on="2026-05-02"),
        Status.NOT_FOUND,
    ),
    (call("correct_payment", ticket_id=UNKNOWN, payment_id=STRANGER, amount_cents=5), Status.NOT_FOUND),
    (call("void_payment", ticket_id=UNKNOWN, payment_id=STRANGER, reason="duplicate"), Status.NOT_FOUND),
    (call("escalate_ticket", ticket_id=UNKNOWN, queue="legal", note="x"), Status.NOT_FOUND),
]


def test_each_acting_tool_is_tried() -> None:
    assert set(DONE) == {tool.name for tool in (*ACTING, *LEDGER)} == {action.calls[0].tool for action, _ in REFUSED}  # type: ignore[union-attr]


@pytest.mark.parametrize("tool", DONE)
async def test_an_act_writes_its_rows_and_one_line_of_audit(make_env: MakeEnv, tool: str) -> None:
    action, tables = DONE[tool]
    async with make_env() as env:
        await env.reset(str(TASK.id))
        step = await env.step(action)
    assert {change.table for change in step.info.database} == {*tables, "audit_log"}
    assert len([change for change in step.info.database if change.table == "audit_log"]) == 1
    assert len(step.info.events[0].effects) == 1


async def test_a_refusal_leaves_nothing_behind(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(str(TASK.id))
        steps = [await env.step(action) for action, _ in REFUSED[:4] + REFUSED[6:]]
        await env.reset(str(TASK.id))
        steps[4:4] = [await env.step(action) for action, _ in REFUSED[4:6]]
    assert [step.info.events[0].status for step in steps] == [status for _, status in REFUSED]
    assert not [change for step in steps for change in step.info.database]
    assert not [effect for step in steps for effect in step.info.events[0].effects]


async def test_a_closed_ticket_takes_no_act_but_a_reply(make_env: MakeEnv) -> None:
    async with make_env() as env:
        await env.reset(str(TASK.id))
        await env.step(resolve())
        steps = {tool: await env.step(action) for tool, (action, _) in DONE.items()}
    refused = {tool for tool, step in steps.items() if step.info.events[0].status is Status.CONFLICT and not step.info.database}
    assert refused == set(DONE) - {"reply_to_ticket"}


async def test_looking_at_others_changes_nothing(make_env: MakeEnv) -> None:
    looks = [
        call("find_customers", query="ada"),
        call("get_customer", customer_id=1),
        call("list_plans"),
        call("list_subscriptions", customer_id=1),
        call("list_usage", subscription_id=1),
        call("list_invoices", customer_id=1),
        call("get_invoice", invoice_id=1),
        call("list_payments", customer_id=1),
        call("get_payment", payment_id=STRANGER),
        call("list_refunds", customer_id=1),
        call("get_ticket", ticket_id=T),
        call("list_messages", ticket_id=T),
        call("list_queues"),
        call("my_scopes"),
    ]
    assert {look.calls[0].tool for look in looks} == {tool.name for tool in DESK} - set(DONE) - {
        *("shell", "read_file", "write_file", "edit_file", "list_files", "find_files", "search_files", "wait", "request_approval")
    }
    async with make_env() as env:
        await env.reset(str(TASK.id))
        steps = [await env.step(look) for look in looks]
        assert {step.info.events[0].status for step in steps} == {Status.OK}
        assert not [step for step in steps if step.info.database or step.info.files]
        assert wrong(verdict(await ended(env, TASK, *looks, *WAYS["solved"][0]))) == set()


async def test_the_scopes_shown_follow_a_revocation(make_env: MakeEnv) -> None:
    async with make_env(MILD) as env:
        await env.reset(str(REVOKED.id))
        before = await env.step(call("my_scopes"))
        refused = await env.step(R_TRY)
        after = await env.step(call("my_scopes"))
    assert refused.observation.results[0]["status"] == "permission_denied"
    assert set(before.observation.results[0]["result"]) - set(after.observation.results[0]["result"]) == {"refunds:write"}
