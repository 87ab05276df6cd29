"""Gymnasium environments of Wardian's worlds, under registered ids. Needs the extra `gym`.

Importing this module registers them, as Gymnasium's own packages do; `gymnasium.make("wardian.trainers.gymnasium:wardian/Routing-v0")`
imports it by itself.

| id | what |
| --- | --- |
| `wardian/Routing-v0` | model routing as numbers: `Discrete` actions, `MultiDiscrete` observations |
| `wardian/Text-v0` | any tool world, `world="toy"`: text in, text out |
"""

import gymnasium

from wardian.trainers.gymnasium.routing import RoutingEnv
from wardian.trainers.gymnasium.text import AnyText
from wardian.trainers.gymnasium.world import EpisodeFailed, ToolWorldEnv

__all__ = ["AnyText", "EpisodeFailed", "RoutingEnv", "ToolWorldEnv"]

ROUTING = "wardian/Routing-v0"
TEXT = "wardian/Text-v0"

gymnasium.register(ROUTING, entry_point=f"{RoutingEnv.__module__}:{RoutingEnv.__name__}")
gymnasium.register(TEXT, entry_point=f"{ToolWorldEnv.__module__}:{ToolWorldEnv.__name__}")
