"""A shell for a person in a cell: one command after another as the agent, with what a shell remembers carried from each to the next.

There is no terminal on purpose. A terminal would need a way for bytes from outside into a running process of the agent, through the
cell's trusted processes, and it would give what an agent wrote to the person's own terminal, which obeys escape sequences. Here each
command is one `Cell.exec`: bounded, ended with all that was born of it, its output data that the caller shows as it likes.
"""

import secrets
from dataclasses import dataclass
from shlex import quote

from wardian.sandbox.cell import BASH, Cell, Command, ExecOutcome

OUTPUT_CAP_BYTES = 4 << 20
"""Of each stream of one command."""
_REMEMBERED = {True: "declare -p; declare -f; alias -p; shopt -p; set +o", False: "export -p; set"}
"""What prints the state of a shell as a script, by whether it is bash."""
_WAITS = (b"unexpected end of file", b"unexpected EOF", b"by end-of-file", b"end of file unexpected", b"Unterminated quoted string")
"""What bash and dash say of a script that goes on."""


@dataclass(frozen=True, slots=True)
class Answer:
    stdout: bytes
    stderr: bytes
    exit_code: int
    """As a shell shows it: 126 when nothing could be run, 124 when it took too long, 128 + signal."""
    note: str = ""
    """What else happened, for the person."""
    left: bool = False
    """The command was an `exit`, or took the shell's place: the session is over."""


class ShellSession:
    """Run commands one after another. Variables, functions, aliases, options and the working directory carry over; processes do not."""

    def __init__(self, cell: Cell, timeout_s: float = 3600.0) -> None:
        """Begin in the cell's working directory; each command may take `timeout_s`.

        Raises:
            ValueError: the image has no shell.
        """
        if not cell.spec.shell:
            raise ValueError(f"shell: the image {cell.spec.image} has none")
        self._cell, self._timeout_s = cell, timeout_s
        self._is_bash = cell.spec.shell == BASH
        self._mark = f"wardian-{secrets.token_hex(16)}"
        self._state = "shopt -s expand_aliases" if self._is_bash else ""
        self.workdir = cell.spec.workdir

    async def is_incomplete(self, script: str) -> bool:
        """Whether a shell would wait for more lines: an open quote, block or here-document.

        Raises:
            CellDied, CellTimeout: the cell is lost.
        """
        if script.endswith("\\"):
            return True
        told = (await self._cell.exec(Command(argv=(self._cell.spec.shell, "-n", "-c", script), workdir="/"))).stderr.data
        return any(words in told for words in _WAITS)

    async def run(self, script: str) -> Answer:
        """Run one command, of several lines if need be. Cancelling ends it and all that was born of it.

        Raises:
            CellDied, CellTimeout: the cell is lost.
        """
        command = Command(script=self._around(script), workdir="/", timeout_s=self._timeout_s, output_cap_bytes=OUTPUT_CAP_BYTES)
        done = await self._cell.exec(command)
        if done.outcome is ExecOutcome.COULD_NOT_START:
            return Answer(b"", b"", 126, f"nothing was run: {done.detail}")
        cut = done.stdout.truncated
        last, code = self._take(done.stdout.tail if cut else done.stdout.data)
        left_out = f"\n[... cut from {done.stdout.total_bytes} bytes ...]\n".encode()
        stdout = done.stdout.head + left_out + last if cut else last
        if done.outcome is ExecOutcome.TIMED_OUT:
            return Answer(stdout, done.stderr.data, 124, f"ended after {self._timeout_s:g} s")
        if code is not None:
            return Answer(stdout, done.stderr.data, code)
        note = "it ran out of memory" if done.outcome is ExecOutcome.OUT_OF_MEMORY else ""
        return Answer(stdout, done.stderr.data, done.exit_code or 0, note, left=done.outcome is ExecOutcome.EXITED)

    def _around(self, script: str) -> str:
        """The script with what was remembered before it, and with what is to be remembered after it."""
        return f"""{{ eval {quote(self._state)}; }} >/dev/null 2>&1
cd -- {quote(self.workdir)}
eval {quote(script)}
printf '\\n%s %s %s\\0' {self._mark} "$?" "$PWD"; {{ {_REMEMBERED[self._is_bash]}; }} 2>/dev/null"""

    def _take(self, output: bytes) -> tuple[bytes, int | None]:
        """Cut what is to be remembered from the end of an output; the code is `None` when it is not there."""
        shown, mark, rest = output.rpartition(f"\n{self._mark} ".encode())
        if not mark:
            return output, None
        head, _, self._state = rest.decode("utf-8", "surrogateescape").partition("\0")
        code, _, self.workdir = head.partition(" ")
        return shown, int(code)
