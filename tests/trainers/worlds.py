"""A world for tests of servers and adapters, `worlds:faulty`: no cell, a call that is refused, a slow one, and one that breaks us."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Literal

import anyio
from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from wardian.envs.action import Message, Observation, call
from wardian.envs.definition import WorldDefinition
from wardian.envs.family import Family, Solution
from wardian.envs.parameters import Between, OneOf, Parameter, always, draw, everywhere
from wardian.envs.reward import RewardSpec
from wardian.envs.splits import Region, Split
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.types import Id, Text
from wardian.sandbox.errors import EngineUnavailable
from wardian.sandbox.streams import stream
from wardian.tools.contract import Arguments, Json, Refusal, Status, Tool, ToolContext

OPENING = datetime(2026, 1, 5, 9, tzinfo=UTC)
STEPS = 6
"""The budget of a task: the sixth call or message ends the episode, truncated unless it ended by itself."""
WORDS = ("amber", "birch", "coral", "delta", "ember", "flint", "grove", "heron")
HELDOUT_WORD, EVAL_WORD = "heron", "grove"


class Base(DeclarativeBase):
    pass


class Echo(Base):
    __tablename__ = "echoes"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    text: Mapped[str] = mapped_column(Text)


class Style(Arguments):
    upper: bool = False


class EchoArguments(Arguments):
    text: Annotated[str, Field(min_length=1, max_length=2000)]
    times: Annotated[int, Field(ge=1, le=3, description="How often the text is given back.")] = 1
    style: Style | None = None


class FailArguments(Arguments):
    status: Literal["not_found", "conflict", "unavailable"] = "conflict"


class SlowArguments(Arguments):
    seconds: Annotated[float, Field(ge=0, le=600)]


class NoArguments(Arguments):
    """Nothing to say."""


async def echo(context: ToolContext, args: EchoArguments) -> Json:
    context.db.add(Echo(id=context.new_id("echoes"), text=args.text))
    context.note("echoed", text=args.text)
    text = args.text.upper() if args.style and args.style.upper else args.text
    return {"texts": [text] * args.times}


async def fail(context: ToolContext, args: FailArguments) -> Json:
    raise Refusal(Status(args.status), f"refused on request: {args.status}")


async def slow(context: ToolContext, args: SlowArguments) -> Json:
    await anyio.sleep(args.seconds)
    return {"slept_s": args.seconds}


async def breaks_us(context: ToolContext, args: NoArguments) -> Json:
    raise EngineUnavailable("exec", "broken on request")


TOOLS = (
    Tool(
        "echo",
        "Store a text, and give it back.",
        EchoArguments,
        echo,
        mutates=True,
        errors=(),
        idempotent=False,
    ),
    Tool(
        "fail",
        "Is always refused.",
        FailArguments,
        fail,
        errors=(Status.NOT_FOUND, Status.CONFLICT, Status.UNAVAILABLE),
    ),
    Tool("slow", "Answer after so many seconds of real time.", SlowArguments, slow, errors=()),
    Tool("breaks_us", "Fail as the engine fails.", NoArguments, breaks_us, errors=()),
)


class Echoes(Family):
    """Echo a word, and say that it is done."""

    name = "echoes"
    reward = RewardSpec(success=1.0, step_cost=-0.01)
    secret_parameters = ("truth",)
    parameters = (
        everywhere("word", "What is to be echoed", OneOf(WORDS)),
        Parameter("times", "How often", *(always(number) for number in (1, 2, 3))),
        everywhere("truth", "What only the verifier knows", Between(10**9, 10**10)),
    )
    regions = (
        Region("heron", "The word is heron", {"word": always(HELDOUT_WORD)}, Split.HELDOUT),
        Region("grove", "The word is grove", {"word": always(EVAL_WORD)}, Split.EVAL),
    )

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        drawn = draw(self.parameters, difficulty, stream(seed, f"{self.name}/{difficulty.value}/parameters"))
        return Task(
            id=TaskId(self.name, difficulty, seed),
            instruction=f"Echo the word {drawn['word']}, {drawn['times']} times with a call each. Then say that you are done.",
            start=OPENING,
            parameters=drawn,
            budgets=Budgets(steps=STEPS, invalid_streak=STEPS),
            split=self.split_at(difficulty, seed),
        )

    def verify(self, state: FinalState) -> Verdict:
        assert state.database is not None
        with state.database.session() as session:
            found = list(session.scalars(select(Echo.text).order_by(Echo.id)))
        wanted = [state.task.parameters["word"]] * state.task.parameters["times"]
        return Verdict((Check("echoed", found == wanted, f"wanted {wanted}, found {found}"),))

    def reference(self, first: Observation) -> Solution:
        said = first.results[0]["result"]["instruction"].split()
        word, times = said[3].strip(","), int(said[4])
        for _ in range(times):
            yield call("echo", text=word)
        yield Message("Done.")


def faulty() -> WorldDefinition:
    return WorldDefinition(
        name="faulty",
        version="1",
        title="A world whose tools fail",
        policy="Do what you are asked, and nothing else.",
        template=TemplateSource("faulty", Base.metadata, _no_rows),
        tools=TOOLS,
        families=(Echoes(),),
        needs_cell=False,
    )


def _no_rows(session: Session, seed: int) -> None:
    """It starts empty."""


async def stubborn(context: ToolContext, args: SlowArguments) -> Json:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(args.seconds)
    return {"slept_s": args.seconds}


async def blocking(context: ToolContext, args: SlowArguments) -> Json:
    time.sleep(args.seconds)  # noqa: ASYNC251 - what a tool must not do
    return {"slept_s": args.seconds}


def blocking_world() -> WorldDefinition:
    """`worlds:blocking_world`: with one more tool, which blocks its thread, and with it the event loop."""
    tool = Tool("blocking", "Answer after so many seconds, and let nobody else do anything.", SlowArguments, blocking, errors=())
    return replace(faulty(), name="blocking", tools=(*TOOLS, tool))


def stubborn_world() -> WorldDefinition:
    """`worlds:stubborn_world`: with one more tool, which goes on when it is cancelled."""
    tool = Tool("stubborn", "Answer after so many seconds, whatever happens.", SlowArguments, stubborn, errors=())
    return replace(faulty(), name="stubborn", tools=(*TOOLS, tool))
