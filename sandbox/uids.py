"""A uid of its own for each cell on this host.

The kernel counts processes, inotify watches, message queues and pending signals per uid, whatever container they are in. So two
cells of one uid could exhaust each other. A uid is claimed by an advisory lock on a file that carries its number; the kernel
gives it back when the claiming process ends, however it ends. Lowest free uids first, so that a machine with one run at a time
always uses the same ones, and a replay meets the uids that were recorded.
"""

import fcntl
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from wardian.sandbox.errors import CellUnavailable

FIRST_UID = 20_000
MOST_UIDS = 10_000


def default_directory() -> Path:
    """Where the lock files are: one folder for all users of a host, writable to each like the temporary folder itself."""
    return Path(tempfile.gettempdir()) / "wardian-uids"


class UidClaims:
    """The uids that this process holds for one pool."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory if directory is not None else default_directory()
        self._held: dict[int, int] = {}

    @property
    def held(self) -> tuple[int, ...]:
        """In the order of claiming."""
        return tuple(self._held)

    def claim(self, count: int, wanted: Sequence[int] = ()) -> tuple[int, ...]:
        """Claim `count` uids, those of `wanted` first where they are free; gives the new ones.

        Raises:
            CellUnavailable: so many are not free, or the lock folder cannot be used.
        """
        if count > MOST_UIDS:
            raise CellUnavailable(f"{count} uids for cells wanted; a host has {MOST_UIDS}: ask for fewer cells")
        new: list[int] = []
        candidates = [*dict.fromkeys(wanted), *(uid for uid in range(FIRST_UID, FIRST_UID + MOST_UIDS) if uid not in set(wanted))]
        for uid in candidates:
            if len(new) == count:
                break
            if self._try(uid):
                new.append(uid)
        if len(new) == count:
            return tuple(new)
        for uid in new:
            os.close(self._held.pop(uid))
        raise CellUnavailable(f"{count} uids for cells wanted, {len(new)} free in {self._directory}: end other runs on this host")

    def release(self) -> None:
        """Give all back. Idempotent."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def _try(self, uid: int) -> bool:
        if uid in self._held:
            return False
        try:
            descriptor = self._open(self._directory / str(uid))
        except PermissionError:
            return False
        except OSError as error:
            raise CellUnavailable(f"uid locks in {self._directory}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._held[uid] = descriptor
        return True

    def _open(self, path: Path) -> int:
        """The lock file, made where it is missing. Reading is enough for a lock, so that one user's file serves all."""
        try:
            self._directory.mkdir(parents=True)
            self._directory.chmod(0o1777)  # whatever the umask
        except FileExistsError:
            pass
        try:  # without O_CREAT first: a system may forbid it for another user's file in a folder like this
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            os.fchmod(descriptor, 0o644)
            return descriptor
