"""What a run says at its end, to people."""

import pytest

from wardian.cli.report import print_summary
from wardian.rollouts.summary import Tally, summary
from wardian.sandbox.lease import PoolStatistics

ASKED = {"world": "toy", "tokenizer": "estimate@1", "tokens_estimated": True, "out": None}


def line_of(capsys: pytest.CaptureFixture[str], begin: str, *, interrupted: bool) -> str:
    numbers = {"resets": 76, "verified": 72, "deep_checks": 4, "replaced": 0, "created": 4, "quarantined": 0, "ready": 0, "leased": 0}
    pool = PoolStatistics(**numbers, leaks=(), restore_ms=(4.0,))
    print_summary({**ASKED, "interrupted": interrupted, **summary(Tally(), pool, planned=100, tier="chamber", wall_s=1.0)})
    return next(line for line in capsys.readouterr().out.splitlines() if line.startswith(begin))


def test_resets_that_an_interrupt_cut_short_are_not_said_to_have_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert line_of(capsys, "resets:", interrupted=True).startswith(
        "resets: 72 verified, 4 given up under way when the run was interrupted, 0 leaks"
    )


def test_resets_that_failed_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert line_of(capsys, "resets:", interrupted=False).startswith("resets: 72 of 76 verified, 0 leaks")


def test_episodes_that_nobody_began_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert line_of(capsys, "not played", interrupted=True) == "not played to the end: 0 given up, 100 never begun"
