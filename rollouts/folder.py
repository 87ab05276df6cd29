"""The folder that a run writes into: made for it, locked against other runs, and left as it was where nothing was written."""

import errno
import fcntl
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wardian.rollouts.errors import LogInUse, UsageProblem

SETTLE_S = 30.0
"""Workers whose parent was killed give up within that."""
POLL_S = 0.05

_log = logging.getLogger(__name__)


@contextmanager
def folder_for_a_run(out: Path | None) -> Iterator[None]:
    """Make `out`, and keep other runs out of it while the block runs. It goes again if the block leaves it empty. `None`: nothing is kept.

    Raises:
        UsageProblem: it cannot be written into; says why, and what to name instead.
        LogInUse: another run is in it.
    """
    if out is None:
        yield
        return
    is_new = not out.exists()
    _make(out)
    handle = os.open(out, os.O_RDONLY)
    try:
        _lock(handle, out)
        yield
    finally:
        os.close(handle)
        if is_new:
            with suppress(OSError):  # as a rule it holds something now
                out.rmdir()


def next_file(out: Path, stem: str) -> Path:
    """A trajectory file in `out` that is not there yet."""
    number = 1
    while (path := out / f"{stem}-{number:03d}.jsonl").exists():
        number += 1
    return path


def await_writers(out: Path) -> None:
    """Wait for workers whose parent was killed, until they have given up.

    Raises:
        LogInUse: one has not, in half a minute.
    """
    deadline = time.monotonic() + SETTLE_S
    for file in sorted(out.glob("*.jsonl")):
        with file.open("rb") as held:
            while not _free(held.fileno()):
                if time.monotonic() > deadline:
                    raise LogInUse(f"{file}: is still being written; wait for its run to end, or choose another folder")
                time.sleep(POLL_S)


def _make(out: Path) -> None:
    if any(not character.isprintable() for character in str(out)):
        raise UsageProblem(f"out: {str(out)!r} holds a line break or another character that cannot be printed; name another folder")
    if out.exists() and not out.is_dir():
        raise UsageProblem(f"out: {out} is a file; name a folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise UsageProblem(f"out: cannot write into {out}: {error.strerror or error}; name another folder") from error


def _lock(handle: int, out: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise LogInUse(f"{out}: another run is writing into it; wait for its end, or choose another folder") from error
        _log.warning("%s: this file system has no locks for folders; see that no other run writes into it", out)


def _free(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
