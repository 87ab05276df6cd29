"""Model routing: the smallest world. One query, two models that may answer it, no container."""

from wardian.envs.definition import WorldDefinition
from wardian.envs.resources import read_text
from wardian.envs.worlds.routing.attacks import ALLOWANCES, ATTACKS
from wardian.envs.worlds.routing.families.query import ModelRouting
from wardian.envs.worlds.routing.schema import Base
from wardian.envs.worlds.routing.tools import TOOLS
from wardian.sandbox.database.base import TemplateSource


def definition() -> WorldDefinition:
    """Make the world."""
    return WorldDefinition(
        name="routing",
        version="2",
        title="A desk that routes a query to a model",
        policy=read_text(__name__, "POLICY.md"),
        template=TemplateSource("routing", Base.metadata, lambda session, seed: None),
        tools=TOOLS,
        families=(ModelRouting(),),
        needs_cell=False,
        attacks=ATTACKS,
        allowances=ALLOWANCES,
    )
