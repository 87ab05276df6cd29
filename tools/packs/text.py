"""Bytes of a command or file as text for a model. The raw bytes are kept beside it, in the log.

A terminal would show only the last state of a line that was redrawn by a carriage return, and no escape sequences; so does this. Text that
merely looks like a model's control token, such as `<|im_end|>`, stays what it is: text. Escaping it is the renderer's task.
"""

import codecs
import re

from wardian.sandbox.cell import Captured

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erase
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"  # two-byte escapes
)
_ERASE = re.compile(r"\x1b\[(?P<what>[012]?)K|\x1b\[2J")
_CONTROL = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NOT_PLAIN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def shown(stream: Captured) -> str:
    """What a terminal would show at the end, with a notice where the stream was cut."""
    if not stream.truncated:
        return _terminal(stream.data.decode("utf-8", "replace"))
    return _terminal(whole_characters(stream.head)) + notice(stream) + _terminal(_tail(stream.tail))


def notice(stream: Captured) -> str:
    """What stands in the place of what was cut from a stream."""
    missing = stream.total_bytes - len(stream.head) - len(stream.tail)
    return f"\n[... {missing} of {stream.total_bytes} bytes left out ...]\n"


def is_shown_exactly(stream: Captured) -> bool:
    """The text that an agent sees has the same bytes as the stream."""
    return not stream.truncated and shown(stream).encode("utf-8", "replace") == stream.data


def cut(stream: Captured, cap_bytes: int) -> Captured:
    """The same stream with at most `cap_bytes` of it: half of its head, half of its tail."""
    if len(stream.data) <= cap_bytes:
        return stream
    head = stream.data[: cap_bytes // 2] if not stream.truncated else stream.head[: cap_bytes // 2]
    tail = stream.data[-(cap_bytes - cap_bytes // 2) :]
    return Captured(head, tail, stream.total_bytes)


def whole_characters(data: bytes) -> str:
    """Decode `data` that may have been cut inside its last character, which is then left out."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=False)


def _tail(data: bytes) -> str:
    inside = next((n for n in range(min(4, len(data))) if data[n] & 0xC0 != 0x80), 0)
    return data[inside:].decode("utf-8", "replace")


def _terminal(text: str) -> str:
    if not _NOT_PLAIN.search(text):
        return text
    return "\n".join(_last_state(line) for line in text.replace("\r\n", "\n").replace("\0", "\ufffd").split("\n"))


def _last_state(line: str) -> str:
    """The line after all its carriage returns: each redraw covers what was there, and the rest of it stays."""
    screen = ""
    for redraw in line.split("\r"):
        drawn, position = "", 0
        for erase in _ERASE.finditer(redraw):
            drawn += _printed(redraw[position : erase.start()])
            if erase["what"] in ("", "0"):  # from the cursor to the right
                screen = screen[: len(drawn)]
            else:
                screen = drawn = ""
            position = erase.end()
        drawn += _printed(redraw[position:])
        screen = drawn + screen[len(drawn) :]
    return screen


def _printed(text: str) -> str:
    text = _ESCAPE.sub("", text)
    return _CONTROL.sub("", _without_backspaces(text) if "\x08" in text else text)


def _without_backspaces(text: str) -> str:
    """Each backspace takes the character before it away, where there is one."""
    kept: list[str] = []
    for part in re.findall(r"\x08+|[^\x08]+", text):
        if part[0] == "\x08":
            del kept[max(0, len(kept) - len(part)) :]
        else:
            kept += part
    return "".join(kept)
