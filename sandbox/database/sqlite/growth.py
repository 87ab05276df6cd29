"""How far a statement can grow while SQLite prepares it.

A common table expression that is used twice is copied twice, and a column of a subquery is replaced by its expression wherever it
is used. Both multiply from level to level: forty short lines can ask for 2^40 nodes. SQLite 3.40 looks at no limit and no clock while
it prepares, so the growth is bounded here, from the tokens alone and never too low.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

MAX_GROWTH = 50_000
"""Copies that are allowed: about half a second of preparing. Ordinary statements stay below 1,000."""
_KEYWORD_TEXT = """
    all and as asc between by case cast collate cross desc distinct else end escape except exists explain false filter first following
    from full glob group having in inner intersect is isnull join last left like limit materialized natural not notnull null nulls
    offset on or order outer over partition preceding query plan recursive right row rows range select set then true unbounded
    union using values when where window with
"""
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())
_BEGIN = frozenset({"select", "with", "values"})


@dataclass(slots=True)
class _Scope:
    """A SELECT with what it says itself; subqueries have scopes of their own."""

    names: Counter[str] = field(default_factory=Counter)
    derived: bool = False
    """Whether it reads from another scope."""


def growth(tokens: Sequence[str]) -> int:
    """An upper bound for how often any part of a statement is copied. `tokens`: lower case, names unquoted, no spaces."""
    defined = _defined(tokens)
    scopes = _scopes(tokens, frozenset(defined))
    return _copies(tokens, defined) * prod(max(scope.names.values(), default=1) for scope in scopes if scope.derived)


def _defined(tokens: Sequence[str]) -> Counter[str]:
    """Names of common table expressions, with how often each is defined."""
    found: Counter[str] = Counter()
    for at, token in enumerate(tokens):
        if token != "as" or not at:
            continue
        following = next((word for word in tokens[at + 1 : at + 4] if word not in ("not", "materialized")), "")
        if following != "(":
            continue
        name = tokens[at - 1] if tokens[at - 1] != ")" else _before_parenthesis(tokens, at - 1)
        found[name] += 1
    return found


def _before_parenthesis(tokens: Sequence[str], closing: int) -> str:
    depth = 0
    for at in range(closing, 0, -1):
        depth += (tokens[at] == ")") - (tokens[at] == "(")
        if depth == 0:
            return tokens[at - 1]
    return ""


def _copies(tokens: Sequence[str], defined: Counter[str]) -> int:
    """Bound of the copies of expressions by name: the product of the uses of each, split evenly over its definitions."""
    seen = Counter(token for at, token in enumerate(tokens) if token in defined and tokens[at + 1 : at + 2] != ["."])
    return prod(max(1, -(-(seen[name] - times) // times)) ** times for name, times in defined.items())


def _scopes(tokens: Sequence[str], defined: frozenset[str]) -> list[_Scope]:
    scopes = [_Scope()]
    stack = [scopes[0]]
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        if token == "(":
            if following in _BEGIN:
                stack[-1].derived = True
                scopes.append(_Scope())
                stack.append(scopes[-1])
            else:
                stack.append(stack[-1])
        elif token == ")":
            if len(stack) > 1:
                stack.pop()
        elif token in defined and following != ".":
            stack[-1].derived = True
        elif (token[0].isalpha() or token[0] in "_`" or token[0] > "\x7f") and token not in _KEYWORDS and following not in ("(", "."):
            stack[-1].names[token] += 1
    return scopes
