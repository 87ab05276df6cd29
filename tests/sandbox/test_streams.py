"""Named streams: one seed and a name give one sequence, and a stream knows how far it has come."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from wardian.sandbox.errors import SnapshotRefused
from wardian.sandbox.streams import MOST_WORDS, Stream, Streams, stream

SHOW = "from wardian.sandbox.streams import Streams; s = Streams(5); print(s['a'].random(), s['a'].randrange(10**9), s['b'].choice('abc'))"


def test_a_new_consumer_never_shifts_another() -> None:
    alone, beside = Streams(1), Streams(1)
    beside["other"].random()
    assert [alone["mine"].random() for _ in range(5)] == [beside["mine"].random() for _ in range(5)]


def test_seed_and_name_both_count() -> None:
    first = {(seed, name): stream(seed, name).random() for seed in (0, 1, -1, 2**70) for name in ("a", "b", "", "é")}
    assert len(set(first.values())) == len(first)


def test_another_process_with_another_hash_seed_draws_the_same() -> None:
    answers = set()
    for hash_seed in ("0", "77"):
        env = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)}
        answers.add(subprocess.run([sys.executable, "-c", SHOW], env=env, capture_output=True, check=True).stdout)
    assert len(answers) == 1


@pytest.mark.parametrize(
    "draw",
    [
        lambda s: s.random(),
        lambda s: s.getrandbits(65),
        lambda s: s.randrange(10),
        lambda s: s.gauss(0, 1),
        lambda s: s.choice("abc"),
        lambda s: s.shuffle([1, 2, 3]),
        lambda s: s.sample(range(9), 2),
        lambda s: s.uniform(0, 1),
        lambda s: s.expovariate(1),
        lambda s: s.randbytes(3),
    ],
)
def test_every_way_of_drawing_moves_the_position(draw: Callable[[Stream], Any]) -> None:
    streams = Streams(3)
    before = streams.digest()
    draw(streams["a"])
    assert streams["a"].words > 0
    assert streams.digest() != before


def test_equal_positions_draw_equally() -> None:
    one, two = stream(1, "a"), stream(1, "a")
    one.gauss(0, 1)
    two.gauss(0, 1)
    assert one.position == two.position
    assert (one.gauss(0, 1), one.random()) == (two.gauss(0, 1), two.random())


def test_a_far_position_is_come_to_in_parts_and_one_beyond_all_episodes_is_refused() -> None:
    there, streams = stream(1, "a"), Streams(1)
    there.getrandbits(32 * 100_001)
    streams.resume({"a": (100_001, None)})
    assert streams["a"].random() == there.random()
    for words in ({"a": 1 << 60}, {"a": MOST_WORDS, "b": 1}, {"a": -1}):
        with pytest.raises(SnapshotRefused, match="streams: "):
            streams.resume({name: (count, None) for name, count in words.items()})


def test_a_stream_that_was_only_named_is_not_yet_used() -> None:
    streams = Streams(1)
    assert streams["a"] is streams["a"]
    assert streams.positions() == {"a": (0, None)}


def test_the_first_draws_are_those_of_every_version() -> None:
    found = stream(7, "faults")
    assert [found.randrange(1000) for _ in range(4)] == [850, 390, 870, 596]
