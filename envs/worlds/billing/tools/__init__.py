"""Tools of the support desk: what looks, what acts, what shows which accounts belong together; and those of the packs."""

from typing import Any

from wardian.envs.approvals import REQUEST_APPROVAL
from wardian.envs.worlds.billing.tools.acting import ACTING
from wardian.envs.worlds.billing.tools.ledger import LEDGER
from wardian.envs.worlds.billing.tools.links import LINKING
from wardian.envs.worlds.billing.tools.reading import READING
from wardian.envs.worlds.billing.tools.running import SHELL
from wardian.tools.contract import Tool
from wardian.tools.packs.files import file_tools
from wardian.tools.packs.waiting import WAIT

TOOLS = (*READING, *ACTING, *LEDGER, *LINKING)
"""The desk's own."""
DESK: tuple[Tool[Any], ...] = (*READING, *ACTING, *LEDGER, SHELL, *file_tools(notes=True), WAIT, REQUEST_APPROVAL)
"""What the agent has in every task."""
EVERY = (*DESK, *LINKING)

__all__ = ["DESK", "EVERY", "LINKING", "TOOLS"]
