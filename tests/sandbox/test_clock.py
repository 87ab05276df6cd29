"""Virtual time starts where it is told and moves only forward, only when told."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from wardian.sandbox.clock import WorldClock

START = datetime(2026, 3, 29, 1, 30, 0, 250_000, tzinfo=UTC)


def test_it_stands_still_until_it_is_advanced() -> None:
    clock = WorldClock(START)
    assert clock.now == clock.now == START
    clock.advance(1500)
    clock.advance(0)
    assert (clock.now, clock.elapsed_ms) == (START + timedelta(milliseconds=1500), 1500)


def test_it_says_utc_wherever_the_start_is_from() -> None:
    clock = WorldClock(datetime(2026, 3, 29, 3, 30, tzinfo=timezone(timedelta(hours=2))))
    assert (clock.now, clock.now.tzinfo) == (datetime(2026, 3, 29, 1, 30, tzinfo=UTC), UTC)


def test_times_before_1970_and_far_ahead_are_exact() -> None:
    for start in (datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), datetime(9998, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)):
        assert WorldClock(start).now == start


def test_a_naive_start_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        WorldClock(datetime(2026, 1, 1))


def test_it_never_runs_backwards() -> None:
    clock = WorldClock(START)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
    assert clock.elapsed_ms == 0


def test_time_moves_by_whole_milliseconds() -> None:
    clock = WorldClock(datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(ValueError, match="whole milliseconds"):
        clock.advance(1.5)  # type: ignore[arg-type]
    assert clock.elapsed_ms == 0
