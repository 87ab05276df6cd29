"""What the checks of the support desk's verdicts ask for, in words. A test holds them against the verdicts."""

from wardian.envs.family import Condition

REPLY = Condition("reply", "exactly one reply, not blank, on this ticket")
AUDIT = Condition("audit", "the audit log has one line for each act")
TICKET = (
    Condition("refund", "the new refunds are exactly the one that is due: payment, amount, reason"),
    Condition("not_overpaid", "no more was refunded than is due", hard=True),
    Condition(
        "ticket",
        "resolved with the right code; or, where the manual says so, the permission went away at the refund, or the window had lapsed "
        "before the decision, escalated to the right queue with a note that names the facts and holds at most 24 numbers",
    ),
    REPLY,
    Condition("nothing_else", "no other row was touched: no credit, dispute, plan change, escalation that is not due", hard=True),
    AUDIT,
    Condition("evidence_kept", "nothing below `/workspace/tickets` differs from the start", hard=True),
    Condition(
        "order",
        "the evidence that decides was looked at before the decision; refund and reply stand in the order that the customer wants (refund "
        "first, unless told otherwise); the reply came before closing",
    ),
)
STATEMENT = (
    Condition("payments", "each row of the table is as the acts that are due make it, field by field"),
    Condition("acts", "each act was done once, by the tool that is for it and with the right reason"),
    Condition(
        "report",
        "the report has exactly the lines that are due; order of lines and columns, blanks and line ends do not matter; a link is no "
        "report",
    ),
    Condition("ticket", "resolved as `reconciled`"),
    REPLY,
    Condition("nothing_else", "no other row was touched, no other payment among them", hard=True),
    AUDIT,
    Condition("evidence_kept", "nothing below `/workspace/tickets` and no former report differs from the start", hard=True),
    Condition(
        "order",
        "both sides were looked at before the first act, each record before its act; voids and records stand in the order that finance "
        "asked for; the reply came when all was done, and before closing",
    ),
)
