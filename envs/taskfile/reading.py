"""YAML 1.2 to plain data, with the line of each part, so that errors can name it.

Only what the core schema knows is a number, a truth value or null: `no`, `12:30` and `2026-01-05` are texts, as they read. What YAML 1.1
would take for something else and nobody can see, such as `0123`, is refused. Aliases are followed within bounds.
"""

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from wardian.envs.errors import TaskError
from wardian.tools.contract import Json

MAX_BYTES = 4 << 20
MAX_PARTS = 100_000
"""Values in the file, those behind aliases counted each time."""
MAX_DEPTH = 40
MAX_DIGITS = 300
"""Characters of a number: what is longer fits in no float."""

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]
"""Line and column, from 1."""

_CORE = "tag:yaml.org,2002:"
_KNOWN = frozenset(f"{_CORE}{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge", "value"))
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TRAP = re.compile(r"[-+]?0[0-9_]+|[-+]?[0-9]+(?:_[0-9]+)+(?:\.[0-9_]*)?|0b[01]+")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class Document:
    """The data of a file, and where each part of it stands."""

    name: str
    """Of the file, for messages."""
    data: Json
    places: dict[Path, Place]

    def place(self, path: Path) -> Place:
        """Where a part stands; of one that is not there, what it is missing from."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))

    def problem(self, path: Path, message: str) -> TaskError:
        """An error that names file, line, column and field."""
        line, column = self.place(path)
        field = shown(path)
        return TaskError(f"{self.name}:{line}:{column}: {f'{field}: ' if field else ''}{message}")


def shown(path: Path) -> str:
    """A path as people write it: `tasks[2].checks[0].sql`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read(text: str, name: str) -> Document:
    """Read one YAML document.

    Raises:
        TaskError: it is no YAML, has a key twice, a value that reads as two things, or is too large; names line and column.
    """
    if len(text) > MAX_BYTES:
        raise TaskError(f"{name}: has {len(text)} characters; at most {MAX_BYTES} are read")
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise TaskError(f"{name}{where}: no YAML: {' '.join(filter(None, (error.context, error.problem)))}") from error
    except (YAMLError, ValueError) as error:
        raise TaskError(f"{name}: no YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise TaskError(f"{name}: nested too deeply; at most {MAX_DEPTH} levels are read") from error
    if root is None:
        raise TaskError(f"{name}: the file is empty")
    reader = _Reader(name)
    return Document(name, reader.value(root, ()), reader.places)


class _Reader:
    def __init__(self, name: str) -> None:
        self.places: dict[Path, Place] = {}
        self._name = name
        self._parts = 0

    def value(self, node: Node, path: Path) -> Json:
        """The data of a node."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise self._problem(node, path, f"more than {MAX_PARTS} values, aliases followed; use fewer aliases")
        if len(path) > MAX_DEPTH:
            raise self._problem(node, path, f"nested too deeply; at most {MAX_DEPTH} levels are read (does an alias stand in itself?)")
        self.places.setdefault(path, _place(node))
        if node.tag not in _KNOWN:
            raise self._problem(node, path, f"the tag {node.tag} is not known; write plain values")
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(one, (*path, number)) for number, one in enumerate(node.value)]
        assert isinstance(node, ScalarNode), "there are no other nodes"
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                raise self._problem(key, path, "a key must be a text")
            name = str(key.value)
            if name == "<<":
                raise self._problem(key, path, "merge keys (<<) are not read; write what tasks share under `defaults`")
            if name in found:
                raise self._problem(key, (*path, name), f"this key stands twice; the first is in line {self.places[(*path, name)][0]}")
            self.places[(*path, name)] = _place(key)
            found[name] = self.value(value, (*path, name))
        return found

    def _scalar(self, node: ScalarNode, path: Path) -> Json:
        text = str(node.value)
        if node.style or (node.tag == f"{_CORE}str" and not _TRAP.fullmatch(text)):
            return text
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if len(text) > MAX_DIGITS and (_INT.fullmatch(text) or _BASED.fullmatch(text) or _FLOAT.fullmatch(text)):
            raise self._problem(node, path, f"a number of more than {MAX_DIGITS} characters; quote it where it is a text")
        if _INT.fullmatch(text) or _BASED.fullmatch(text):
            return int(text, 10 if _INT.fullmatch(text) else 0)
        if _TRAP.fullmatch(text):
            raise self._problem(node, path, f"{text} is a number in some YAML and a text in other: quote it, or write it plainly")
        if _NOT_FINITE.fullmatch(text) or (_FLOAT.fullmatch(text) and math.isinf(float(text))):
            raise self._problem(node, path, f"{text}: a number must be finite")
        return float(text) if _FLOAT.fullmatch(text) else text

    def _problem(self, node: Node, path: Path, message: str) -> TaskError:
        return Document(self._name, None, {path: _place(node)}).problem(path, message)


def _place(node: Node) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1
