"""The tool `shell`: one command in the chamber, as the agent.

Each call is a shell of its own; nothing but files outlives it. A command that failed, one that could not start and one that was ended are
three outcomes; a broken sandbox is none of them and raises.
"""

from typing import Any

from pydantic import Field

from wardian.sandbox.cell import Command, ExecOutcome, ExecResult
from wardian.tools.contract import Arguments, Json, Latency, Refusal, Source, Status, Tool, ToolContext
from wardian.tools.packs.text import is_shown_exactly, shown

OUTPUT_CAP_BYTES = 16 * 1024
"""For each of stdout and stderr; what is above it is cut from the middle."""
RUNTIME_LIMIT_S = 600
DEFAULT_LIMIT_S = 30


class ShellArguments(Arguments):
    command: str = Field(description="Script for bash, several lines if you like.", min_length=1)
    timeout_s: int = Field(default=DEFAULT_LIMIT_S, ge=1, le=RUNTIME_LIMIT_S, description="The command is ended after this time.")


async def run(context: ToolContext, arguments: ShellArguments) -> Json:
    """Run the command once; never again, whatever happens."""
    command = Command(script=arguments.command, timeout_s=float(arguments.timeout_s), output_cap_bytes=OUTPUT_CAP_BYTES)
    done = await context.cell.exec(command)
    for name, stream in (("stdout", done.stdout), ("stderr", done.stderr)):
        if not is_shown_exactly(stream):
            context.attach(name, stream.data)
    if done.outcome is ExecOutcome.TIMED_OUT:
        context.inexact = f"the command ran into its limit of {arguments.timeout_s} s of real time"
        context.extra_ms = arguments.timeout_s * 1000
        raise Refusal(Status.TIMEOUT, _timeout_message(arguments.timeout_s), _answer(done))
    if done.outcome is ExecOutcome.OUT_OF_MEMORY:
        context.inexact = "the command ran out of memory"
    return _answer(done)


def _timeout_message(limit_s: int) -> str:
    return (
        f"The command did not end within {limit_s} s and was ended with all its processes; what it had done stays done. "
        f"Give a larger timeout_s (at most {RUNTIME_LIMIT_S}), or start a server in the background within the command that uses it."
    )


_NOTES = {
    ExecOutcome.OUT_OF_MEMORY: "The command needed more memory than there is and was ended.",
    ExecOutcome.COULD_NOT_START: "The command could not be started; nothing ran.",
    ExecOutcome.KILLED: "The command was ended by a signal.",
}


def _answer(done: ExecResult) -> dict[str, Json]:
    answer: dict[str, Json] = {
        "outcome": done.outcome.value,
        "exit_code": done.exit_code,
        "stdout": shown(done.stdout),
        "stderr": shown(done.stderr),
    }
    cut = {name: stream.total_bytes for name, stream in (("stdout", done.stdout), ("stderr", done.stderr)) if stream.truncated}
    if cut:
        answer["cut_from_bytes"] = cut
    notes = [f"{_NOTES[done.outcome]} {done.detail}".strip()] if done.outcome in _NOTES else []
    if done.left_behind:
        # Not how many: that depends on timing, and an observation must not.
        notes.append("Background processes were still running when the command ended, and were ended with it.")
    if notes:
        answer["note"] = " ".join(notes)
    return answer


SHELL: Tool[Any] = Tool(
    name="shell",
    description=(
        "Run a command with bash and get its outcome, exit code, stdout and stderr. Each call is a fresh shell: working directory, "
        "variables, options and background processes do not carry over, files do. There is no terminal and no input. Long output is "
        "cut in the middle; its true size is given."
    ),
    arguments=ShellArguments,
    handler=run,
    source=Source.CELL,
    mutates=True,
    idempotent=False,
    errors=(Status.TIMEOUT,),
    latency=Latency(50, 300),
)
