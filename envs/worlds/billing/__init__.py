"""The support desk of a subscription company: disputes about money, evidence in files, tools that fail."""

from wardian.envs.definition import WorldDefinition
from wardian.envs.resources import file_layer, read_text
from wardian.envs.worlds.billing import schema, seed
from wardian.envs.worlds.billing.families import FAMILIES
from wardian.envs.worlds.billing.tools import TOOLS
from wardian.envs.worlds.billing.tools.running import SHELL
from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.world import World
from wardian.tools.packs.files import file_tools
from wardian.tools.packs.waiting import WAIT


def definition() -> WorldDefinition:
    """Make the world."""
    return WorldDefinition(
        name="billing",
        version="2",
        title="Support desk of a subscription company",
        policy=read_text(__name__, "POLICY.md"),
        template=TemplateSource("billing", schema.Base.metadata, seed.seed_rows, builder_modules=(seed.__name__, schema.__name__)),
        tools=(*TOOLS, SHELL, *file_tools(), WAIT),
        families=FAMILIES,
        files=file_layer(__name__),
        scopes_of=scopes_of,
    )


def scopes_of(world: World, agent_id: str) -> frozenset[str]:
    """What an agent holds, by the table of agents; nothing for an unknown one."""
    assert world.database is not None
    with world.database.transaction() as session:
        found = session.get(schema.Agent, agent_id)
        return frozenset(found.scopes) if found else frozenset()
