"""Names of worlds and tools that are to be made: what they may be, and how they replace the toy world's."""

import builtins
import keyword
import re
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

from wardian.envs.errors import TaskError
from wardian.envs.registry import known_worlds

LONGEST = 64
_WORLD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TOOL = re.compile(r"[a-z][a-z0-9_]*")


def check_world_name(name: str) -> None:
    """Accept a name under which Python can import the world's package from a folder that is last in its search path.

    Raises:
        TaskError: it is no identifier, a keyword, a built-in world's, or that of a module which Python finds elsewhere.
    """
    _check(name, _WORLD, "a letter, then letters, digits and underscores")
    if name in known_worlds():
        raise TaskError(f"name: {name!r} is a built-in world; choose another, such as my_{name}")
    spec = _spec(name)
    if spec is not None and spec.origin is not None:
        raise TaskError(f"name: Python finds a module {name!r} already ({spec.origin}), which would hide yours; choose another")


def check_tool_name(name: str) -> None:
    """Accept a name that is a tool's and a Python function's.

    Raises:
        TaskError: it is neither.
    """
    _check(name, _TOOL, "a small letter, then small letters, digits and underscores")
    if hasattr(builtins, name):
        raise TaskError(f"name: {name!r} is a function of Python itself; say what it works on, such as {name}_item")


def _check(name: str, form: re.Pattern[str], described: str) -> None:
    if not form.fullmatch(name):
        raise TaskError(f"name: {name!r} must be {described}{_instead(name, form)}")
    if len(name) > LONGEST:
        raise TaskError(f"name: {len(name)} characters are too long; {LONGEST} at most")
    if keyword.iskeyword(name):
        raise TaskError(f"name: {name!r} is a keyword of Python; choose another")


def _instead(name: str, form: re.Pattern[str]) -> str:
    mended = re.sub(r"[ .-]+", "_", name.lower()).strip("_")
    return f"; {mended} would do" if form.fullmatch(mended) and not keyword.iskeyword(mended) else ""


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except ValueError:  # a module that was put together by hand, such as __main__
        return None


def camel(name: str) -> str:
    """`renew_loan` as a class is named: `RenewLoan`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def renamed(text: str, old: str, new: str) -> str:
    """`text` with the word `old` as `new`: alone, as a part of a name with underscores, and as the beginning of a class name."""
    text = re.sub(rf"(?<![A-Za-z0-9]){old}(?![A-Za-z0-9])", new, text)
    return re.sub(rf"(?<![A-Za-z0-9]){camel(old)}(?=[A-Z])", camel(new), text)


def check_absent(path: Path) -> None:
    """Raise where something stands at `path`; nothing is ever overwritten.

    Raises:
        TaskError: something does, if only a broken link.
    """
    if path.exists() or path.is_symlink():
        raise TaskError(f"{path} exists already, and nothing is overwritten; choose another name, or remove it first")
