"""The family `lending-desk`: work through a file of requests, keep the policy, write a report."""

from random import Random

from wardian.envs.action import Observation
from wardian.envs.family import Family, Solution
from wardian.envs.parameters import OneOf, Parameter, always, everywhere
from wardian.envs.reward import RewardSpec
from wardian.envs.splits import Region, Split
from wardian.envs.task import Budgets, Difficulty, Task, TaskId
from wardian.envs.verifier import FinalState, Verdict
from wardian.sandbox.files import FileEntry, FileLayer
from wardian.sandbox.streams import stream
from wardian.tools.contract import Json

from ..seed import KINDS, MEMBERS, OPENING, SUSPENDED
from ..verify import DESK, REPORT, check_desk
from .desk import LONGEST_DAYS, Desk, Request
from .reference import solve

REQUESTS = "/workspace/requests.txt"
COUNTS = {Difficulty.EASY: 2, Difficulty.MEDIUM: 4, Difficulty.HARD: 7}
NEWCOMERS = ("Mara", "Nils", "Olga", "Pia", "Rui")
FIRST_NEWCOMER = len(MEMBERS) + 1
INSTRUCTION = f"""\
The requests of the day stand in {REQUESTS}. Work through them by the policy.
Then write {REPORT} as {REQUESTS.rsplit("/", 1)[0]}/NOTES.txt says, and send a message when you are done."""


class LendingDesk(Family):
    name = "lending-desk"
    evidence_files = (REPORT,)
    secret_parameters = ("report",)
    reward = RewardSpec(success=1.0, partial=0.2, hard_failure=-1.0, step_cost=-0.002, checks={"report": 0.1})
    ends_on_effects = ("written_off",)
    parameters = (
        everywhere("newcomer", "Who is new among the members", OneOf(NEWCOMERS)),
        Parameter("requests_count", "How many requests the file has", *(always(COUNTS[level]) for level in Difficulty)),
    )
    regions = (Region("rui", "The newcomer is Rui", {"newcomer": always("Rui")}, Split.HELDOUT),)
    conditions = DESK

    def drawn(self, difficulty: Difficulty, seed: int) -> dict[str, Json]:
        """The newcomer and the length of the file."""
        return {"newcomer": self._rng(difficulty, seed).choice(NEWCOMERS), "requests_count": COUNTS[difficulty]}

    def _rng(self, difficulty: Difficulty, seed: int) -> Random:
        return stream(seed, f"{self.name}/{difficulty.value}")

    def generate(self, difficulty: Difficulty, seed: int) -> Task:
        """Draw requests one after another, each against the desk as the earlier ones leave it."""
        rng = self._rng(difficulty, seed)
        newcomer = rng.choice(NEWCOMERS)
        desk = Desk()
        requests: list[Request] = []
        report: list[str] = []
        for number in range(COUNTS[difficulty]):
            request = _draw(rng, difficulty, number, desk)
            requests.append(request)
            report.append(desk.handle(request))
        return Task(
            id=TaskId(self.name, difficulty, seed),
            instruction=INSTRUCTION,
            start=OPENING,
            parameters={
                "newcomer": newcomer,
                "requests_count": len(requests),
                "requests": [[r.member_id, r.kind, min(r.days, LONGEST_DAYS), r.item_id] for r in requests],
                "report": report,
            },
            rows={"members": ({"id": FIRST_NEWCOMER, "name": newcomer, "suspended": False},)},
            files=FileLayer({REQUESTS: FileEntry("".join(f"{request.line()}\n" for request in requests).encode())}),
            budgets=Budgets(steps=90),
            revocable_scopes=("workshop",),
            split=self.split_at(difficulty, seed),
        )

    def verify(self, state: FinalState) -> Verdict:
        """Compare loans and report with what the policy says."""
        return check_desk(state)

    def reference(self, first: Observation) -> Solution:
        """Read, decide by the policy, and look again after whatever was unclear."""
        return solve(REQUESTS, REPORT)


def _draw(rng: Random, difficulty: Difficulty, number: int, desk: Desk) -> Request:
    """The next request. Even ones are wishes, odd ones are of a kind that the difficulty allows."""
    member = rng.randint(1, FIRST_NEWCOMER)
    wish = Request(member, rng.choice(KINDS), rng.randint(1, 21 if difficulty is Difficulty.HARD else LONGEST_DAYS))
    if number % 2 == 0:
        return wish
    if difficulty is Difficulty.EASY or rng.random() < 0.5:
        item, holder = rng.choice(sorted(desk.holders.items()))
        return Request(holder, item_id=item)
    if rng.random() < 0.5:
        return Request(rng.choice(sorted(SUSPENDED)), wish.kind, wish.days)
    busy = [holder for holder in sorted(set(desk.holders.values())) if len(desk.held_by(holder)) > 1]
    return Request(rng.choice(busy), wish.kind, wish.days) if busy else wish
