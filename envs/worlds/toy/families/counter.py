"""The family `at-the-counter`: find out by messages what a member wants, keep the policy, lend one thing.

What is needed is not in the instruction: it has to be asked. In hard tasks the member changes their mind. Meanwhile others bring
things back.
"""

import re
from collections.abc import Generator
from random import Random
from typing import Any

from wardian.envs.action import Action, Message, Observation
from wardian.envs.customer import Customer
from wardian.envs.events import PlannedEvent
from wardian.envs.family import Family, Solution
from wardian.envs.parameters import Between, OneOf, Parameter, always, everywhere
from wardian.envs.reward import RewardSpec
from wardian.envs.splits import Region, Split
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import FinalState, Verdict
from wardian.sandbox.streams import stream
from wardian.tools.contract import Json

from ..customer import member_at_the_counter
from ..seed import KINDS, MEMBERS, OPEN_LOANS, OPENING
from ..verify import COUNTER, check_counter
from .desk import LONGEST_DAYS, Desk, Request
from .reference import lend_to

WITHHELD = {Difficulty.EASY: ("days",), Difficulty.MEDIUM: ("kind", "days"), Difficulty.HARD: ("member", "kind", "days")}
BY_POLICY = "Handle it by the policy. A message that asks them nothing ends your work."


class AtTheCounter(Family):
    name = "at-the-counter"
    reward = RewardSpec(success=1.0, hard_failure=-1.0, step_cost=-0.002)
    ends_on_effects: tuple[str, ...] = ("written_off", "customer_left")
    parameters = (
        everywhere("kind", "What the member wants in the end", OneOf(KINDS)),
        everywhere("days", "For how many days they want it in the end", Between(1, 21)),
        Parameter("asked_for", "How much of the wish has to be asked for", *(always(len(WITHHELD[level])) for level in Difficulty)),
    )
    regions = (Region("long_loans", "More days are wanted than the policy grants", {"days": Between(LONGEST_DAYS + 1, 21)}, Split.EVAL),)
    conditions = COUNTER

    def drawn(self, difficulty: Difficulty, seed: int) -> dict[str, Json]:
        """The wish, as far as the table has it."""
        wish, _ = _granted(self._rng(difficulty, seed))
        return _table(wish, difficulty)

    def _rng(self, difficulty: Difficulty, seed: int) -> Random:
        return stream(seed, f"{self.name}/{difficulty.value}")

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """Draw a wish that the policy grants, what of it must be asked, and what happens meanwhile."""
        rng = self._rng(difficulty, seed)
        wish, lent = _granted(rng)
        facts = {"member": str(wish.member_id), "kind": wish.kind, "days": str(wish.days)}
        change = {"topic": rng.choice(("kind", "days")), "at_turn": rng.randint(1, 2)} if difficulty is Difficulty.HARD else None
        if change:
            topic = change["topic"]
            others = (
                [kind for kind in KINDS if kind != wish.kind] if topic == "kind" else [str(day) for day in range(1, 22) if day != wish.days]
            )
            facts[f"{topic}_at_first"] = rng.choice(others)
        elsewhere = [loan.item_id for loan in OPEN_LOANS if loan.member_id != wish.member_id and loan.item_id // 100 != lent // 100]
        return Task(
            id=TaskId(self.name, difficulty, seed),
            instruction=_instruction(wish, WITHHELD[difficulty]),
            start=OPENING,
            parameters={
                **_table(wish, difficulty),
                "loan": [lent, wish.member_id, min(wish.days, LONGEST_DAYS)],
                "withheld": list(WITHHELD[difficulty]),
                "changes_mind": change,
            },
            facts=facts,
            events=(PlannedEvent("brought_back", 20, 200, {"item_id": rng.choice(elsewhere)}),),
            budgets=Budgets(steps=40),
            split=self.split_at(difficulty, seed),
        )

    def verify(self, state: FinalState) -> Verdict:
        """Compare the loan with what was wanted in the end."""
        return check_counter(state)

    def customer(self, task: Task) -> Customer:
        """The member who stands there."""
        return member_at_the_counter(task)

    def reference(self, first: Observation) -> Solution:
        """Ask for everything, ask whether it is right, and lend."""
        return serve()


def _table(wish: Request, difficulty: Difficulty) -> dict[str, Json]:
    return {"kind": wish.kind, "days": wish.days, "asked_for": len(WITHHELD[difficulty])}


def _granted(rng: Random) -> tuple[Request, int]:
    """A wish, and the item that it comes to."""
    while True:
        wish = Request(rng.randint(1, len(MEMBERS)), rng.choice(KINDS), rng.randint(1, 21))
        verb, item = Desk().handle(wish).split()
        if verb == "lent":
            return wish, int(item)


def _instruction(wish: Request, withheld: tuple[str, ...]) -> str:
    who = "A member" if "member" in withheld else f"Member {wish.member_id}"
    what = "something" if "kind" in withheld else f"a {wish.kind}"
    return f"{who} stands at the counter and wants to borrow {what}. Ask them for what you need to know. {BY_POLICY}"


Step = Generator[Action, Observation, Any]


def serve() -> Step:
    """The reference solution. What a member says last counts."""
    said = yield from _ask("Hello! What is your member number, what would you like to borrow, and for how many days?")
    said += yield from _ask("Is that right?")
    member = int(re.findall(r"member\D*(\d+)", said)[-1])
    kind = re.findall("|".join(KINDS), said)[-1]
    days = int(re.findall(r"(\d+) days", said)[-1])
    yield from lend_to(member, kind, days)
    yield Message("Here you are.")


def _ask(question: str) -> Step:
    """Say it, and give what the member answers."""
    seen = yield Message(question)
    return "".join(f"{word['text']}\n" for word in seen.incoming if word["from"] == "customer")
