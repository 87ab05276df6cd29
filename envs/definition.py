"""What a world is made of. One `WorldDefinition` per folder below `envs/worlds/`, made by its `definition()`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wardian.envs.approvals import SetScope
from wardian.envs.attack import Allowance, Attack
from wardian.envs.conversation import Channel
from wardian.envs.errors import TaskError
from wardian.envs.events import EventHandler
from wardian.envs.family import Family
from wardian.envs.variants import Operator
from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.imports import ImportedDatabase
from wardian.sandbox.files import FileLayer
from wardian.sandbox.world import World
from wardian.tools.contract import Tool


@dataclass(frozen=True, slots=True)
class WorldDefinition:
    name: str
    version: str
    title: str
    policy: str
    """The policy manual that the agent must follow, as text."""
    template: TemplateSource
    tools: tuple[Tool[Any], ...]
    families: tuple[Family, ...]
    files: FileLayer = field(default_factory=lambda: FileLayer({}))
    """Files of every episode of this world."""
    scopes_of: Callable[[World, str], frozenset[str]] = lambda world, agent_id: frozenset()
    """Scopes that an agent holds, read from world state (revoked ones are taken off by the toolbox)."""
    set_scope: SetScope | None = None
    """Writes into world state whether an agent holds a scope. `None`: what a fault takes away is gone in the episode's memory only, and
    nothing can be granted."""
    events: Mapping[str, EventHandler] = field(default_factory=dict)
    """How background events are carried out, by kind."""
    channel: Channel = Channel()  # noqa: RUF009 - frozen
    """Where what a customer says is kept, for families with a customer."""
    operators: tuple[Operator, ...] = ()
    """What makes variants of its tasks, beside the operator `fault`, which every world has."""
    needs_cell: bool = True
    attacks: Mapping[str, tuple[Attack, ...]] = field(default_factory=dict)
    """Failures that look like success, by family; `wardian redteam` plays them."""
    allowances: tuple[Allowance, ...] = ()
    """What may be otherwise in a solved state; `wardian mutate` counts the rest."""
    imported: ImportedDatabase | None = None
    """The database of somebody's own that the world is on; `template` then says nothing but its name."""

    def family(self, name: str) -> Family:
        """The family of that name.

        Raises:
            TaskError: there is none; the message lists those that are.
        """
        for family in self.families:
            if family.name == name:
                return family
        raise TaskError(f"family: {self.name} has no {name!r}; it has {', '.join(f.name for f in self.families)}")
