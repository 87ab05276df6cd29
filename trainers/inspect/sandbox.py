"""Inspect's sandbox over a cell: each sample gets a restored, proven cell of one shared pool, and gives it back at its end.

What differs from Inspect's own providers, each for a reason:

- A command that timed out is never run again (`timeout_retry`): it may have had its effect.
- What a command leaves running is ended with it, so nothing outlives a call. Tools of Inspect that keep a server in the sandbox
  (`bash_session`, `exec_remote`, MCP servers there) do not work.
- There is one user, without any privilege. Another one, `root` too, is refused by `SandboxUserUnsupportedError`.
- A command ends after an hour where no shorter limit is given.
- A cell that the agent killed is `SandboxUnavailableError`, which the model reads and the sample outlives; one that is lost through
  us raises as it is, and the sample errors.
"""

import asyncio
import posixpath
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)

from wardian.sandbox.cell import Command, ExecOutcome, Tier
from wardian.sandbox.cell import ExecResult as Ran
from wardian.sandbox.errors import CellDied, CellTimeout, DeathCause, FileProblem
from wardian.sandbox.files import FileEntry, FileKind, FileLayer
from wardian.sandbox.lease import Lease
from wardian.sandbox.pool import CellPool
from wardian.trainers.inspect.cells import POOLS, open_cells
from wardian.trainers.inspect.config import CellConfig, config_from, default_places
from wardian.trainers.inspect.problems import could_not_start, file_error

LONGEST_S = 3600.0
ARGUMENTS_BYTES = 24 * 1024
"""Longer arguments go to the shell as a script, by a descriptor; the request itself takes no more than twice that."""
READ_BYTES = 8 << 20
"""Of a file, at once."""
AGENT = "agent"


