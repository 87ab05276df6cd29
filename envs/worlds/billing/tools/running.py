"""The shell of the desk: the pack's, and a note in the trusted log of what each command showed."""

from dataclasses import replace
from typing import Any

from wardian.envs.worlds.billing.looks import RAN
from wardian.tools.contract import Json, Tool, ToolContext
from wardian.tools.packs.shell import SHELL as PACK
from wardian.tools.packs.shell import ShellArguments, run


async def run_and_note(context: ToolContext, arguments: ShellArguments) -> Json:
    """Run the command once, and note its exit code and what the agent saw of its output."""
    answer = await run(context, arguments)
    context.note(RAN, exit_code=answer["exit_code"], shown=answer["stdout"])
    return answer


SHELL: Tool[Any] = replace(PACK, handler=run_and_note)
