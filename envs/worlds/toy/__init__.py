"""The lending desk: the smallest world with every part. Copy this folder to begin a world of your own."""

from wardian.envs.definition import WorldDefinition
from wardian.envs.resources import file_layer, read_text
from wardian.sandbox.database.base import TemplateSource
from wardian.tools.packs.files import file_tools
from wardian.tools.packs.waiting import WAIT

from . import seed
from .attacks import ALLOWANCES, ATTACKS
from .events import EVENTS
from .families.counter import AtTheCounter
from .families.requests import LendingDesk
from .schema import Base
from .tools import TOOLS
from .variants import OPERATORS


def definition() -> WorldDefinition:
    """Make the world."""
    return WorldDefinition(
        name="toy",
        version="4",
        title="A library that lends things",
        policy=read_text(__name__, "POLICY.md"),
        template=TemplateSource("toy", Base.metadata, seed.seed_rows, builder_modules=(seed.__name__,)),
        tools=(*TOOLS, *file_tools(with_shell=False), WAIT),
        families=(LendingDesk(), AtTheCounter()),
        files=file_layer(__name__),
        events=EVENTS,
        attacks=ATTACKS,
        allowances=ALLOWANCES,
        operators=OPERATORS,
        scopes_of=lambda world, agent_id: frozenset({"desk", "workshop"}),
    )
