"""Operators that make variants of tickets: rows are added to what a task has, and the truth follows from them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from wardian.envs.errors import TaskError
from wardian.envs.task import Difficulty, Task
from wardian.envs.variants import Broke, Operator
from wardian.envs.worlds.billing.families.recovery import APPROVAL, HARDER, TRAPS
from wardian.envs.worlds.billing.seed import FIRST_TASK_ID, gateway_ref
from wardian.sandbox.streams import stream

DISPUTE, RECOVERY, ESCALATION = "billing-dispute", "error-recovery", "policy-escalation"
SUFFIXES = (" jr.", "s", "e", " sen.", " II", "er")
Words = tuple[str, ...]
Row = Mapping[str, object]


def move_trap(task: Task, words: Words) -> Task:
    """Another tool or another moment is what goes wrong."""
    if len(words) != 1 or words[0] not in TRAPS:
        raise TaskError(f"task_id: move_trap takes one of {', '.join(TRAPS)}; got {'.'.join(words) or 'none'}")
    due = TRAPS[words[0]] + (HARDER if task.id.difficulty is Difficulty.HARD else ())
    approvals = (APPROVAL,) if words[0] == "approval" else ()
    return replace(task, due_faults=due, approvals=approvals, parameters={**task.parameters, "trap": words[0]})


def distractor(task: Task, words: Words) -> Task:
    """A customer of nearly the same name has an invoice and payments of the same sums, and an open ticket with the same claim."""
    if len(words) != 1 or not words[0].isdigit() or int(words[0]) >= len(SUFFIXES):
        raise TaskError(f"task_id: distractor takes the number of a name, from 0 to {len(SUFFIXES) - 1}")
    truth = task.parameters
    copy = Copy({name: list(rows) for name, rows in task.rows.items()}, task.id.seed)
    (customer,) = (row for row in task.rows["customers"] if row["id"] == truth["customer_id"])
    name = f"{customer['name']}{SUFFIXES[int(words[0])]}"
    if any(row["name"] == name for row in task.rows["customers"]):
        raise TaskError(f"task_id: {name} is a customer in {task.id} already")
    copy.of("customers", customer, name=name, email=f"{words[0]}.{customer['email']}")
    (invoice,) = (row for row in task.rows["invoices"] if row["id"] == truth["invoice_id"])
    (subscription,) = (row for row in task.rows["subscriptions"] if row["id"] == invoice["subscription_id"])
    copy.of("subscriptions", subscription)
    copy.of("invoices", invoice)
    for table in ("invoice_lines", "payments"):
        for row in task.rows[table]:
            if row["invoice_id"] == invoice["id"]:
                copy.of(table, row, **({"gateway_ref": copy.reference()} if table == "payments" else {}))
    (ticket,) = (row for row in task.rows["tickets"] if row["id"] == truth["ticket_id"])
    copy.of("tickets", ticket)
    for message in task.rows["messages"]:
        if message["ticket_id"] == ticket["id"]:
            body = re.sub(rf"\b{invoice['id']}\b", str(copy.made["invoices", invoice["id"]]), str(message["body"]))
            copy.of("messages", message, body=body)
    return replace(task, rows={name: tuple(rows) for name, rows in copy.rows.items()})


class Copy:
    """Rows of a task, and copies of some of them under ids of their own; what a copy names it names by the copies' ids."""

    def __init__(self, rows: dict[str, list[Row]], seed: int) -> None:
        self.rows = rows
        self.made: dict[tuple[str, object], int] = {}
        """The id of each copy, by table and id of what it is a copy of."""
        self._rng = stream(seed, "billing/distractor")

    def reference(self) -> str:
        """A new one of the gateway."""
        return gateway_ref(self._rng)

    def of(self, table: str, row: Row, **changed: object) -> None:
        """Add a copy."""
        number = FIRST_TASK_ID + len(self.rows[table]) + 1
        self.rows[table].append({**row, **self._own(row), **changed, "id": number})
        self.made[table, row["id"]] = number

    def _own(self, row: Row) -> dict[str, object]:
        names = {"customer_id": "customers", "subscription_id": "subscriptions", "invoice_id": "invoices", "ticket_id": "tickets"}
        return {name: self.made[table, row[name]] for name, table in names.items() if (table, row.get(name)) in self.made}


def shift_amount(task: Task, words: Words) -> Task:
    """An earlier refund brings what is left to nothing."""
    truth = task.parameters
    earlier = truth["refund_cents"]
    if truth["queue"] is not None or not earlier:
        raise TaskError(f"task_id: nothing in {task.id} is left that the desk would refund")
    (payment,) = (row for row in task.rows["payments"] if row["id"] == truth["payment_id"])
    before = task.rows.get("refunds", ())
    refund: dict[str, object] = {
        "id": FIRST_TASK_ID + len(before) + 1,
        "payment_id": payment["id"],
        "ticket_id": None,
        "amount_cents": earlier,
    }
    paid_at = payment["paid_at"]
    assert isinstance(paid_at, datetime), "payments are dated"
    refund |= {"reason": "goodwill", "created_at": paid_at + timedelta(hours=30)}
    return replace(
        task, rows={**task.rows, "refunds": (*before, refund)}, parameters={**truth, "resolution": "already_refunded", "refund_cents": 0}
    )


def other_traps(task: Task, broke: Broke) -> Iterator[Words]:
    """All but the one that is there, those of the tool that the policy broke at first."""
    names = [name for name in TRAPS if name != task.parameters["trap"]]
    yield from ((name,) for name in sorted(names, key=lambda name: TRAPS[name][0].tool != broke.tool))


def names(task: Task, broke: Broke) -> Iterator[Words]:
    """One after another."""
    yield from ((str(number),) for number in range(len(SUFFIXES)))


def once(task: Task, broke: Broke) -> Iterator[Words]:
    """There is one way."""
    yield ()


OPERATORS = (
    Operator("move_trap", "another tool, or another moment, is what goes wrong", (RECOVERY,), move_trap, other_traps),
    Operator(
        "distractor",
        "a customer of nearly the same name makes the same claim about the same sums",
        (DISPUTE, RECOVERY, ESCALATION),
        distractor,
        names,
    ),
    Operator("shift_amount", "an earlier refund brings what is left to nothing", (DISPUTE, ESCALATION), shift_amount, once),
)
