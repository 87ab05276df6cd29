"""The reference solution of a reconciliation: a script in the shell joins the two sides, current records decide, the report is the last.

The script prints what does not fit by itself, some tens of lines; all else is for the clerk.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from wardian.envs.action import Message, Observation
from wardian.envs.worlds.billing.families.acts import Step, ask, close, every, found, surely

SETTLES_DAYS, TRANSIT_DAYS, ROUNDING_CENTS = 5, 3, 2
JOIN = r"""
import csv, json, os, re, sys
def cents(text):
    sign = -1 if text.startswith("-") else 1
    return sign * int(re.sub(r"[^0-9]", "", text))
def lines():
    if os.path.exists("statement.txt"):
        for line in open("statement.txt"):
            amount = int(line[27:39]) * (-1 if line[26] == "D" else 1)
            day = line[8:16]
            yield f"{day[:4]}-{day[4:6]}-{day[6:]}", line[16:26].strip(), line[39:59].strip(), line[59:].rstrip("\n"), amount
        return
    head = open("statement.csv").readline()
    rows = csv.reader(open("statement.csv"), delimiter=";" if ";" in head else ",")
    next(rows)
    for row in rows:
        if ";" in head:
            yield "-".join(reversed(row[1].split("."))), row[2], row[4], row[5], cents(row[3])
        else:
            yield row[1], row[2], row[3], row[4], cents(row[5])
bank, fees = {}, 0
for value, kind, ref, text, amount in lines():
    if kind == "FEE":
        fees -= amount
    if kind not in ("CARD", "FX", "RVSL"):
        continue
    one = bank.setdefault(ref, {"cents": 0, "value": "", "fx": False, "invoice": 0})
    withheld = re.search(r"fee ([0-9.]+) withheld", text)
    if withheld:
        fees += cents(withheld[1])
        amount += cents(withheld[1])
    one["cents"] += amount
    one["fx"] |= kind == "FX"
    one["invoice"] = int(re.search(r"INV ([0-9]+)", text)[1])
    if kind != "RVSL":
        one["value"] = max(one["value"], value)
ledger = {row["reference"]: row for row in csv.DictReader(open("ledger.csv"))}
print(fees, *list(ledger)[-1:])
from datetime import date
for ref in sorted(set(bank) | set(ledger)):
    row, one = ledger.get(ref), bank.get(ref)
    if row and one and one["cents"] == int(row["amount_cents"]):
        days = (date.fromisoformat(one["value"]) - date.fromisoformat(row["paid_on"])).days
        if 0 <= days <= 5:
            continue
    print(json.dumps({"ref": ref, "row": row, "bank": one}))
