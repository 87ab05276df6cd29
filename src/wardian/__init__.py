"""Wardian: sealed, resettable worlds for LLM agents.

The five packages below this name (`sandbox`, `tools`, `envs`, `rollouts`, `trainers`) are folders at the top of the
repository, linked here, so that an installed wheel adds one top-level name only.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wardian.trainers.client import connect

__all__ = ["__version__", "connect"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`connect` is the client of a server; it is loaded when it is asked for."""
    if name == "connect":
        from wardian.trainers.client import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
