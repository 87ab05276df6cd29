"""The support desk of a subscription company: disputes about money, evidence in files, tools that fail."""

from sqlalchemy.orm import Session

from wardian.envs.definition import WorldDefinition
from wardian.envs.resources import file_layer, read_text
from wardian.envs.worlds.billing import schema, seed
from wardian.envs.worlds.billing.attacks import ALLOWANCES, ATTACKS
from wardian.envs.worlds.billing.customer import CHANNEL
from wardian.envs.worlds.billing.events import EVENTS
from wardian.envs.worlds.billing.families import FAMILIES
from wardian.envs.worlds.billing.tools import EVERY
from wardian.envs.worlds.billing.variants import OPERATORS
from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.world import World


def definition() -> WorldDefinition:
    """Make the world."""
    return WorldDefinition(
        name="billing",
        version="6",
        title="Support desk of a subscription company",
        policy=read_text(__name__, "POLICY.md"),
        template=TemplateSource(
            "billing", schema.Base.metadata, seed.seed_rows, seed.SEED, builder_modules=(seed.__name__, schema.__name__)
        ),
        tools=EVERY,
        families=FAMILIES,
        files=file_layer(__name__),
        scopes_of=scopes_of,
        set_scope=set_scope,
        events=EVENTS,
        operators=OPERATORS,
        channel=CHANNEL,
        attacks=ATTACKS,
        allowances=ALLOWANCES,
    )


def scopes_of(world: World, agent_id: str) -> frozenset[str]:
    """What an agent holds, by the table of agents; nothing for an unknown one."""
    assert world.database is not None
    with world.database.transaction() as session:
        found = session.get(schema.Agent, agent_id)
        return frozenset(found.scopes) if found else frozenset()


def set_scope(session: Session, agent_id: str, scope: str, held: bool) -> None:
    """Give an agent a scope, or take it away, in the table of agents."""
    found = session.get(schema.Agent, agent_id)
    assert found is not None, f"{agent_id} does not work here"
    found.scopes = sorted({*found.scopes, scope} if held else {*found.scopes} - {scope})