"""


@dataclass(slots=True)
class Clerk:
    """What is known and to be done."""

    ticket: int
    last: date
    report: list[tuple[str, str, object, int]] = field(default_factory=list)
    voids: list[dict[str, Any]] = field(default_factory=list)
    corrections: list[dict[str, Any]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)


def solve_statement(first: Observation) -> Step:
    """Reconcile the statement of the ticket that the first observation names."""
    ticket = int(found(r"ticket (\d+)", first.rendered))
    messages = yield from every("list_messages", ticket_id=ticket)
    said = " ".join(message["body"] for message in messages)
    clerk = Clerk(ticket, date.fromisoformat(found(r"from \S+ to (\d{4}-\d\d-\d\d)", said)))
    done = yield from ask("shell", command=f"cd /workspace/tickets/{ticket} && python3 - <<'END'\n{JOIN}\nEND")
    fees, *odd = done["stdout"].splitlines()
    yield from sort_out(clerk, [json.loads(line) for line in odd])
    acts = [*clerk.voids, *clerk.corrections, *clerk.records]
    for act in reversed(acts) if "record first" in said else acts:
        yield from carry_out(clerk, act)
    clerk.report.append(("fees", "", "", int(fees.split()[0])))
    yield from write_report(clerk)
    yield from close(ticket, "reconciled", "The statement is reconciled; the report is where you wanted it.")
    yield Message("The ticket is done.")


def sort_out(clerk: Clerk, odd: Iterable[dict[str, Any]]) -> Step:
    """Decide on each reference that does not fit, by the records as they are now."""
    bank_only = {one["ref"]: one["bank"] for one in odd if one["row"] is None}
    by_invoice = {one["invoice"]: ref for ref, one in bank_only.items()}
    for one in (one for one in odd if one["row"] is not None):
        payment = yield from ask("get_payment", payment_id=int(one["row"]["payment_id"]))
        other = by_invoice.get(payment["invoice_id"])
        if one["bank"] is None and other and is_transposed(one["ref"], other) and bank_only[other]["cents"] == payment["amount_cents"]:
            del bank_only[other]
            correct(clerk, payment, "wrong_reference", gateway_ref=other)
        else:
            compare(clerk, payment, one["bank"])
    for ref, credit in bank_only.items():
        invoice = yield from ask("get_invoice", invoice_id=credit["invoice"])
        if credit["cents"] and all(payment["gateway_ref"] != ref for payment in invoice["payments"]):
            what = {"gateway_ref": ref, "amount_cents": credit["cents"], "paid_on": credit["value"]}
            clerk.records.append({"tool": "record_payment", "invoice_id": credit["invoice"], **what})


def compare(clerk: Clerk, payment: dict[str, Any], bank: dict[str, Any] | None) -> None:
    """A payment as it is now against what the bank credited for it."""
    ref, cents, paid = payment["gateway_ref"], payment["amount_cents"], date.fromisoformat(payment["paid_at"][:10])
    if bank is None and paid > clerk.last - timedelta(days=TRANSIT_DAYS):
        clerk.report.append(("in_transit", ref, payment["payment_id"], cents))
    elif bank is None:
        void(clerk, payment, "duplicate" if ref.endswith("-R") else "not_credited")
    elif bank["cents"] == 0:
        void(clerk, payment, "reversed")
    elif bank["fx"] and 0 < abs(bank["cents"] - cents) <= ROUNDING_CENTS:
        clerk.report.append(("rounding", ref, payment["payment_id"], bank["cents"] - cents))
    elif bank["cents"] != cents:
        correct(clerk, payment, "wrong_amount", amount_cents=bank["cents"])
    elif not 0 <= (date.fromisoformat(bank["value"]) - paid).days <= SETTLES_DAYS:
        correct(clerk, payment, "wrong_date", paid_on=bank["value"])


def is_transposed(one: str, other: str) -> bool:
    """Whether two neighbouring characters stand the other way round."""
    unlike = [at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]
    return len(one) == len(other) and len(unlike) == 2 and unlike[1] == unlike[0] + 1 and sorted(one) == sorted(other)


def void(clerk: Clerk, payment: dict[str, Any], reason: str) -> None:
    clerk.report.append((reason, payment["gateway_ref"], payment["payment_id"], payment["amount_cents"]))
    clerk.voids.append({"tool": "void_payment", "payment_id": payment["payment_id"], "reason": reason})


def correct(clerk: Clerk, payment: dict[str, Any], kind: str, **right: Any) -> None:
    now = {**payment, **right}
    clerk.report.append((kind, now["gateway_ref"], payment["payment_id"], now["amount_cents"]))
    clerk.corrections.append({"tool": "correct_payment", "payment_id": payment["payment_id"], **right})


def carry_out(clerk: Clerk, act: dict[str, Any]) -> Step:
    """Act until it is so, looking at the record before each further try."""
    tool, args = act["tool"], {name: value for name, value in act.items() if name != "tool"}
    if tool != "record_payment":
        yield from surely(lambda: is_so(args), tool, ticket_id=clerk.ticket, **args)
        return
    yield from surely(lambda: recorded(args), tool, ticket_id=clerk.ticket, **args)
    new = yield from recorded(args)
    clerk.report.append(("missing", args["gateway_ref"], new["payment_id"], args["amount_cents"]))


def is_so(args: dict[str, Any]) -> Step:
    """Whether a payment is void, or is as it should be."""
    payment = yield from ask("get_payment", payment_id=args["payment_id"])
    if "reason" in args:
        return payment["void"]
    now = {**payment, "paid_on": payment["paid_at"][:10]}
    return all(now[name] == value for name, value in args.items())


def recorded(args: dict[str, Any]) -> Step:
    """The payment of an invoice that has the reference, or `None`."""
    invoice = yield from ask("get_invoice", invoice_id=args["invoice_id"])
    return next((payment for payment in invoice["payments"] if payment["gateway_ref"] == args["gateway_ref"]), None)


def write_report(clerk: Clerk) -> Step:
    lines = [",".join(str(cell) for cell in line) for line in clerk.report]
    text = "\n".join(["kind,reference,payment_id,amount_cents", *lines, ""])
    yield from ask("write_file", path=f"/workspace/reports/{clerk.ticket}.csv", content=text)
