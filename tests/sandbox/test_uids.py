"""Each cell of a host has a uid of its own."""

import os
import stat
from pathlib import Path

import pytest

from wardian.sandbox import uids
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


def test_running_out_says_what_to_do_and_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uids, "MOST_UIDS", 5)
    one, other = UidClaims(tmp_path), UidClaims(tmp_path)
    one.claim(2)
    with pytest.raises(CellUnavailable, match=r"4 uids for cells wanted, 3 free in .*: end other runs"):
        other.claim(4)
    assert one.claim(3) == tuple(FIRST_UID + number for number in (2, 3, 4))


def test_more_than_a_host_has_is_refused_before_any_is_claimed(tmp_path: Path) -> None:
    with pytest.raises(CellUnavailable, match=f"a host has {MOST_UIDS}"):
        UidClaims(tmp_path / "locks").claim(MOST_UIDS + 1)
    assert not (tmp_path / "locks").exists()


def test_the_folder_serves_every_user_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        UidClaims(tmp_path / "locks").claim(1)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o1777
    assert stat.S_IMODE((tmp_path / "locks" / str(FIRST_UID)).stat().st_mode) == 0o644
