"""`wardian new tool`: a tool that works, in the `tools.py` of a world, with a test.

The source is changed at places that Python's own parser gives, and only where they are what a world made by `wardian new world` has:
one list of tools, named `TOOLS`. Elsewhere the parts are given to be put in by hand.
"""

import ast
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from wardian.envs.errors import TaskError
from wardian.envs.scaffold.names import camel, check_absent, check_tool_name

NEEDED = {
    "Annotated": "typing",
    "Field": "pydantic",
    "Arguments": "wardian.tools.contract",
    "Json": "wardian.tools.contract",
    "Refusal": "wardian.tools.contract",
    "Status": "wardian.tools.contract",
    "Tool": "wardian.tools.contract",
    "ToolContext": "wardian.tools.contract",
}
"""What the parts use, and where it comes from."""

HANDLER = """\
class {camel}(Arguments):
    text: Annotated[str, Field(min_length=1, max_length=200, description="What to note.")]


async def {name}(context: ToolContext, args: {camel}) -> Json:
    # Rows are read and written by `context.db`, a SQLAlchemy session; ids come from `context.new_id("table")`, the time from `context.now`.
    if args.text.isspace():
        raise Refusal(Status.CONFLICT, "there is nothing to note: text is blank")
    context.note("{name}", text=args.text)
    return {{"noted": args.text, "at": context.now.isoformat()}}
"""

ENTRY = """\
Tool(
        "{name}",
        "Note a text. Refused when it is blank.",
        {camel},
        {name},
        mutates=True,
        errors=(Status.CONFLICT,),
        idempotent=False,
    )"""

TEST = '''\
"""The tool `{name}`: what it answers, refuses and leaves in the event log."""

import anyio

from {world} import definition
from wardian.envs.action import Step, call
from wardian.envs.registry import open_environment
from wardian.envs.task import Difficulty, TaskId


def called(**args: object) -> Step:
    """One call of the tool at the start of an episode."""
    world = definition()

    async def play() -> Step:
        async with open_environment(world) as env:
            await env.reset(str(TaskId(world.families[0].name, Difficulty.EASY, 1)))
            return await env.step(call("{name}", **args))

    return anyio.run(play)


def test_{name}_answers_and_leaves_its_effect() -> None:
    step = called(text="hello")
    assert step.observation.results[0]["result"]["noted"] == "hello"
    assert [effect for event in step.info.events for effect in event.effects] == [{{"kind": "{name}", "text": "hello"}}]


def test_{name}_refuses_a_blank_text() -> None:
    assert called(text=" ").observation.results[0]["status"] == "conflict"


def test_{name}_takes_no_other_arguments() -> None:
    assert called(text="hello", colour="red").observation.results[0]["status"] == "invalid_arguments"
'''


@dataclass(frozen=True, slots=True)
class NewTool:
    """The parts of a new tool."""

    name: str
    world: str
    """The package that holds it."""

    @property
    def handler(self) -> str:
        return HANDLER.format(name=self.name, camel=camel(self.name))

    @property
    def entry(self) -> str:
        """One element of `TOOLS`."""
        return ENTRY.format(name=self.name, camel=camel(self.name))

    @property
    def test(self) -> str:
        return TEST.format(name=self.name, world=self.world)

    @property
    def imports(self) -> str:
        return _imports(tuple(NEEDED))


class OtherShape(Exception):
    """The world's tools are not in a list `TOOLS` in `tools.py`; `tool` has the parts to put in by hand."""

    def __init__(self, why: str, tool: NewTool) -> None:
        super().__init__(why)
        self.tool = tool


