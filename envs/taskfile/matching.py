"""Whether a text is what a task wants.

An author's pattern meets an agent's text, so it gets little time, and leaves the other threads theirs.
"""

import regex

from wardian.envs.taskfile.schema import TextMatch

MATCH_S = 1.0
"""For the patterns of a task on the texts of an episode, all together."""
LEAST_S = 0.02
"""For one of them, when the others have used that up; most take a thousandth of it."""
MAX_CHARS = 1_000_000
"""Of a text that a pattern is looked for in."""
PROBE_S = 0.2
PROBES = ("a" * 10_000 + "!", "1" * 10_000 + "!", " " * 10_000 + "!", "a1, " * 2_500 + "!")


def wrong_text(match: TextMatch, text: str, limit_s: float = MATCH_S) -> str:
    """What is wrong with a text; empty when it is right. A pattern that takes longer than `limit_s` is not found."""
    if match.equals is not None and match.equals.removesuffix("\n") != text.removesuffix("\n"):
        return f"expected {match.equals!r}, found {text!r}"
    missing = [part for part in match.contains if part not in text]
    if missing:
        return f"expected {missing[0]!r} in it, found {text!r}"
    if match.matches is None:
        return ""
    if len(text) > MAX_CHARS:
        return f"has {len(text)} characters; {match.matches!r} is looked for in at most {MAX_CHARS}"
    try:
        found = _found(match.matches, text, limit_s)
    except TimeoutError:
        return f"looking for {match.matches!r} took too long; found {text!r}"
    return "" if found else f"expected what matches {match.matches!r}, found {text!r}"


def is_slow(pattern: str) -> bool:
    """Whether simple texts are known for which the pattern needs long."""
    try:
        for text in PROBES:
            _found(pattern, text, PROBE_S)
    except TimeoutError:
        return True
    return False


def _found(pattern: str, text: str, limit_s: float) -> bool:
    return regex.search(pattern, text, regex.MULTILINE, timeout=limit_s, concurrent=True) is not None
