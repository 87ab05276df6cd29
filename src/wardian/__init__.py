"""Wardian: sealed, resettable worlds for LLM agents.

The five packages below this name (`sandbox`, `tools`, `envs`, `rollouts`, `trainers`) are folders at the top of the
repository, linked here, so that an installed wheel adds one top-level name only.
"""

__version__ = "0.1.0"
