"""A fingerprint is equal exactly when all leaves are, and names those that are not."""

from hypothesis import given
from hypothesis import strategies as st

from wardian.sandbox.fingerprint import Fingerprint, digest

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
trees = st.dictionaries(names, names, max_size=4)


@given(trees, trees)
def test_roots_are_equal_exactly_when_leaves_are(one: dict[str, str], two: dict[str, str]) -> None:
    left, right = Fingerprint(one), Fingerprint(two)
    assert (left.root == right.root) == (one == two) == (left == right) == (left.differences(right) == ())


@given(trees)
def test_the_order_of_leaves_does_not_count(leaves: dict[str, str]) -> None:
    assert Fingerprint(leaves).root == Fingerprint(dict(reversed(leaves.items()))).root


def test_differences_name_the_leaves() -> None:
    found = Fingerprint({"a": "1", "b": "2", "c": "3"}).differences(Fingerprint({"a": "1", "b": "9", "d": "4"}))
    assert found == ("b: expected 9, found 2", "c: expected nothing, found 3", "d: expected 4, found nothing")


def test_trees_are_put_together() -> None:
    tree = Fingerprint({"clock": "1"}).joined(Fingerprint({"orders": "2"}).under("database"))
    assert tree.leaves == {"clock": "1", "database/orders": "2"}
    assert Fingerprint({"a": "1"}).joined(Fingerprint({"a": "2"})).leaves == {"a": "2"}


def test_names_that_no_file_system_refuses_can_be_hashed() -> None:
    assert Fingerprint({"\udcff": "1"}).root != Fingerprint({"\udcfe": "1"}).root


def test_a_digest_is_32_hex_characters() -> None:
    assert digest(b"") == "af1349b9f5f9a1a6a0404dea36dcc949"


def test_no_value_reads_as_another_leaf() -> None:
    forged = ("x\nb\x00y", "x1:b1:y", "1:x")
    roots = {Fingerprint({"a": value}).root for value in forged} | {Fingerprint({"a": "x", "b": "y"}).root}
    assert len(roots) == len(forged) + 1
