"""Where things stand in the text of JSON, found without reading it. Each walk takes time in proportion to the text, whatever it holds."""

import re
from json import JSONDecoder

_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""A string, or a bracket outside of strings; possessive, so that no text makes it slow."""
_BLANK = re.compile(r"[ \t\n\r]*")
_READER = JSONDecoder(strict=False)


def json_end(text: str, start: int) -> int | None:
    """Where the object or array that begins at `start` (after blanks) ends; `None` when it does not."""
    depth = 0
    for found in _BRACKET.finditer(text, start):
        if found[0] in ("[", "{"):
            depth += 1
        elif found[0] in ("]", "}"):
            depth -= 1
        elif depth == 0:
            return None
        if depth == 0:
            return found.end()
    return None


def is_deeper(text: str, most: int) -> bool:
    """Whether arrays and objects are nested deeper than `most` levels, found without recursion."""
    if text.count("[") + text.count("{") <= most:
        return False
    depth = 0
    for found in _BRACKET.finditer(text):
        if found[0] in ("[", "{"):
            depth += 1
            if depth > most:
                return True
        elif found[0] in ("]", "}"):
            depth -= 1
    return False


def member(text: str, name: str) -> str:
    """The text of the object or array under `name` in `text`, which is one JSON object; empty when there is none.

    For an object that has been read already, with or without control characters in its strings.
    """
    position = _after_blanks(text, _after_blanks(text, 0) + 1)
    while text[position] == '"':
        key, position = _READER.raw_decode(text, position)
        start = _after_blanks(text, _after_blanks(text, position) + 1)
        value, end = _READER.raw_decode(text, start)
        if key == name:
            return text[start:end] if isinstance(value, dict | list) else ""
        position = _after_blanks(text, end)
        position = _after_blanks(text, position + 1) if text[position] == "," else position
    return ""


def _after_blanks(text: str, position: int) -> int:
    return _BLANK.match(text, position).end()  # type: ignore[union-attr]  # it matches anywhere
