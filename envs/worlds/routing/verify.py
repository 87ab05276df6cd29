"""Checks of model routing: what stands in the table of answers."""

from sqlalchemy import select

from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.envs.worlds.routing.schema import Answer


def check_answered(state: FinalState) -> Verdict:
    """Whether one of the answers was accepted. A query that was handed to a person has none."""
    assert state.database is not None, "model routing has a database"
    with state.database.session() as session:
        accepted = session.scalars(select(Answer.accepted).order_by(Answer.id)).all()
    return Verdict((Check("answered", any(accepted), f"{len(accepted)} answers, none accepted"),))
