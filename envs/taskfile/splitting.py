"""A script of SQL as single statements."""

import re

_PART = re.compile(
    r"""
      --[^\n]*+ | /\*.*?(?:\*/|\Z)
    | [eE]'(?:[^'\\]|\\.|'')*+(?:'|\Z) | '(?:[^']|'')*+(?:'|\Z)
    | "(?:[^"]|"")*+(?:"|\Z) | `(?:[^`]|``)*+(?:`|\Z)
    | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?:(?P=tag)|\Z)
    | (?P<end>;)
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def statements(script: str) -> tuple[str, ...]:
    """The statements of a script, without the semicolons between them; what is only a comment is none."""
    found: list[str] = []
    current, holds = "", False
    for part in _PART.finditer(script):
        text = part.group()
        if part.group("end"):
            found += [current.strip()] if holds else []
            current, holds = "", False
            continue
        current += text
        holds = holds or not (text.isspace() or text.startswith(("--", "/*")))
    return tuple([*found, current.strip()] if holds else found)
