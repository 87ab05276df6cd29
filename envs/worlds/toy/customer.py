"""The member at the counter: what they may be asked, and how they put it."""

from wardian.envs.customer import Correction, Customer, Patience, Topic
from wardian.envs.task import Task

TOPICS = (
    Topic(
        "member",
        ("member* number|id|card|who|which", "who are|is|am you|this|i", "your name|number|card"),
        ("My member number is {value}.", "I am member {value}."),
    ),
    Topic(
        "kind",
        (
            "what|which borrow*|lend*|want*|need*|like|looking|take|get",
            "what|which|name kind*|item*|thing*|tool*",
            "borrow* something|anything",
        ),
        ("I would like a {value}.", "It is a {value} that I need."),
    ),
    Topic(
        "days",
        ("how long", "how|number|many days|weeks", "when bring|return*|back", "until when", "long borrow*|lend*|loan|keep|need*"),
        ("I need it for {value} days.", "For {value} days, please."),
    ),
)


def member_at_the_counter(task: Task) -> Customer:
    """The member of `task`. When they change their mind, `changes_mind` names about what and at which turn of theirs."""
    change = task.parameters["changes_mind"]
    return Customer(
        facts=task.facts,
        topics=TOPICS,
        correction=Correction(change["topic"], f"{change['topic']}_at_first", change["at_turn"]) if change else None,
        patience=Patience(first_s=900, every_s=600, reminders=2),
    )
