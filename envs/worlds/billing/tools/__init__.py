"""Tools of the support desk: what looks, what acts."""

from wardian.envs.worlds.billing.tools.acting import ACTING
from wardian.envs.worlds.billing.tools.ledger import LEDGER
from wardian.envs.worlds.billing.tools.reading import READING

TOOLS = (*READING, *ACTING, *LEDGER)

__all__ = ["TOOLS"]
