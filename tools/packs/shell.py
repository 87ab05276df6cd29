"""The tool `shell`: one command in the chamber, as the agent.

Each call is a shell of its own; nothing but files outlives it. A command that failed, one that could not start and one that was ended are
three outcomes; a broken sandbox is none of them and raises. Output that is too long to be shown is cut in the middle and kept in a file.
"""

from typing import Any

from pydantic import Field

from wardian.sandbox.cell import Captured, Command, ExecOutcome, ExecResult
from wardian.tools.contract import Arguments, Json, Latency, Refusal, Source, Status, Tool, ToolContext
from wardian.tools.packs.keeping import KEPT_BYTES, KEPT_FILES, keep
from wardian.tools.packs.text import cut, is_shown_exactly, shown

OUTPUT_CAP_BYTES = 16 * 1024
"""Shown of each of stdout and stderr; what is above it is cut from the middle."""
RUNTIME_LIMIT_S = 600
DEFAULT_LIMIT_S = 30


class ShellArguments(Arguments):
    command: str = Field(description="Script for bash, several lines if you like.", min_length=1)
    timeout_s: int = Field(default=DEFAULT_LIMIT_S, ge=1, le=RUNTIME_LIMIT_S, description="The command is ended after this time.")


async def run(context: ToolContext, arguments: ShellArguments) -> Json:
    """Run the command once; never again, whatever happens."""
    command = Command(script=arguments.command, timeout_s=float(arguments.timeout_s), output_cap_bytes=KEPT_BYTES)
    done = await context.cell.exec(command)
    streams = {"stdout": cut(done.stdout, OUTPUT_CAP_BYTES), "stderr": cut(done.stderr, OUTPUT_CAP_BYTES)}
    for name, stream in streams.items():
        if not is_shown_exactly(stream):
            context.attach(name, stream.data)
    if done.outcome is ExecOutcome.TIMED_OUT:
        context.inexact = f"the command ran into its limit of {arguments.timeout_s} s of real time"
        context.extra_ms = arguments.timeout_s * 1000
        raise Refusal(Status.TIMEOUT, _timeout_message(arguments.timeout_s), _answer(done, streams, {}))
    if done.outcome is ExecOutcome.OUT_OF_MEMORY:
        context.inexact = "the command ran out of memory"
        return _answer(done, streams, {})
    whole = {"stdout": done.stdout, "stderr": done.stderr}
    kept = {name: await keep(context, whole[name]) for name, stream in streams.items() if stream.truncated}
    return _answer(done, streams, kept)


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


def _answer(done: ExecResult, streams: dict[str, Captured], kept: dict[str, str | None]) -> dict[str, Json]:
    answer: dict[str, Json] = {"outcome": done.outcome.value, "exit_code": done.exit_code}
    answer |= {name: shown(stream) for name, stream in streams.items()}
    if cut_from := {name: stream.total_bytes for name, stream in streams.items() if stream.truncated}:
        answer["cut_from_bytes"] = cut_from
    if kept_in := {name: path for name, path in kept.items() if path is not None}:
        answer["kept_in"] = kept_in
    notes = [f"{_NOTES[done.outcome]} {done.detail}".strip()] if done.outcome in _NOTES else []
    if done.left_behind:
        # Not how many: that depends on timing, and an observation must not.
        notes.append("Background processes were still running when the command ended, and were ended with it.")
    if None in kept.values():
        notes.append("What was cut could not be kept in a file.")
    if notes:
        answer["note"] = " ".join(notes)
    return answer


SHELL: Tool[Any] = Tool(
    name="shell",
    description=(
        "Run a command with bash and get its outcome, exit code, stdout and stderr. Each call is a fresh shell: working directory, "
        "variables, options and background processes do not carry over, files do. There is no terminal and no input. Output longer than "
        f"{OUTPUT_CAP_BYTES // 1024} KiB is cut in the middle; its true size is given, and kept_in names a file with up to "
        f"{KEPT_BYTES >> 20} MiB of it (of the last {KEPT_FILES})."
    ),
    arguments=ShellArguments,
    handler=run,
    version=2,
    source=Source.CELL,
    mutates=True,
    idempotent=False,
    errors=(Status.TIMEOUT,),
    latency=Latency(50, 300),
)
