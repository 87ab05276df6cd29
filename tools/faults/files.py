"""A fault profile of one's own, from a TOML file.

    extends = "realistic"       # one of the shipped profiles; without it, everything begins at none
    slow = 0.05
    max_total = 20

    [tools.issue_refund]        # chances that differ for one tool
    timeout_after = 0.2

The name is the file's, unless it says another; those of the shipped profiles are taken. What is wrong is told with line and field. The
profile that comes out is whole: records carry all of it, so a replay needs no file.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wardian.tools.contract import Tool
from wardian.tools.errors import ToolMisdeclared
from wardian.tools.faults.kinds import Fault
from wardian.tools.faults.plan import powerless
from wardian.tools.faults.profile import PROFILES, FaultProfile

SUFFIX = ".toml"
_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_KEY = re.compile(r"\s*((?:\"[^\"]*\"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:\"[^\"]*\"|'[^']*'|[\w-]+))*)\s*=")
_WORDS = {
    "less_than_equal": "must be at most {le:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "string_type": "must be a text",
    "dict_type": "must be a table",
}
"""By pydantic's name of the error."""
Key = tuple[str, ...]


def load_profile(path: Path, tools: Iterable[Tool[Any]] | None = None) -> FaultProfile:
    """Read a profile; `tools` are those that it may speak of, `None` for any.

    Raises:
        ToolMisdeclared: it cannot be read or is none; every problem stands on a line of its own, with its place.
    """
    try:
        text = path.read_text("utf-8")
        found = tomllib.loads(text)
    except OSError as error:
        raise ToolMisdeclared(f"faults: {path} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ToolMisdeclared(f"faults: {path} is no TOML: {error}") from error
    lines = _lines(text)
    problems = _check_names(found, path.stem, None if tools is None else tuple(tools))
    named = [key for key, _ in problems]
    try:
        made = FaultProfile.model_validate(_extended(found, path.stem))
    except ValidationError as error:
        values = [_told(problem["loc"], problem) for problem in error.errors()]
        problems += [(key, text) for key, text in values if not any(key[: len(one)] == one for one in named)]
    if not problems:
        return made
    raise ToolMisdeclared("\n".join(f"{path}{_place(lines, key)}: {'.'.join(key)}: {text}" for key, text in problems))


def _check_names(found: dict[str, Any], stem: str, tools: tuple[Tool[Any], ...] | None) -> list[tuple[Key, str]]:
    """Names that there are not, or that are taken, each with its place."""
    problems: list[tuple[Key, str]] = []
    base = found.get("extends", "none")
    if base not in PROFILES:
        problems.append((("extends",), f"there is no profile {base!r} to extend; there are {', '.join(PROFILES)}"))
    if (name := found.get("name", stem)) in PROFILES:
        whose = "" if "name" in found else ", as the file is called,"
        problems.append((("name",), f'{name!r}{whose} is the name of a shipped profile; write another one, such as name = "my-{name}"'))
    own = found.get("tools", {})
    for tool, rates in own.items() if isinstance(own, dict) else ():
        problems += _check_tool(tool, rates if isinstance(rates, dict) else {}, tools)
    fields = (*FaultProfile.model_fields, "extends")
    problems += [((name,), f"there is no such field{_near(name, fields)}") for name in found if name not in fields]
    return problems


def _check_tool(name: str, rates: dict[str, Any], tools: tuple[Tool[Any], ...] | None) -> list[tuple[Key, str]]:
    """What is wrong with the chances of one tool: no such tool, no such fault, or one that can never hit it."""
    known = [fault.value for fault in Fault]
    wrong: list[tuple[Key, str]] = [
        (("tools", name, rate), f"there is no such fault{_near(rate, known)}") for rate in rates if rate not in known
    ]
    if tools is None:
        return wrong
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        near = _near(name, [tool.name for tool in tools])
        return [(("tools", name), f"the world has no tool {name!r}{near}; `wardian faults WORLD` lists them"), *wrong]
    never = powerless(tool, tools)
    able = ", ".join(fault.value for fault in Fault if fault not in never) or "none"
    return [
        *wrong,
        *(
            (("tools", name, rate), f"this fault can never hit {name}, by the tool's contract; those that can: {able}")
            for rate, chance in rates.items()
            if chance and rate in known and Fault(rate) in never
        ),
    ]


def _near(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _extended(found: dict[str, Any], name: str) -> dict[str, Any]:
    """What the file says, over what it extends; of tools that both speak of, chance by chance."""
    base = PROFILES.get(found.get("extends", "none"), PROFILES["none"]).model_dump()
    own = {key: value for key, value in found.items() if key != "extends"}
    if isinstance(own.get("tools"), dict):
        own["tools"] = {**base["tools"], **own["tools"]}
    return {**base, "name": name, **own}


def _told(place: tuple[int | str, ...], problem: Any) -> tuple[Key, str]:
    text: str = problem["msg"].removeprefix("Value error, ")
    if words := _WORDS.get(problem["type"]):
        text = words.format(**problem.get("ctx", {}))
    if place:
        return tuple(map(str, place)), f"{text}, got {problem['input']!r}"
    field, _, rest = text.partition(": ")  # a rule over several fields names the one to change, or all chances
    return tuple(field.split(".")), rest


def _lines(text: str) -> dict[Key, int]:
    """On which line each key and each table is named."""
    found: dict[Key, int] = {}
    table: Key = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = _parts(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_parts(key[1])), number)
    return found


def _parts(dotted: str) -> Key:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _place(lines: dict[Key, int], key: Key) -> str:
    """`:7` for the line of a key, of the innermost table around it, or of the last key within it; nothing where none is found.

    `rates` stands for the chances of all tools.
    """
    for end in range(len(key), 0, -1):
        if key[:end] in lines:
            return f":{lines[key[:end]]}"
    rates = [(fault.value,) for fault in Fault] if key == ("rates",) else []
    within = [number for name, number in lines.items() if name in rates or name[: len(key)] == key]
    return f":{max(within)}" if within else ""
