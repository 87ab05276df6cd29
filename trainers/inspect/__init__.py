"""Inspect AI on Wardian: a sandbox provider over a cell, and a task whose tools and verdicts are a world's. Needs the extra `inspect`.

Inspect imports this module by itself (entry point group `inspect_ai`), which registers

| name | what |
| --- | --- |
| `sandbox="wardian"` | commands and files of a sample in a cell of its own |
| `wardian/task` | a world's tasks, its tools from our schemas, a score from the world's state |

`wardian.trainers.inspect:wardian_task` is the same task for Python.
"""

try:
    from wardian.trainers.inspect.config import CellConfig
    from wardian.trainers.inspect.sandbox import CellSandbox
    from wardian.trainers.inspect.task import wardian_task
    from wardian.trainers.inspect.tools import EpisodeTools
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; `pip install 'wardian[inspect]'` brings what this needs", name=error.name) from error

__all__ = ["CellConfig", "CellSandbox", "EpisodeTools", "wardian_task"]
