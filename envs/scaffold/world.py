"""`wardian new world`: a world of one's own, made from the files of the toy world by rules.

There is no second copy of it: whatever the toy world has, a new world gets. The rules are: the word `toy` becomes the new name, the
version begins at 1, and the package says what it was made from. Added are a test and a README.
"""

import ast
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from wardian.envs import worlds
from wardian.envs.errors import TaskError
from wardian.envs.scaffold.names import check_absent, check_world_name, renamed

ORIGINAL = "toy"
TEXTS = (".py", ".md")
"""Files whose words are renamed; all others are the world's own data."""

HEAD = '''"""The world `{name}`, made from Wardian's toy world: a lending desk. README.md says which file is for what."""'''

TEST = '''\
"""The world `{name}` keeps what every world must keep."""

import anyio

from {name} import definition
from wardian.envs.checker import check_environment
from wardian.envs.registry import open_environment


def test_{name}_keeps_the_contract() -> None:
    world = definition()

    async def walk() -> None:
        await check_environment(lambda faults: open_environment(world, faults=faults), world)

    anyio.run(walk)
'''

README = """\
# {name}

A world for agents, made from Wardian's toy world. It works as it is; change it file by file, and run its test after each.

| file | what is in it |
| --- | --- |
{files}

From the folder that holds `{name}/`:

    wardian run {name}:definition --policy expert
    python -m pytest {name}
    wardian redteam {name}:definition
    wardian mutate {name}:definition

The test needs `pytest` where Wardian is installed: `make check` brings it in a checkout of Wardian, elsewhere `pip install pytest`. It
plays every family under every fault profile, which takes some ten seconds, and more on a busy machine.

The last two attack the verifiers: with the failures of `attacks.py`, which look like success, and with mutants of solved states.
`wardian new tool NAME --world {name}` adds a tool. Raise `version` in `definition()` when episodes of the changed world are no longer
those of the old one: a replay refuses logs of another version.
"""
FILES = {
    "__init__.py": "`definition()`: name, version, policy, tools, families, files",
    "POLICY.md": "The rules that the agent must keep.",
    "files": "Files that stand in `/workspace` when an episode begins.",
}
"""What is in files that do not say it themselves; all others do, in their docstrings."""


def make_world(name: str, into: Path) -> Path:
    """Make the package `name` in the folder `into`, whole or not at all; gives its folder.

    Raises:
        TaskError: the name cannot be used, `into` is no folder that can be written, or something of that name is there.
    """
    check_world_name(name)
    target = into / name
    if not into.is_dir():
        raise TaskError(f"into: there is no folder {into}; make it first")
    check_absent(target)
    check_absent(into / f"{name}.py")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=into, ignore_cleanup_errors=True) as half_made:
            _write(name, Path(half_made) / name)
            target.mkdir()  # takes the name, or fails; an empty folder may be renamed over
            os.rename(Path(half_made) / name, target)
    except OSError as error:
        raise TaskError(f"into: {target} cannot be made: {error.strerror or error}") from error
    return target


def _write(name: str, folder: Path) -> None:
    original = Path(worlds.__file__).parent / ORIGINAL
    for path in sorted(original.rglob("*")):
        inside = path.relative_to(original)
        if path.is_dir() or "__pycache__" in inside.parts:
            continue
        new = folder.joinpath(*(renamed(part, ORIGINAL, name) for part in inside.parts))
        new.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes()
        new.write_bytes(renamed(data.decode("utf-8"), ORIGINAL, name).encode() if path.suffix in TEXTS else data)
    package = folder / "__init__.py"
    package.write_text(_own(package.read_text("utf-8"), name), "utf-8")
    (folder / f"test_{name}.py").write_text(TEST.format(name=name), "utf-8")
    (folder / "README.md").write_text(README.format(name=name, files="\n".join(_described(folder))), "utf-8")


def _described(folder: Path) -> Iterator[str]:
    """A row for each file and folder of the new world, by its own docstring."""
    for path in sorted(folder.iterdir()):
        module = path / "__init__.py" if path.is_dir() else path
        text = FILES.get(path.name) or ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
        first = " ".join(text.partition("\n\n")[0].split())
        yield f"| `{path.name}{'/' if path.is_dir() else ''}` | {first} |"


def _own(source: str, name: str) -> str:
    """The package's source with a docstring of its own and the first version."""
    first = ast.parse(source).body[0]
    assert isinstance(first, ast.Expr), "the toy world's package begins with its docstring"
    rest = source.splitlines(keepends=True)[first.end_lineno or 1 :]
    return HEAD.format(name=name) + "\n" + re.sub(r'(?<=\bversion=)"[^"]*"', '"1"', "".join(rest))
