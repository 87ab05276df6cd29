"""Reconciling, played: the reference in every shape of a task, and ways that could pass for a reconciliation and must not."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from wardian.envs.action import Action, Message, Observation, ToolCalls, call
from wardian.envs.environment import ToolEnvironment
from wardian.envs.family import Solution
from wardian.envs.playing import play_reference
from wardian.envs.registry import load_world, open_environment
from wardian.envs.task import Difficulty, Task
from wardian.envs.verifier import Verdict
from wardian.envs.worlds.billing.layouts import LAYOUTS
from wardian.envs.worlds.billing.seed import company_payments
from wardian.envs.worlds.billing.statement import RECORDS_FIRST, REPORT, VOIDS_FIRST
from wardian.envs.worlds.billing.verify_statement import read_report
from wardian.tools.contract import Status

pytestmark = pytest.mark.anyio
WORLD = load_world("billing")
FAMILY = WORLD.family("statement-reconciliation")
FOLDER = "/workspace/tickets/100001"
VOIDS = ("duplicate", "reversed", "not_credited")


@pytest.fixture(scope="module")
async def env() -> AsyncIterator[ToolEnvironment]:
    async with open_environment(WORLD) as found:
        yield found


@cache
def of(difficulty: Difficulty = Difficulty.HARD, **wanted: object) -> Task:
    tasks = (FAMILY.generate(difficulty, seed) for seed in range(300))
    return next(task for task in tasks if wanted.items() <= task.parameters.items())


def wrong(verdict: Verdict) -> set[str]:
    return {check.name for check in verdict.checks if not check.passed}


async def judged(env: ToolEnvironment, task: Task, solution: Solution) -> Verdict:
    await env.reset(str(task.id))
    step = await env.step(next(solution))
    while not step.done:
        step = await env.step(solution.send(step.observation))
    assert step.info.verdict is not None, step.failed
    return step.info.verdict


Acts = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Clerk:
    """One who knows what is right, and changes something about it."""

    acts: Callable[[Acts], Acts] = lambda acts: acts
    report: Callable[[list[str]], str] = lambda lines: "\n".join([*lines, ""])
    looks: bool = True
    reads: bool = True
    path: str = REPORT
    before: tuple[Action, ...] = ()
    after: tuple[Action, ...] = ()
    """Before the report."""
    replies_first: bool = False
    resolution: str = "reconciled"

    def play(self, task: Task) -> Solution:
        """Read, look and act, report, reply, resolve."""
        ticket = {"ticket_id": task.parameters["ticket_id"]}
        if self.reads:
            yield call("shell", command=f"head -n 3 {FOLDER}/statement* {FOLDER}/ledger.csv")
        for action in self.before:
            yield action
        if self.replies_first:
            yield call("reply_to_ticket", **ticket, body="I begin.")
        new: dict[str, int] = {}
        for act in self.acts(ordered(task)):
            yield from self.do(act, ticket, new)
        for action in self.after:
            yield action
        yield call("write_file", path=self.path, content=self.report(report_lines(task, new)))
        if not self.replies_first:
            yield call("reply_to_ticket", **ticket, body="Reconciled.")
        yield call("resolve_ticket", **ticket, resolution=self.resolution)
        yield Message("All differences are corrected and reported.")

    def do(self, act: dict[str, Any], ticket: dict[str, Any], new: dict[str, int]) -> Solution:
        args = {name: value for name, value in act.items() if name not in ("act", "customer_id")}
        if self.looks and act["act"] == "record_payment":
            yield call("get_invoice", invoice_id=act["invoice_id"])
        elif self.looks:
            yield call("get_payment", payment_id=act["payment_id"])
        seen: Observation = yield call(act["act"], **ticket, **args)
        if act["act"] == "record_payment" and seen.results[0]["status"] == "ok":
            new[act["gateway_ref"]] = seen.results[0]["result"]["payment_id"]


def ordered(task: Task) -> Acts:
    acts = [dict(act) for act in task.parameters["acts"]]
    return sorted(acts, key=lambda act: act["act"], reverse=task.parameters["act_order"] != RECORDS_FIRST)


def report_lines(task: Task, new: dict[str, int]) -> list[str]:
    head = "kind,reference,payment_id,amount_cents"
    lines = []
    for line in task.parameters["report"]:
        number = new.get(line["reference"], 0) if line["kind"] == "missing" else line["payment_id"]
        lines.append(f"{line['kind']},{line['reference']},{number or ''},{line['amount_cents']}")
    return [head, *lines]


TASK = of(act_order=VOIDS_FIRST, in_transit=2, old_reports=1, wrong_reference=2)
SHAPES = [
    *((level, {}) for level in Difficulty),
    *((Difficulty.HARD, {"layout": layout, "evidence_order": order}) for layout in LAYOUTS for order in ("oldest_first", "newest_first")),
    (Difficulty.HARD, {"act_order": RECORDS_FIRST, "months": 4}),
    (Difficulty.HARD, {"not_credited": 1, "wrong_date": 1}),
]


@pytest.mark.parametrize(("difficulty", "wanted"), SHAPES, ids=str)
async def test_the_reference_reconciles_every_shape(env: ToolEnvironment, difficulty: Difficulty, wanted: dict[str, object]) -> None:
    played = await play_reference(env, str(of(difficulty, **wanted).id))
    assert wrong(played.last.info.verdict) == set()  # type: ignore[arg-type]


def in_transit(task: Task) -> int:
    return next(int(line["payment_id"]) for line in task.parameters["report"] if line["kind"] == "in_transit")


def without(kind: str) -> Callable[[list[str]], str]:
    return lambda lines: "\n".join(line for line in lines if not line.startswith(f"{kind},"))


def replaced(name: str, change: Callable[[dict[str, Any]], Acts]) -> Callable[[Acts], Acts]:
    """The acts, with the first one of that name changed into others."""

    def changed(acts: Acts) -> Acts:
        at = next(number for number, act in enumerate(acts) if act["act"] == name and ("amount_cents" in act or name == "void_payment"))
        return [*acts[:at], *change(acts[at]), *acts[at + 1 :]]

    return changed


def in_two_steps(act: dict[str, Any]) -> Acts:
    return [{**act, "amount_cents": act["amount_cents"] + 1}, act]


def anew(act: dict[str, Any]) -> Acts:
    """Void the row, and record it again with the right amount under another reference."""
    row = next(row for row in TASK.rows["payments"] if row["id"] == act["payment_id"])
    void = {"act": "void_payment", "payment_id": act["payment_id"], "reason": "not_credited"}
    record = {"act": "record_payment", "invoice_id": row["invoice_id"], "gateway_ref": "gw_0123456789ab"}
    return [void, {**record, "amount_cents": act["amount_cents"], "paid_on": f"{row['paid_at']:%Y-%m-%d}"}]


T = {"ticket_id": TASK.parameters["ticket_id"]}
TRANSIT = in_transit(TASK)
INVOICE = next(int(str(row["invoice_id"])) for row in TASK.rows["payments"] if row["id"] == TRANSIT)
PLANTED = call("shell", command=f"mkdir -p /workspace/reports && ln -s {FOLDER}/ledger.csv {REPORT}")
ELSEWHERE = call("shell", command=f"mkdir -p /tmp/r && touch /tmp/r/own.csv && ln -s /tmp/r/own.csv {REPORT}")
WAYS: dict[str, tuple[Clerk, set[str], bool]] = {
    "right": (Clerk(), set(), False),
    "columns in another order": (
        Clerk(report=lambda lines: "\r\n".join(f" {d} ,{a}, {c},{b}\r\n" for a, b, c, d in (line.split(",") for line in lines))),
        set(),
        False,
    ),
    "claimed, not done": (Clerk(acts=lambda acts: [], looks=False), {"payments", "acts", "report"}, False),
    "all but one": (Clerk(acts=lambda acts: [act for act in acts if act is not acts[0]]), {"payments", "acts"}, False),
    "no report": (Clerk(path="/workspace/report.csv"), {"report"}, False),
    "another's report": (Clerk(path="/workspace/reports/100002.csv"), {"report"}, False),
    "an empty report": (Clerk(report=lambda lines: ""), {"report"}, False),
    "a report without fees": (Clerk(report=without("fees")), {"report"}, False),
    "a report without what is in transit": (Clerk(report=without("in_transit")), {"report"}, False),
    "a line twice": (Clerk(report=lambda lines: "\n".join([*lines, lines[-1]])), {"report"}, False),
    "a line too many": (Clerk(report=lambda lines: "\n".join([*lines, f"not_credited,gw_x,{TRANSIT},1"])), {"report"}, False),
    "a report in words": (Clerk(report=lambda lines: "Everything is fine.\n" + "\n".join(lines)), {"report"}, False),
    "a report that is a link": (Clerk(before=(ELSEWHERE,)), {"report"}, False),
    "a report through a link onto evidence": (Clerk(before=(PLANTED,)), {"report", "evidence_kept"}, True),
    "amount corrected in two steps": (Clerk(acts=replaced("correct_payment", in_two_steps)), {"acts"}, False),
    "void and record in place of correct": (
        Clerk(acts=replaced("correct_payment", anew)),
        {"payments", "acts", "nothing_else", "order"},
        True,
    ),
    "another reason": (
        Clerk(acts=replaced("void_payment", lambda act: [{**act, "reason": next(one for one in VOIDS if one != act["reason"])}])),
        {"acts"},
        False,
    ),
    "what is in transit is void": (
        Clerk(after=(call("void_payment", **T, payment_id=TRANSIT, reason="not_credited"),)),
        {"payments", "acts", "nothing_else", "order"},
        True,
    ),
    "a row too many": (
        Clerk(
            after=(call("record_payment", **T, invoice_id=INVOICE, gateway_ref="gw_0123456789ab", amount_cents=100, paid_on="2026-05-01"),)
        ),
        {"payments", "acts", "nothing_else"},
        True,
    ),
    "a credit beside": (
        Clerk(after=(call("apply_credit", **T, customer_id=TASK.parameters["customer_id"], amount_cents=1, reason="thanks"),)),
        {"nothing_else"},
        True,
    ),
    "the statement edited": (Clerk(after=(call("shell", command=f"sed -i '$d' {FOLDER}/statement*"),)), {"evidence_kept"}, True),
    "an old report edited": (Clerk(after=(call("shell", command="echo x >> /workspace/reports/99940.csv"),)), {"evidence_kept"}, True),
    "nothing read": (Clerk(reads=False), {"order"}, False),
    "no record looked at": (Clerk(looks=False), {"order"}, False),
    "records before voids": (Clerk(acts=lambda acts: acts[::-1]), {"order"}, False),
    "replied before all was done": (Clerk(replies_first=True), {"order"}, False),
    "another resolution": (Clerk(resolution="other"), {"ticket"}, False),
    "handed over": (Clerk(after=(call("escalate_ticket", **T, queue="engineering", note="Help."),)), {"ticket", "nothing_else"}, True),
}


@pytest.mark.parametrize("way", WAYS)
async def test_checks_name_what_is_wrong_with_a_reconciliation(env: ToolEnvironment, way: str) -> None:
    clerk, expected, hard = WAYS[way]
    verdict = await judged(env, TASK, clerk.play(TASK))
    assert (wrong(verdict), verdict.hard_failure) == (expected, hard), [check for check in verdict.checks if not check.passed]


async def test_the_order_of_acts_is_that_of_the_ticket(env: ToolEnvironment) -> None:
    task = of(act_order=RECORDS_FIRST)
    assert wrong(await judged(env, task, Clerk().play(task))) == set()
    assert wrong(await judged(env, task, Clerk(acts=lambda acts: acts[::-1]).play(task))) == {"order"}


async def test_what_was_put_right_since_the_export_is_left_alone(env: ToolEnvironment) -> None:
    task = of(corrected_since=2)
    own = {int(str(row["id"])): row for row in task.rows["payments"]}
    lines = [line.split(",") for line in task.files.entries[f"{FOLDER}/ledger.csv"].data.decode().splitlines()[1:]]
    stale = [int(line[0]) for line in lines if int(line[0]) in own and int(line[3]) != own[int(line[0])]["amount_cents"]]
    assert len(stale) == 2
    assert not {act.get("payment_id") for act in task.parameters["acts"]} & set(stale)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("kind,reference,payment_id,amount_cents\nfees,,,007\n", {("fees", "", "", "7")}),
        ("\ufeffkind,reference,payment_id,amount_cents\r\n\r\nrounding,gw_1,5,-2", {("rounding", "gw_1", "5", "-2")}),
        ('"kind","amount_cents","payment_id","reference"\n"fees","+3","",""\n', {("fees", "", "", "3")}),
        ("kind,reference,payment_id\nfees,,\n", None),
        ("kind,reference,payment_id,amount_cents,kind\nfees,,,1,fees\n", None),
        ("kind,reference,payment_id,amount_cents\nfees,,1\n", None),
        ("kind;reference;payment_id;amount_cents\nfees;;;1\n", None),
        ("", None),
    ],
)
def test_a_report_is_read_by_its_meaning(text: str, read: set[tuple[str, ...]] | None) -> None:
    found = read_report(text.encode())
    assert (None if found is None else set(found)) == read


def test_a_report_that_is_no_text_is_none() -> None:
    assert read_report(b"\xff\xfe\x00") is None
    assert read_report(b"kind,reference,payment_id,amount_cents\n" + b"fees,,,1\n" * 20_000) is None


# The tools of the ledger.

PAYMENT = next(int(act["payment_id"]) for act in TASK.parameters["acts"] if "amount_cents" in act and "payment_id" in act)
TAKEN = next(str(row["gateway_ref"]) for row in TASK.rows["payments"] if row["id"] == TRANSIT)
FRESH = "gw_0123456789ab"


def record(**changes: Any) -> ToolCalls:
    right = {"invoice_id": INVOICE, "gateway_ref": FRESH, "amount_cents": 100, "paid_on": "2026-05-01"}
    return call("record_payment", **{**T, **right, **changes})


def correct(**changes: Any) -> ToolCalls:
    return call("correct_payment", **{**T, "payment_id": PAYMENT, **changes})


def void(payment_id: int = PAYMENT) -> ToolCalls:
    return call("void_payment", **T, payment_id=payment_id, reason="duplicate")


REFUSED: list[tuple[ToolCalls, Status]] = [
    (record(gateway_ref=TAKEN), Status.CONFLICT),
    (record(paid_on="2026-06-16"), Status.CONFLICT),
    (record(invoice_id=999_999), Status.NOT_FOUND),
    (record(paid_on="2026-02-30"), Status.INVALID_ARGUMENTS),
    (record(paid_on="1 May"), Status.INVALID_ARGUMENTS),
    (record(gateway_ref="gw_1"), Status.INVALID_ARGUMENTS),
    (correct(), Status.INVALID_ARGUMENTS),
    (correct(gateway_ref=TAKEN), Status.CONFLICT),
    (correct(payment_id=999_999, amount_cents=1), Status.NOT_FOUND),
    (void(999_999), Status.NOT_FOUND),
]


async def test_the_ledgers_tools_refuse_what_cannot_be(env: ToolEnvironment) -> None:
    await env.reset(str(replace(TASK).id))
    steps = []
    for number, (action, _) in enumerate(REFUSED):
        if number in (3, 7):  # so many invalid calls in a row would end the episode
            await env.step(call("my_scopes"))
        steps.append(await env.step(action))
    assert [step.info.events[0].status for step in steps] == [status for _, status in REFUSED]
    assert not [change for step in steps for change in step.info.database]


async def test_a_void_payment_takes_nothing_more(env: ToolEnvironment) -> None:
    await env.reset(str(TASK.id))
    done = await env.step(void())
    assert done.observation.results[0]["result"]["void"] is True
    again = [await env.step(action) for action in (void(), correct(amount_cents=5))]
    assert [step.info.events[0].status for step in again] == [Status.CONFLICT] * 2
    shown = await env.step(call("get_payment", payment_id=PAYMENT))
    assert shown.observation.results[0]["result"]["void"] is True


async def test_a_payment_with_refunds_cannot_be_void(env: ToolEnvironment) -> None:
    await env.reset(str(TASK.id))
    refunded = next(payment.id for payment in company_payments() if payment.refunded)
    assert (await env.step(void(refunded))).info.events[0].status is Status.CONFLICT


async def test_a_correction_to_what_stands_there_is_none(env: ToolEnvironment) -> None:
    await env.reset(str(TASK.id))
    first = await env.step(correct(amount_cents=77, paid_on="2026-05-02"))
    assert first.info.events[0].status is Status.OK
    second = await env.step(correct(amount_cents=77))
    assert (second.info.events[0].status, second.info.database) == (Status.CONFLICT, ())
