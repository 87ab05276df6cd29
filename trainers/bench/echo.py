"""A world that does nothing but answer: what is left of a step is the protocol, the environment and the log."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from wardian.envs.action import Message, Observation
from wardian.envs.definition import WorldDefinition
from wardian.envs.family import Family, Solution
from wardian.envs.reward import RewardSpec
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.types import Id
from wardian.tools.contract import Arguments, Json, Tool, ToolContext

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
ENDLESS = Budgets(steps=10**9, tokens=10**12, virtual_s=10**8, invalid_streak=10**9)


class Base(DeclarativeBase):
    pass


class Line(Base):
    __tablename__ = "lines"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)


class Said(Arguments):
    text: Annotated[str, Field(max_length=10_000)]


async def echo(context: ToolContext, args: Said) -> Json:
    """Give a text back."""
    return {"text": args.text}


class Talk(Family):
    """An episode without an end of its own."""

    name = "talk"
    reward = RewardSpec(success=1.0)

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """The same task for every seed."""
        return Task(TaskId(self.name, difficulty, seed), "Say something.", START, parameters={}, budgets=ENDLESS)

    def verify(self, state: FinalState) -> Verdict:
        """Whoever stops has done it."""
        return Verdict((Check("stopped", True, ""),))

    def reference(self, first: Observation) -> Solution:
        """Stop at once."""
        yield Message("Done.")


def world() -> WorldDefinition:
    """As `wardian.trainers.bench.echo:world`."""
    return WorldDefinition(
        name="echo",
        version="1",
        title="A world that answers",
        policy="Say something.",
        template=TemplateSource("echo", Base.metadata, _no_rows),
        tools=(Tool("echo", "Give a text back.", Said, echo, errors=()),),
        families=(Talk(),),
        needs_cell=False,
    )


def _no_rows(session: Session, seed: int) -> None:
    """It starts empty."""
