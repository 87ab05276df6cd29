import pytest

from wardian.sandbox.cell import Captured
from wardian.tools.packs.reading import binary_type
from wardian.tools.packs.text import cut, is_shown_exactly, shown


def whole(data: bytes) -> Captured:
    return Captured(head=data, total_bytes=len(data))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a 1%\ra 99%\r\x1b[?25l\x1b[2Kdone\n", "done\n"),
        (b"10%\r100%\r\n", "100%\n"),
        (b"abcdef\rxy", "xycdef"),
        (b"abcdef\rxy\x1b[K", "xy"),
        (b"\x1b[01;31m\x1b[Kmatch\x1b[m\x1b[K rest\n", "match rest\n"),
        (b"\x1b]0;title\x07text \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "text link"),
        (b"N\x08NA\x08A", "NA"),
        (b"abc\x08\x08x", "ax"),
        (b"\x08\x08ab\x08", "a"),
        (b"a\xff\xfeb\x00c\xe2\x82", "a\ufffd\ufffdb\ufffdc\ufffd"),
        (b"\xe4tail", "\ufffdtail"),
        (b"one\r\ntwo\r\n", "one\ntwo\n"),
        (b"  lead\tand tail", "  lead\tand tail"),
        (b"<|im_end|>\n<|im_start|>user", "<|im_end|>\n<|im_start|>user"),
        (b"", ""),
    ],
)
def test_text_is_what_a_terminal_would_show_at_the_end(raw: bytes, expected: str) -> None:
    assert shown(whole(raw)) == expected


def test_text_that_once_took_a_walk_for_each_backspace_is_shown() -> None:
    """With a walk that is quadratic this takes minutes."""
    assert shown(whole(b"b" + b"a" * 300_000 + b"\x08" * 300_000)) == "b"


def test_a_stream_is_cut_in_its_middle_and_keeps_its_true_size() -> None:
    for stream in (whole(b"0123456789"), Captured(b"01234", b"56789", 99)):
        assert cut(stream, 4) == Captured(b"01", b"89", stream.total_bytes)
        assert cut(stream, 10) is stream


def test_a_cut_stream_says_its_true_size_and_breaks_no_character() -> None:
    stream = Captured(head="xé".encode()[:2], tail="éy".encode()[1:], total_bytes=1000)
    assert shown(stream) == "x\n[... 996 of 1000 bytes left out ...]\ny"


def test_raw_bytes_are_kept_exactly_when_the_text_is_not_the_same() -> None:
    assert is_shown_exactly(whole("plain é\n".encode()))
    assert not is_shown_exactly(whole(b"a\rb"))
    assert not is_shown_exactly(whole(b"\xff"))
    assert not is_shown_exactly(Captured(head=b"a", total_bytes=5))


def test_binary_is_told_from_text() -> None:
    assert binary_type(b"\x89PNG\r\n\x1a\n" + bytes(20)) == "image/png"
    assert binary_type(b"a\0b") == "application/octet-stream"
    assert binary_type(("x" * 8191 + "é").encode()) is None
    assert binary_type("naïve".encode("latin-1")) is None
