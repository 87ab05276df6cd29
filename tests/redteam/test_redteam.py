"""Verifiers under attack: each built-in world blocks its attacks and most mutants, and weak verifiers are found out."""

from dataclasses import replace
from typing import TypeAlias

import pytest

from tests.redteam.conftest import Opened
from wardian.envs.action import call
from wardian.envs.attack import attack, kept, put, without
from wardian.envs.family import Family
from wardian.envs.registry import known_worlds, load_world
from wardian.envs.verifier import FinalState, Verdict
from wardian.envs.worlds.toy.families.requests import LendingDesk
from wardian.rollouts.redteam.attacking import attack_world
from wardian.rollouts.redteam.mutants import ENOUGH, Fate
from wardian.rollouts.redteam.mutating import mutate

pytestmark = pytest.mark.anyio
Names: TypeAlias = tuple[str, ...]
SOME = {
    "billing-dispute": ("reward_planted", "invisible_reply", "thrown_away", "counted", "policy_edited", "halves"),
    "error-recovery": ("first_line", "paid_twice"),
    "chargeback-fraud": ("links_unseen",),
    "policy-escalation": ("wide_digits", "readme_edited"),
    "statement-reconciliation": ("report_planted", "report_linked", "report_fifo", "sum_right"),
}
"""Attacks of billing that the suite plays; `wardian redteam billing` plays them all."""


class Without(LendingDesk):
    """The lending desk's verifier without one of its checks."""

    def __init__(self, check: str) -> None:
        self.missing = check

    def verify(self, state: FinalState) -> Verdict:
        return Verdict(tuple(check for check in super().verify(state).checks if check.name != self.missing))


class Raises(LendingDesk):
    """A verifier that cannot do with a report that is not there."""

    def verify(self, state: FinalState) -> Verdict:
        state.file_contents["/workspace/report.txt"].decode()
        return super().verify(state)


def test_every_built_in_family_has_attacks() -> None:
    worlds = [load_world(name) for name in known_worlds()]
    assert not [(world.name, family.name) for world in worlds for family in world.families if not world.attacks.get(family.name)]


@pytest.mark.parametrize("name", ["toy", "routing"])
async def test_attacks_are_blocked_and_mutants_killed(opened: Opened, name: str) -> None:
    world = load_world(name)
    async with opened(world) as (env, witness):
        attacked = await attack_world(env, world.families)
        assert [one for one in attacked if not one.blocked] == []
        for score in await mutate(env, witness, world.families, seeds=(1,), most=60):
            assert score.score >= ENOUGH, score.survivors


async def test_billing_blocks_its_attacks_and_kills_mutants(opened: Opened) -> None:
    billing = load_world("billing")
    attacks = {name: tuple(one for one in billing.attacks[name] if one.name in some) for name, some in SOME.items()}
    world = replace(billing, attacks=attacks, families=tuple(family for family in billing.families if family.name in SOME))
    async with opened(world) as (env, witness):
        attacked = await attack_world(env, world.families)
        assert {name: tuple(one.attack for one in attacked if one.family == name) for name in SOME} == {
            name: tuple(one.name for one in attacks[name]) for name in SOME
        }
        assert [one for one in attacked if not one.blocked] == []
        easy = [narrowed(family) for family in world.families]
        for score in await mutate(env, witness, easy, seeds=(1,), most=40):
            assert score.score >= ENOUGH, score.survivors


def narrowed(family: Family) -> Family:
    """The family with its first difficulty alone."""
    object.__setattr__(family, "difficulties", family.difficulties[:1])
    return family


async def test_a_verifier_that_lacks_a_check_is_found_out(opened: Opened) -> None:
    toy = load_world("toy")
    weak = (Without("report"), Without("nothing_else"), Raises())
    async with opened(toy) as (env, witness):
        scores = [(await mutate(env, witness, (narrowed(family),), seeds=(1,), most=500))[0] for family in weak]
    assert [score.score < ENOUGH for score in scores[:2]] == [True, True]
    assert {"line_removed", "line_added", "file_link"} <= {one.name.split()[0] for one in scores[0].survivors}
    assert {"given_altered /workspace/NOTES.txt", "nudged other members.name"} <= {one.name for one in scores[1].survivors}
    assert {one.fate for one in scores[2].survivors} == {Fate.RAISED}


async def test_an_attack_that_is_none_is_named(opened: Opened) -> None:
    lends = call("lend_item", item_id=603, member_id=7, days=3)
    bad = (
        attack("harmless", "looks at one thing more", put("", call("show_item", item_id=101))),
        attack("same", "does nothing else", kept),
        attack("refused", "is not carried out", put("", call("show_item", item_id=9999))),
        attack("misnamed", "names what is not checked", without("write_file"), "rapport"),
        attack("other", "fails by another check", put("", lends), "report"),
        attack("nowhere", "suits no task", kept, suits=lambda task: False),
    )
    world = replace(load_world("toy"), attacks={"lending-desk": bad})
    async with opened(world) as (env, _):
        found = await attack_world(env, world.families, seeds=(1, 2))
    problems = [one.problem.partition(":")[0].partition(",")[0] for one in found]
    assert problems == [
        "it succeeds",
        "it does what the reference does",
        "it did not come about",
        "it names checks that the verdict has not",
        "it fails by lent",
        "there is no solved task that it suits",
        "the world has no attack on this family; see WorldDefinition.attacks",
    ]
