"""One episode over stdin and stdout, for any program that starts tool servers as processes.

Streams are those of the event loop, not files that threads read: a thread that waits for stdin cannot be ended by a signal.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import anyio
from mcp.server.stdio import stdio_server

from wardian.rollouts.errors import UsageProblem
from wardian.trainers.mcp.local import LocalEpisode
from wardian.trainers.mcp.server import episode_server

_log = logging.getLogger(__name__)
LINE_BYTES = 16 << 20


class Wire:
    """The two ends of the line to the client. `take` it before anything can print; what is printed goes to stderr from then on."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    @classmethod
    def take(cls) -> "Wire":
        """Take stdin and stdout away from the rest of this process and from what it starts."""
        taken = cls(os.dup(0), os.dup(1))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        return taken

    async def open(self) -> "Line":
        """The streams of this event loop.

        Raises:
            UsageProblem: stdin or stdout is a file, and no pipe to a client.
        """
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LINE_BYTES)
        try:
            await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._incoming, "rb", 0))
            transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(self._outgoing, "wb", 0))
        except ValueError as error:
            raise UsageProblem(
                "stdin, stdout: a client's pipes are needed, and not files; a client starts this command by itself"
            ) from error
        return Line(_Lines(reader), _Answers(asyncio.StreamWriter(transport, protocol, None, loop)))


class _Lines:
    """What the client says, line by line, until it closes or says one that is too long."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[str]:
        try:
            while line := await self._reader.readline():
                yield line.decode("utf-8", "replace")
        except ValueError:
            _log.warning("the client sent a line of more than %d bytes; nothing more is read from it", LINE_BYTES)


class _Answers:
    """What the client is told. One that no longer reads is told nothing."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode("utf-8", "backslashreplace"))

    async def flush(self) -> None:
        try:
            await self._writer.drain()
        except ConnectionError:
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Line:
    """The open line to the client."""

    lines: _Lines
    answers: _Answers


@dataclass(slots=True)
class Serving:
    """One begun episode on one line."""

    episode: LocalEpisode
    line: Line
    leaving: bool = False
    """The client has closed its end, and what was done is being judged."""

    async def run(self) -> None:
        """Serve until the client leaves; then have what was done judged, unless it was. Cancelling gives the episode up."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self.episode.run)
                await self._serve()
                self.leaving = True
                await self.episode.leave()
                group.cancel_scope.cancel()
        finally:
            self.episode.give_up("the client left before anything was done, or in the middle of a call" if self.leaving else "interrupted")

    async def _serve(self) -> None:
        server = episode_server(self.episode)
        async with stdio_server(self.line.lines, self.line.answers) as (read, write):  # type: ignore[arg-type] # of files it uses no more than these have
            await server.run(read, write, server.create_initialization_options())
