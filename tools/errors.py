"""What can go wrong in a tool that is nobody's outcome.

    ToolError
    ├── ToolBroken      a tool's own code raised, wrote where it promised not to, or gave what is not JSON
    └── ToolMisdeclared a declaration contradicts itself; found when the tool or the toolbox is made

Whatever an agent can cause is a `ToolResult`. These two are the author's, and end an episode as *failed*.
"""

from typing import Any


class ToolError(Exception):
    """Base of everything that this package raises on purpose."""


class ToolMisdeclared(ToolError):
    """A tool, profile or toolbox contradicts itself; the message names the field and the fix."""


class ToolBroken(ToolError):
    """A handler broke its contract. The arguments are kept, so that the call can be made again."""

    def __init__(self, tool: str, args: Any, detail: str) -> None:
        super().__init__(f"tool {tool} broke on {repr(args)[:500]}: {detail}")
        self.tool = tool
        self.args_given = args
        self.detail = detail
