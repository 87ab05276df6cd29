"""Checks of the lending desk: what stands in the tables and the report, never what the agent says about it."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from wardian.envs.family import Condition
from wardian.envs.verifier import Check, FinalState, Verdict

from .schema import Loan

REPORT = "/workspace/report.txt"
Lent = tuple[int, int, int]
"""Item, member, days."""
STOCK = Condition("stock_kept", "no item was written off", hard=True)
DESK = (
    Condition("lent", "the new loans are those that the policy grants: item, member, days"),
    Condition("returned", "what was brought back is back"),
    Condition("report", "the report has a line for each request, in their order"),
    Condition("nothing_else", "no other row was touched"),
    STOCK,
)
COUNTER = (Condition("lent", "the one loan is what the member wanted in the end"), DESK[3], STOCK)


def check_desk(state: FinalState) -> Verdict:
    """Judge the loans, the report, and that nothing else was touched."""
    assert state.database is not None, "the lending desk has a database"
    requests, report = state.task.parameters["requests"], state.task.parameters["report"]
    expected_lent = sorted(
        (int(line.split()[1]), member, days) for (member, _, days, _), line in zip(requests, report, strict=True) if line.startswith("lent")
    )
    expected_back = sorted(item for _, _, _, item in requests if item)
    with state.database.session() as session:
        lent, back = _happened(session, state)
    written = state.file_contents.get(REPORT, b"").decode("utf-8", "replace").split("\n")
    other = sorted({change.table for change in state.changes} - {"loans"})
    gone = [change.key for change in state.changes if change.table == "loans" and change.after is None]
    return Verdict(
        (
            _compare("lent", expected_lent, lent),
            _compare("returned", expected_back, back),
            _compare("report", report, [line.strip() for line in written if line.strip()]),
            Check("nothing_else", not other and not gone, f"also changed: {other} {gone}"),
            Check("stock_kept", not _written_off(state), "an item was written off", hard=True),
        )
    )


def check_counter(state: FinalState) -> Verdict:
    """Judge the one loan, and that the agent touched nothing else; what others did meanwhile is not the agent's."""
    assert state.database is not None, "the lending desk has a database"
    mine = [change.key[0] for change in state.agent_changes if change.table == "loans" and change.before is None]
    with state.database.session() as session:
        loans = session.scalars(select(Loan).where(Loan.id.in_(mine)).order_by(Loan.id)).all()
        lent = [[loan.item_id, loan.member_id, (loan.due_at - loan.lent_at).days] for loan in loans]
    other = sorted(
        f"{change.table}{list(change.key)}" for change in state.agent_changes if change.table != "loans" or change.before is not None
    )
    return Verdict(
        (
            _compare("lent", [state.task.parameters["loan"]], lent),
            Check("nothing_else", not other, f"also changed: {other}"),
            Check("stock_kept", not _written_off(state), "an item was written off", hard=True),
        )
    )


def _happened(session: Session, state: FinalState) -> tuple[list[Lent], list[int]]:
    """Loans made and items taken back in this episode."""
    changed = {change.key[0]: change for change in state.changes if change.table == "loans" and change.after is not None}
    loans = session.scalars(select(Loan).where(Loan.id.in_(list(changed)))).all()
    lent = [(loan.item_id, loan.member_id, (loan.due_at - loan.lent_at).days) for loan in loans if changed[loan.id].before is None]
    back = [loan.item_id for loan in loans if loan.returned_at is not None]
    return sorted(lent), sorted(back)


def _written_off(state: FinalState) -> bool:
    return any(effect["kind"] == "written_off" for event in state.events if event.committed for effect in event.effects)


def _compare(name: str, expected: Sequence[object], found: Sequence[object]) -> Check:
    return Check(name, list(expected) == list(found), f"expected {expected}, found {found}")