def add_tool(name: str, world: Path) -> tuple[Path, Path]:
    """Add the tool `name` to the world in the folder `world`; gives the changed `tools.py` and the new test. Both, or neither.

    Raises:
        TaskError: the name cannot be used or is taken, or `world` is no package.
        OtherShape: the world keeps its tools in another way.
    """
    check_tool_name(name)
    if not (world / "__init__.py").is_file():
        raise TaskError(f"world: {world} is no package (it has no __init__.py); name the folder that `wardian new world` made")
    world = world.resolve()
    tools, test, new = world / "tools.py", world / f"test_{name}.py", NewTool(name, world.name)
    if not tools.is_file():
        raise OtherShape(f"{world.name} has no tools.py", new)
    check_absent(test)
    try:
        source = _with_tool(tools.read_text("utf-8"), new)
        _replace(test, new.test)
        _replace(tools, source)
    except OSError as error:
        test.unlink(missing_ok=True)
        raise TaskError(f"world: {world} cannot be changed: {error.strerror or error}") from error
    return tools, test


def _replace(path: Path, text: str) -> None:
    """Write one file whole, with the mode that it has or that a new one gets."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}-", delete=False) as half_made:
        half_made.write(text)
    os.chmod(half_made.name, mode)
    os.replace(half_made.name, path)


def _with_tool(source: str, new: NewTool) -> str:
    """`tools.py` with the new parts: imports that are missing, the handler before the list, the entry at its end."""
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        raise TaskError(f"world: tools.py line {error.lineno}: {error.msg}; mend it first") from error
    bound = _bound(module)
    if taken := [name for name in (new.name, camel(new.name)) if name in bound]:
        raise TaskError(f"name: tools.py has a {taken[0]!r} already; choose another")
    assigned, listed = _list_of_tools(module, new)
    if any(isinstance(node, ast.Constant) and node.value == new.name for node in ast.walk(listed)):
        raise TaskError(f"name: TOOLS has a tool {new.name!r} already; choose another")
    lines = source.splitlines(keepends=True)
    _insert_entry(lines, listed, new.entry)
    lines.insert(assigned.lineno - 1, new.handler + "\n\n")
    if missing := tuple(name for name in NEEDED if name not in bound):
        lines.insert(_after_imports(module), _imports(missing))
    changed = "".join(lines)
    try:
        ast.parse(changed)
    except SyntaxError:
        raise OtherShape(f"`TOOLS` in tools.py of {new.world} is written in a way that is not understood here", new) from None
    return changed


def _bound(module: ast.Module) -> set[str]:
    """Names that the module has at its top level."""
    found: set[str] = set()
    for node in module.body:
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {alias.asname or alias.name for alias in names}
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Assign() | ast.AnnAssign():
                found |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    return found


def _list_of_tools(module: ast.Module, new: NewTool) -> tuple[ast.stmt, ast.Tuple | ast.List]:
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="TOOLS")], value=value) | ast.AnnAssign(target=ast.Name(id="TOOLS"), value=value):
                if isinstance(value, ast.Tuple | ast.List):
                    return node, value
    raise OtherShape(f"tools.py of {new.world} has no `TOOLS = (...)`", new)


def _insert_entry(lines: list[str], listed: ast.Tuple | ast.List, entry: str) -> None:
    """Put `entry` behind the last element; the comma that may follow it goes behind the new one. Columns count bytes."""
    last = listed.elts[-1] if listed.elts else None
    at, column = (last.end_lineno, last.end_col_offset) if last else (listed.lineno, listed.col_offset + 1)
    assert at is not None
    assert column is not None
    line = lines[at - 1].encode()
    between = b",\n    " if last else b"\n    "
    lines[at - 1] = (line[:column] + between + entry.encode() + (b"" if last else b",\n") + line[column:]).decode()


def _after_imports(module: ast.Module) -> int:
    """The line behind the last import at the top; behind the docstring where there is none."""
    imports = [node.end_lineno or 0 for node in module.body if isinstance(node, ast.Import | ast.ImportFrom)]
    first = module.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return max(imports, default=(first.end_lineno or 0) if is_docstring else 0)


def _imports(names: tuple[str, ...]) -> str:
    modules = sorted({NEEDED[name] for name in names})
    return "".join(f"from {module} import {', '.join(name for name in names if NEEDED[name] == module)}\n" for module in modules)
