"""The truth of a reconciliation is what its files and rows say, read by the manual with arithmetic of its own."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, NamedTuple, TypeAlias

import pytest

from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty, Task
from wardian.envs.worlds.billing.differences import COUNTS, ITEMS
from wardian.envs.worlds.billing.seed import company_payments

FAMILY = load_world("billing").family("statement-reconciliation")
SEEDS = range(12)
every_difficulty = pytest.mark.parametrize("difficulty", Difficulty)


Told: TypeAlias = tuple[str, str, int | None, int]
"""A line of a report."""


class Line(NamedTuple):
    value: date
    kind: str
    ref: str
    text: str
    cents: int


class Row(NamedTuple):
    number: int
    invoice: int
    cents: int
    day: date


def text(task: Task, name: str) -> str:
    found = [entry.data for path, entry in task.files.entries.items() if path.startswith("/workspace/tickets/") and name in path]
    assert len(found) == 1
    return found[0].decode()


def statement(task: Task) -> Iterator[Line]:
    """Lines of any of the three layouts, read as `format.txt` says."""
    page, body = text(task, "format.txt"), text(task, "statement.").splitlines()
    if "by position" in page:
        for line in body:
            day = date(int(line[8:12]), int(line[12:14]), int(line[14:16]))
            cents = int(line[27:39]) * {"C": 1, "D": -1}[line[26]]
            yield Line(day, line[16:26].rstrip(), line[39:59].rstrip(), line[59:], cents)
    elif "semicolons" in page:
        for line in body[1:]:
            _, value, kind, amount, ref, what = line.split(";")
            yield Line(
                date.fromisoformat("-".join(reversed(value.split(".")))), kind, ref, what, round(float(amount.replace(",", ".")) * 100)
            )
    else:
        for line in body[1:]:
            _, value, kind, ref, what, amount = line.split(",")
            yield Line(date.fromisoformat(value), kind, ref, what, round(float(amount) * 100))


def ledger(task: Task) -> dict[str, Row]:
    """The payments table at the start, by reference."""
    rows = {one.ref: Row(one.id, one.invoice_id, one.cents, one.paid_at.date()) for one in company_payments()}
    for row in task.rows["payments"]:
        found: dict[str, Any] = dict(row)
        rows[found["gateway_ref"]] = Row(found["id"], found["invoice_id"], found["amount_cents"], found["paid_at"].date())
    return rows


def withheld(line: Line) -> int:
    found = re.search(r"fee (\d+)\.(\d\d) withheld", line.text)
    return int(found[1]) * 100 + int(found[2]) if found else 0


def swapped(one: str, other: str) -> bool:
    return any(one[:at] + one[at + 1] + one[at] + one[at + 2 :] == other for at in range(len(one) - 1))


def differences(task: Task) -> Counter[Told]:
    """Every line of the report."""
    rows, lines = ledger(task), list(statement(task))
    first, last = (date.fromisoformat(task.parameters[name]) for name in ("first_day", "last_day"))
    moves = {line.ref: [one for one in lines if one.ref == line.ref and one.kind in ("CARD", "FX", "RVSL")] for line in lines}
    credited = {ref: found for ref, found in moves.items() if found}
    fees = sum(withheld(line) for line in lines) - sum(line.cents for line in lines if line.kind == "FEE")
    report: list[Told] = [("fees", "", None, fees)]
    taken: set[str] = set()
    for ref, row in rows.items():
        if ref not in credited and first <= row.day <= last:
            others = [other for other in credited if other not in rows and swapped(ref, other)]
            if others:
                assert len(others) == 1
                assert sum(line.cents for line in credited[others[0]]) == row.cents
                taken.add(others[0])
                report.append(("wrong_reference", others[0], row.number, row.cents))
            elif ref.endswith("-R"):
                report.append(("duplicate", ref, row.number, row.cents))
            else:
                kind = "in_transit" if row.day > last - timedelta(days=3) else "not_credited"
                report.append((kind, ref, row.number, row.cents))
    for ref, found in credited.items():
        if ref in rows:
            report += judged(ref, rows[ref], found)
        elif ref not in taken:
            report.append(("missing", ref, None, sum(line.cents for line in found)))
    return Counter(report)


def judged(ref: str, row: Row, found: list[Line]) -> list[Told]:
    """A row against its movements."""
    gross = sum(line.cents + withheld(line) for line in found)
    value = max(line.value for line in found if line.kind != "RVSL")
    assert int(re.findall(r"INV (\d+)", found[0].text)[0]) == row.invoice
    if gross == 0:
        return [("reversed", ref, row.number, row.cents)]
    if found[0].kind == "FX":
        assert 0 < abs(gross - row.cents) <= 2
        return [("rounding", ref, row.number, gross - row.cents)]
    if gross != row.cents:
        return [("wrong_amount", ref, row.number, gross)]
    return [] if 0 <= (value - row.day).days <= 5 else [("wrong_date", ref, row.number, row.cents)]


@every_difficulty
def test_the_report_is_what_files_and_rows_say(difficulty: Difficulty) -> None:
    for task in (FAMILY.generate(difficulty, seed) for seed in SEEDS):
        told = [(one["kind"], one["reference"], one["payment_id"], one["amount_cents"]) for one in task.parameters["report"]]
        assert Counter(told) == differences(task), task.id


@every_difficulty
def test_each_difference_has_its_act(difficulty: Difficulty) -> None:
    tools = {"missing": "record_payment", "wrong_amount": "correct_payment", "wrong_reference": "correct_payment"}
    tools |= {"wrong_date": "correct_payment", "duplicate": "void_payment", "reversed": "void_payment", "not_credited": "void_payment"}
    for task in (FAMILY.generate(difficulty, seed) for seed in SEEDS):
        due = Counter(tools[line["kind"]] for line in task.parameters["report"] if line["kind"] in tools)
        assert Counter(act["act"] for act in task.parameters["acts"]) == due
        for act in task.parameters["acts"]:
            assert ("reason" in act) == (act["act"] == "void_payment")


@every_difficulty
def test_there_are_as_many_of_each_as_was_drawn(difficulty: Difficulty) -> None:
    for task in (FAMILY.generate(difficulty, seed) for seed in SEEDS):
        told = Counter(line["kind"] for line in task.parameters["report"])
        reported = [one.name for one in COUNTS if one.name in {line["kind"] for line in task.parameters["report"]} or told[one.name]]
        assert {name: told[name] for name in reported} == {name: task.parameters[name] for name in reported}


def test_every_item_has_a_count() -> None:
    assert [one.name for one in COUNTS] == list(ITEMS)


def test_a_statement_is_too_long_to_be_read_by_eye() -> None:
    lengths = [sorted(len(list(statement(FAMILY.generate(level, seed)))) for seed in range(8)) for level in Difficulty]
    assert lengths[0][0] > 200
    assert lengths[1][0] > 500
    assert lengths[2][-1] > 2000


@every_difficulty
def test_bank_days_are_within_the_statement(difficulty: Difficulty) -> None:
    for task in (FAMILY.generate(difficulty, seed) for seed in SEEDS):
        first, last = (date.fromisoformat(task.parameters[name]) for name in ("first_day", "last_day"))
        assert all(first <= line.value <= last for line in statement(task))


def test_the_export_covers_the_days_of_the_statement_and_lags() -> None:
    behind = 0
    for task in (FAMILY.generate(Difficulty.HARD, seed) for seed in SEEDS):
        rows = {one.number: (ref, one) for ref, one in ledger(task).items()}
        for number, invoice, ref, cents, day in (line.split(",") for line in text(task, "ledger.csv").splitlines()[1:]):
            now_ref, now = rows[int(number)]
            assert (now_ref, now.invoice, str(now.day)) == (ref, int(invoice), day)
            assert task.parameters["first_day"] <= day <= task.parameters["last_day"]
            behind += now.cents != int(cents)
    assert behind == sum(FAMILY.generate(Difficulty.HARD, seed).parameters["corrected_since"] for seed in SEEDS)
