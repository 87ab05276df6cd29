"""Checks of model routing: what stands in the table of answers, and that the event log says the same."""

from sqlalchemy import select

from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.envs.worlds.routing.schema import Answer


def check_answered(state: FinalState) -> Verdict:
    """Whether one of the answers was accepted. A query that was handed to a person has none."""
    assert state.database is not None, "model routing has a database"
    with state.database.session() as session:
        found = [(answer.model, answer.accepted) for answer in session.scalars(select(Answer).order_by(Answer.id))]
    logged = answers_of(state)
    right = found == logged and any(accepted for _, accepted in found)
    return Verdict((Check("answered", right, f"answers {found}, by the log {logged}"),))


def answers_of(state: FinalState) -> list[tuple[str, bool]]:
    """The answers by the trusted event log: model, and whether it was accepted."""
    done = [event for event in state.events if event.committed and event.tool == "ask_model"]
    kinds = [[str(effect["kind"]) for effect in event.effects] for event in done]
    return [(kind.removesuffix("_call"), "accepted" in (kind, *more)) for kind, *more in (one for one in kinds if one)]