@sandboxenv(name="wardian")
class CellSandbox(SandboxEnvironment):
    """One sample's cell."""

    def __init__(self, pool: CellPool, lease: Lease) -> None:
        super().__init__()
        self._pool, self._lease = pool, lease
        self._given_back = False
        self._death: CellDied | CellTimeout | None = None

    # Life

    @classmethod
    def default_concurrency(cls) -> int:
        """Samples at once, where nothing else is said."""
        return default_places()

    @classmethod
    def config_files(cls) -> list[str]:
        """The file that Inspect finds beside a task."""
        return ["wardian-cells.yaml"]

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> CellConfig:
        """Read a configuration from a log."""
        return CellConfig.model_validate(config)

    @classmethod
    async def task_init(cls, task_name: str, config: Any) -> None:
        """Open the pool for all samples of this configuration."""
        found, size = _key(config)
        await POOLS.take((found, size), lambda: open_cells(found, size))

    @classmethod
    async def task_cleanup(cls, task_name: str, config: Any, cleanup: bool) -> None:
        """Close the pool. Cells do not outlive the process that made them, so there is nothing to keep without `cleanup` either."""
        if not cleanup:
            print("wardian: cells end with the run that made them; none is kept")
        await POOLS.give_back(_key(config))

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        """Borrow a cell; waits until one is free. It goes back when the sample's task ends, where no cleanup was asked for."""
        pool = await POOLS.get(_key(config))
        found = cls(pool, await pool.acquire())
        if (task := asyncio.current_task()) is not None:
            task.add_done_callback(lambda _: found.give_back())
        return {"default": found}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: dict[str, SandboxEnvironment], interrupted: bool) -> None:
        """Give the cell back; what the sample left in it is gone with the chamber."""
        for environment in environments.values():
            environment.as_type(cls).give_back()

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Remove what dead runs left in the engine; with `id`, only the cell of that name."""
        from wardian.trainers.inspect.cleaning import clean

        for line in await clean(id):
            print(line)

    def give_back(self) -> None:
        """End the sample's use of its cell. Idempotent."""
        if not self._given_back:
            self._given_back = True
            self._pool.release(self._lease, lost=self._death is not None)

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        """How a person gets a shell in there.

        Raises:
            NotImplementedError: the cell is a chamber, whose namespaces `docker exec` does not enter: it would show something else.
        """
        cell = self._lease.cell
        if cell.tier is Tier.CHAMBER:
            raise NotImplementedError("a chamber has namespaces of its own, which docker exec does not enter; use the tier 'fresh'")
        command = ["docker", "exec", "-it", "--user", str(cell.agent_uid), "--workdir", cell.spec.workdir, cell.id, cell.spec.shell or "sh"]
        return SandboxConnection(type="wardian", command=shlex.join(command), container=cell.id)

    # Use

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,  # noqa: ASYNC109 - as Inspect declares it
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command once; see the module for what is promised.

        Raises:
            As `SandboxEnvironment.exec`.
        """
        self._check_user(user)
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        long = sum(len(part.encode("utf-8", "replace")) for part in cmd) > ARGUMENTS_BYTES and self._lease.cell.spec.shell
        command = Command(
            argv=() if long else tuple(cmd),
            script=f"exec -- {shlex.join(cmd)}" if long else None,
            stdin=_bytes(input or b""),
            timeout_s=min(timeout if timeout is not None else LONGEST_S, LONGEST_S),
            workdir=self._path(cwd) if cwd else None,
            environment=tuple((env or {}).items()),
            output_cap_bytes=limit,
        )
        with self._watched():
            ran = await self._lease.cell.exec(command)
        if ran.outcome is ExecOutcome.COULD_NOT_START:
            return could_not_start(cmd[0], cwd, ran.detail)
        stdout, stderr = _text(ran.stdout.data), _text(ran.stderr.data)
        if ran.outcome is ExecOutcome.TIMED_OUT:
            raise CommandTimedOut(f"The command did not end within {command.timeout_s:g} s, and was ended.", f"{stdout}{stderr}")
        if ran.stdout.truncated or ran.stderr.truncated:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, f"{stdout}{stderr}")
        return ExecResult(success=ran.exit_code == 0, returncode=_code(ran), stdout=stdout, stderr=stderr + _why(ran))

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file, whole or not at all; its parents are made, and one that is there keeps its mode.

        Raises:
            IsADirectoryError, PermissionError, FileNotFoundError, OSError: as their names say.
        """
        path, cell = self._path(file), self._lease.cell
        with self._watched(file):
            mode = await self._mode_of(file, path)
            await cell.write_files(FileLayer({path: FileEntry(_bytes(contents), mode)}))

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Read a whole file.

        Raises:
            FileNotFoundError, IsADirectoryError, PermissionError: as their names say.
            UnicodeDecodeError: it is no UTF-8, and `text` was asked for.
            OutputLimitExceededError: it is larger than Inspect's limit.
        """
        path, limit, parts, size = self._path(file), SandboxEnvironmentLimits.MAX_READ_FILE_SIZE, [], 0
        with self._watched(file):
            while True:
                found = await self._lease.cell.read_file(path, offset=size, max_bytes=min(READ_BYTES, limit + 1))
                parts.append(found.data)
                size += len(found.data)
                if max(size, found.size_bytes) > limit:
                    raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
                if not found.data or size >= found.size_bytes:
                    break
        data = b"".join(parts)
        return data.decode("utf-8") if text else data

    def default_polling_interval(self) -> float:
        """Seconds between looks of Inspect's services; a look costs some milliseconds here."""
        return 0.2

    async def _mode_of(self, file: str, path: str) -> int:
        """Bits for what is written at `path`. A file is replaced, which its directory decides; Inspect wants the file's own bits to."""
        try:
            found = await self._lease.cell.stat(path)
        except FileProblem:
            return 0o644  # it is not there, or writing will say why not
        if found.kind is not FileKind.FILE:
            return 0o644
        if found.uid == self._lease.cell.agent_uid and not found.mode & 0o200:
            raise PermissionError(13, "Permission denied", file)
        return found.mode & 0o777

    def _path(self, name: str) -> str:
        return posixpath.normpath(posixpath.join(self._lease.cell.spec.workdir, name))

    def _check_user(self, user: str | None) -> None:
        uid = self._lease.cell.agent_uid
        if user not in (None, AGENT, str(uid)):
            raise SandboxUserUnsupportedError(
                f"a cell has one user, without privileges ({AGENT}, uid {uid}); it cannot run a command as {user!r}"
            )

    @contextmanager
    def _watched(self, file: str | None = None) -> Iterator[None]:
        """Around what asks the cell: errors become those that Inspect prescribes, and a lost cell is lost for good."""
        try:
            if self._death is not None:
                raise self._death
            yield
        except FileProblem as problem:
            raise file_error(problem, file or problem.path) from problem
        except (CellDied, CellTimeout) as death:
            self._death = death
            if isinstance(death, CellDied) and death.cause is DeathCause.POLICY:
                raise SandboxUnavailableError(f"The machine ended by what ran in it: {death.detail}") from death
            raise


class CommandTimedOut(TimeoutError):
    """Carries what the command had printed, as Inspect's own error does."""

    def __init__(self, message: str, truncated_output: str) -> None:
        super().__init__(message)
        self.truncated_output = truncated_output


def _key(config: Any) -> tuple[CellConfig, int]:
    found = config_from(config)
    return found, found.cells or CellSandbox.default_concurrency()


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _code(ran: Ran) -> int:
    return ran.exit_code if ran.exit_code is not None else 137


def _why(ran: Ran) -> str:
    return "\nEnded: the command used more memory than it may.\n" if ran.outcome is ExecOutcome.OUT_OF_MEMORY else ""
