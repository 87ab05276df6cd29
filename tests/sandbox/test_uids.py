"""Each cell of a host has a uid of its own."""

from pathlib import Path

import pytest

from wardian.sandbox.errors import CellUnavailable
from wardian.sandbox.uids import FIRST_UID, MOST_UIDS, UidClaims


def test_lowest_free_uids_come_first(tmp_path: Path) -> None:
    assert UidClaims(tmp_path).claim(2) == (FIRST_UID, FIRST_UID + 1)


def test_two_claims_never_share_a_uid(tmp_path: Path) -> None:
    one, other = UidClaims(tmp_path), UidClaims(tmp_path)
    assert not set(one.claim(3)) & set(other.claim(3))


def test_released_uids_are_free_again(tmp_path: Path) -> None:
    one, other = UidClaims(tmp_path), UidClaims(tmp_path)
    first = one.claim(2)
    one.release()
    one.release()
    assert other.claim(2) == first


def test_wanted_uids_are_preferred_and_a_busy_one_is_passed_over(tmp_path: Path) -> None:
    one, other = UidClaims(tmp_path), UidClaims(tmp_path)
    one.claim(1, wanted=(FIRST_UID + 7,))
    assert other.claim(2, wanted=(FIRST_UID + 7, FIRST_UID + 9)) == (FIRST_UID + 9, FIRST_UID)


def test_running_out_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CellUnavailable, match="end other runs"):
        UidClaims(tmp_path).claim(MOST_UIDS + 1)
