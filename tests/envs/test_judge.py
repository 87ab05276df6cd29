"""A verifier that breaks gives no verdict, and never a reward."""

import math
import threading
import time
from collections.abc import Callable

import pytest

from wardian.envs.errors import VerifierBroken
from wardian.envs.judge import judge
from wardian.envs.task import Difficulty
from wardian.envs.verifier import Check, FinalState, Verdict
from wardian.envs.worlds.toy.families.requests import LendingDesk
from wardian.sandbox.files import FileChanges

pytestmark = pytest.mark.anyio
GOOD = Verdict((Check("a", True),))


def test_a_check_that_passed_says_nothing_of_what_is_wrong() -> None:
    assert [Check("kept", passed, "an item was written off").detail for passed in (True, False)] == ["", "an item was written off"]


class Judged(LendingDesk):
    name = "judged"

    def __init__(self, verify: Callable[[FinalState], Verdict]) -> None:
        self._verify = verify

    def verify(self, state: FinalState) -> Verdict:
        return self._verify(state)


def state() -> FinalState:
    task = LendingDesk().generate(Difficulty.EASY, 1)
    return FinalState(task, None, (), FileChanges({}), {}, (), "message")


async def test_a_verdict_is_passed_on() -> None:
    assert await judge(Judged(lambda state: GOOD), state(), None, 5) is GOOD


async def test_raising_is_named() -> None:
    with pytest.raises(VerifierBroken, match="ZeroDivisionError"):
        await judge(Judged(lambda state: 1 / 0), state(), None, 5)  # type: ignore[arg-type,return-value]


async def test_exiting_the_process_is_raising() -> None:
    def leave(state: FinalState) -> Verdict:
        raise SystemExit(0)

    with pytest.raises(VerifierBroken, match="SystemExit"):
        await judge(Judged(leave), state(), None, 5)


async def test_what_is_no_verdict_is_none() -> None:
    with pytest.raises(VerifierBroken, match="returned float"):
        await judge(Judged(lambda state: 1.0), state(), None, 5)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("passed", ["no", 0.5, math.nan, None, 1])
async def test_a_check_that_is_neither_true_nor_false_is_no_verdict(passed: object) -> None:
    with pytest.raises(VerifierBroken, match="give True or False"):
        await judge(Judged(lambda state: Verdict((Check("a", passed),))), state(), None, 5)  # type: ignore[arg-type]


async def test_two_checks_of_one_name_are_no_verdict() -> None:
    with pytest.raises(VerifierBroken, match="two are called a"):
        await judge(Judged(lambda state: Verdict((Check("a", True), Check("a", False)))), state(), None, 5)


async def test_a_verdict_that_comes_too_late_is_none() -> None:
    def slow(state: FinalState) -> Verdict:
        time.sleep(0.3)
        return GOOD

    with pytest.raises(VerifierBroken, match=r"did not finish within 0\.05 s"):
        await judge(Judged(slow), state(), None, 0.05)


async def test_hanging_ends_at_the_deadline_and_the_thread_is_ended_too() -> None:
    def hang(state: FinalState) -> Verdict:
        while True:
            pass

    started = time.monotonic()
    with pytest.raises(VerifierBroken, match=r"did not finish within 0\.2 s"):
        await judge(Judged(hang), state(), None, 0.2)
    assert time.monotonic() - started < 2
    for thread in threading.enumerate():
        if thread.name == "verify judged":
            thread.join(5)
            assert not thread.is_alive()
