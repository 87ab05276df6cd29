"""Writes the package by which verifiers finds a world: its name and version, and no logic."""

import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from wardian import __version__
from wardian.envs.definition import WorldDefinition
from wardian.envs.errors import TaskError

URL = "http://127.0.0.1:8900"
"""Where `wardian serve` listens when it is not told otherwise."""
VERIFIERS = "0.4.0"
"""The version that the package is for: verifiers changes its interface between minor versions."""

MODULE = '''\
"""The world `{world}` as a taskset of verifiers, played on a running `wardian serve`. README.md says how."""

from wardian.trainers.verifiers.env import WardianEnv
from wardian.trainers.verifiers.taskset import WardianTaskset

__all__ = ["{prefix}Taskset", "WardianEnv"]


class {prefix}Taskset(WardianTaskset):
    WORLD = "{world}"
    VERSION = {version_text}
'''

PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "{wardian}"
description = "The world {world} of Wardian as a taskset of verifiers"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["wardian[verifiers]=={wardian}", "verifiers=={verifiers}"]

[tool.hatch.build.targets.wheel]
only-include = ["{module}.py"]
"""

EVAL = """\
# vf-eval @ eval.toml --model MODEL --client.base-url URL --client.api-key-var VARIABLE
num_rollouts = 2
push = false # true: verifiers uploads the results to its makers' platform

[select]
limit = 4

[env.taskset]
id = "{distribution}"
url = "{url}"
split = "train"
"""

README = """\
# {distribution}

The world `{world}` (version {version}) of Wardian as a taskset of verifiers {verifiers}. The world itself runs elsewhere, behind
`wardian serve`; this package holds its name and nothing else.

Where there is a container engine:

    wardian serve {asked} --cells 8 --port 8900

Where the model is trained or evaluated:

    pip install . uv
    vf-eval @ eval.toml --model MODEL --client.base-url URL --client.api-key-var VARIABLE

| in `eval.toml` | what it says |
| --- | --- |
| `env.taskset.url` | where the server is |
| `env.taskset.split` | `train` or `eval`; a server that trains serves no other split |
| `env.taskset.token_env` | the variable that holds the server's token, where it wants one: `WARDIAN_API_KEY` |

A server that serves another version of the world is refused: `wardian export verifiers {asked} DIR` makes this package again.
"""


@dataclass(frozen=True, slots=True)
class Names:
    """How a world is called as a package. With a prefix, since the world's own package may have its name."""

    module: str
    distribution: str
    prefix: str
    """Of its class."""

    @classmethod
    def of(cls, world: str) -> "Names":
        """Names made of a world's.

        Raises:
            TaskError: Python can import no module called so.
        """
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", world) or len(world) > 64:
            raise TaskError(
                f"world: {world!r} is no name that a package can have: a letter, then letters, digits, underscores or dashes, 64 at most; "
                "change the name in its definition"
            )
        module = f"wardian_{world.replace('-', '_').lower()}"
        prefix = "".join(part[:1].upper() + part[1:] for part in re.split("[_-]", world))
        return cls(module, module.replace("_", "-"), prefix)


def export_taskset(world: WorldDefinition, asked_for: str, target: Path, url: str) -> Names:
    """Write the package of `world`, which the caller named `asked_for`, as the folder `target`, whole or not at all.

    Raises:
        TaskError: the world's name is none of a package, or `target` is there and not an empty folder, or cannot be written.
    """
    names = Names.of(world.name)
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise TaskError(f"dir: {target} is there and no empty folder, and nothing is overwritten; name another, or remove it first")
    if not target.parent.is_dir():
        raise TaskError(f"dir: there is no folder {target.parent}; make it first")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent, ignore_cleanup_errors=True) as half_made:
            made = Path(half_made) / names.module
            made.mkdir()
            for name, text in _files(world, names, asked_for, url).items():
                (made / name).write_text(text, "utf-8")
            os.rename(made, target)  # an empty folder may be renamed over, and nothing else
    except OSError as error:
        raise TaskError(f"dir: {target} cannot be made: {error.strerror or error}") from error
    return names


def _files(world: WorldDefinition, names: Names, asked_for: str, url: str) -> dict[str, str]:
    told = {
        "world": world.name,
        "version": world.version,
        "version_text": json.dumps(world.version),
        "asked": asked_for,
        "module": names.module,
        "distribution": names.distribution,
        "prefix": names.prefix,
        "wardian": __version__,
        "verifiers": VERIFIERS,
        "url": url,
    }
    parts = {f"{names.module}.py": MODULE, "pyproject.toml": PYPROJECT, "eval.toml": EVAL, "README.md": README}
    return {name: text.format(**told) for name, text in parts.items()}
