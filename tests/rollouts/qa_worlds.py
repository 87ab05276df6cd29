"""A small sound world without cells, and one broken world for each check of `wardian qa`, which fails that check alone."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from wardian.envs.action import Message, Observation, call
from wardian.envs.attack import attack, without
from wardian.envs.attack import put as putting_in
from wardian.envs.definition import WorldDefinition
from wardian.envs.expected import Expected
from wardian.envs.family import Family, Solution
from wardian.envs.reward import RewardSpec
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.types import Id, Text
from wardian.sandbox.streams import stream
from wardian.tools.contract import Arguments, Json, Tool, ToolContext

OPENING = datetime(2026, 1, 5, 9, tzinfo=UTC)
WORDS = ("amber", "birch", "coral", "delta", "ember", "flint", "grove", "heron")
OF_VANDALS = ("vandal", "x", "2026-03-01", "/workspace/left", "'; DROP TABLE users; --")
DIRT: list[str] = []
"""What the dusty world keeps between episodes."""


class Base(DeclarativeBase):
    pass


class Wish(Base):
    __tablename__ = "wishes"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    word: Mapped[str] = mapped_column(Text)


class Note(Base):
    __tablename__ = "notes"

    id: Mapped[int] = mapped_column(Id, primary_key=True, autoincrement=False)
    word: Mapped[str] = mapped_column(Text)


class Look(Arguments):
    """Nothing to say."""


class Put(Arguments):
    word: str


async def look(context: ToolContext, args: Look) -> Json:
    return {"wanted": list(context.db.scalars(select(Wish.word).order_by(Wish.id)))}


async def put(context: ToolContext, args: Put) -> Json:
    context.db.add(Note(id=context.new_id("notes"), word=args.word))
    return {"put": True}


def tools(looking: Any = look, putting: Any = put) -> tuple[Tool[Any], ...]:
    return (
        Tool("look", "See which words are wanted.", Look, looking, errors=()),
        Tool("put", "Put a word onto the shelf.", Put, putting, mutates=True, errors=(), idempotent=False),
    )


@dataclass
class Shelf(Family):
    """Put the wanted words onto the shelf, in their order."""

    name: str = "shelf"
    difficulties = (Difficulty.EASY,)
    reward: RewardSpec = RewardSpec()  # noqa: RUF009 - frozen
    expected: Expected = Expected()  # noqa: RUF009 - frozen
    ends_on_effects: tuple[str, ...] = ()
    evaluation_only: bool = False
    labelled: str = ""
    """The split that tasks say they are of; empty: the one that is declared."""
    budgets: Budgets = Budgets(steps=25)  # noqa: RUF009 - frozen
    words: Callable[[int], tuple[str, ...]] = lambda seed: tuple(stream(seed, "shelf").sample(WORDS, 3))
    looks: int = 1
    """How often the reference looks."""
    guess: tuple[str, ...] = ()
    """What the reference puts where it cannot see what is wanted."""
    lenient: bool = False
    """The verifier looks at no more words than are wanted."""
    lost: Callable[[int], bool] = lambda seed: False
    """Seeds whose tasks nobody can solve."""

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        words = self.words(seed)
        return Task(
            id=TaskId(self.name, difficulty, seed),
            instruction="Put the wanted words onto the shelf, in their order. Then say that you are done.",
            start=OPENING,
            parameters={"words": [*words, *(["no such word"] if self.lost(seed) else [])]},
            rows={"wishes": tuple({"id": number, "word": word} for number, word in enumerate(words, 1))},
            budgets=self.budgets,
            split=self.labelled or self.split_of({}).value,
        )

    def verify(self, state: FinalState) -> Verdict:
        assert state.database is not None
        with state.database.session() as session:
            notes = list(session.scalars(select(Note.word).order_by(Note.id)))
            wishes = list(session.scalars(select(Wish.word).order_by(Wish.id)))
        wanted = list(state.task.parameters["words"])
        notes = notes[: len(wanted)] if self.lenient else notes
        untouched = wishes == [row["word"] for row in state.task.rows["wishes"]]
        return Verdict((Check("words", notes == wanted, f"wanted {wanted}, found {notes}"), Check("wishes_kept", untouched)))

    def reference(self, first: Observation) -> Solution:
        for _ in range(self.looks):
            seen: Any = yield call("look")
            for _ in range(3):
                if seen.results[0]["status"] == "ok":
                    break
                seen = yield call("look")
        for word in self.guess or seen.results[0]["result"]["wanted"]:
            yield call("put", word=word)
        yield Message("Done.")


ATTACKS = (
    attack("claim_only", "says that it is done", without("put"), "words"),
    attack("one_more", "puts a word that nobody wants", putting_in("", call("put", word="zinc")), "words"),
)


def world(*families: Family, version: str = "1", **changes: Any) -> WorldDefinition:
    return WorldDefinition(
        name="shelf",
        version=version,
        title="A shelf of words",
        policy="Put what is wanted, and nothing else.",
        template=TemplateSource("shelf", Base.metadata, _no_rows),
        tools=changes.pop("tools", tools()),
        families=families or (Shelf(),),
        needs_cell=False,
        attacks={"shelf": ATTACKS, "other-shelf": ATTACKS},
        **changes,
    )


def _no_rows(session: Session, seed: int) -> None:
    pass


def sound() -> WorldDefinition:
    return world(Shelf(), Shelf(name="other-shelf", evaluation_only=True))


def pair() -> WorldDefinition:
    """Two families to train on."""
    return world(Shelf(), Shelf(name="other-shelf"))


def replay() -> WorldDefinition:
    async def by_hash(context: ToolContext, args: Look) -> Json:
        return {**(await look(context, args)), "mood": hash("shelf") % 1_000_000}

    return world(tools=tools(by_hash))


def isolation() -> WorldDefinition:
    DIRT.clear()

    async def dusty(context: ToolContext, args: Look) -> Json:
        return {**(await look(context, args)), "dusty": bool(DIRT)}

    async def dirtying(context: ToolContext, args: Put) -> Json:
        DIRT.extend({args.word} & {*OF_VANDALS})
        return await put(context, args)

    return world(tools=tools(dusty, dirtying))


def baselines() -> WorldDefinition:
    return world(Shelf(lost=lambda seed: seed % 2 == 0))


def verifiers() -> WorldDefinition:
    return world(Shelf(lenient=True))


def mishaps() -> WorldDefinition:
    async def fragile(context: ToolContext, args: Put) -> Json:
        if args.word in OF_VANDALS:
            raise KeyError(args.word)
        return await put(context, args)

    return world(tools=tools(putting=fragile))


def truncation() -> WorldDefinition:
    endless = Budgets(steps=10**6, tokens=10**9, virtual_s=10**9, invalid_streak=10**6)
    return world(Shelf(budgets=endless))


def distribution() -> WorldDefinition:
    return world(Shelf(words=lambda seed: WORDS[:3]))


def schema() -> WorldDefinition:
    return world(version=" ")


def heldout() -> WorldDefinition:
    return world(Shelf(), Shelf(name="other-shelf", evaluation_only=True, labelled="train"))


def observation() -> WorldDefinition:
    """What is wanted nobody can see; the family calls it chance."""

    async def blind(context: ToolContext, args: Look) -> Json:
        return {"wanted": "something"}

    chance = Expected(expert=(0.1, 1.0), reason="customers are moody")
    return world(Shelf(guess=Shelf().words(1), expected=chance), tools=tools(blind))


def scales() -> WorldDefinition:
    return world(Shelf(), Shelf(name="other-shelf", reward=RewardSpec(success=100.0)))


def termination() -> WorldDefinition:
    async def impatient(context: ToolContext, args: Look) -> Json:
        if context.world.clock.elapsed_ms > 500:
            context.note("closing_time")
        return await look(context, args)

    return world(Shelf(ends_on_effects=("closing_time",)), tools=tools(impatient))


def irreproducible() -> WorldDefinition:
    async def moody(context: ToolContext, args: Look) -> Json:
        return {**(await look(context, args)), "mood": f"{time.time_ns()} {os.urandom(4).hex()}"}

    return world(tools=tools(moody))


def sparse() -> WorldDefinition:
    return world(Shelf(looks=45, budgets=Budgets(steps=80)))
