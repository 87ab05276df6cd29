"""`wardian redteam` and `wardian mutate` as commands."""

import json

from tests.rollouts.conftest import Wardian


def test_mutate_counts_and_says_what_it_counted(wardian: Wardian) -> None:
    done = wardian("mutate", "routing", "--seeds", 2, "--most", 40, "--json")
    assert done.returncode == 0, done.stderr
    (family,) = json.loads(done.stdout)["families"]
    counted = sum(family[fate] for fate in ("killed", "survived", "raised", "allowed"))
    assert (family["mutants"], family["score"] >= 0.97, family["survivors"]) == (counted, True, [])
    assert family["checks"]["answered"]["failed"] == family["killed"]
    assert set(family["tasks"]).isdisjoint(family["unsolved_tasks"])


def test_redteam_says_which_attacks_were_blocked(wardian: Wardian) -> None:
    done = wardian("redteam", "routing", "--json")
    assert done.returncode == 0, done.stderr
    assert [(one["attack"], one["blocked"], one["failed"]) for one in json.loads(done.stdout)] == [
        ("claim_only", True, ["answered"]),
        ("escalated", True, ["answered"]),
    ]


def test_a_family_that_there_is_not_is_named(wardian: Wardian) -> None:
    done = wardian("mutate", "routing", "--family", "nothing")
    assert done.returncode == 2
    assert "it has model-routing" in done.stderr
