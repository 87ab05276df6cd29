"""Files that are there whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wardian.rollouts.errors import UsageProblem


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Give a path to write to; what stands there when the block ends is moved to `path`, and removed when the block raises.

    Raises:
        UsageProblem: `path` is there already, or its folder is not.
    """
    if path.exists():
        raise UsageProblem(f"out: {path} is there already; name another file, or remove it first (rm {path})")
    if not path.parent.is_dir():
        raise UsageProblem(f"out: there is no folder {path.parent}; make it first (mkdir -p {path.parent})")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        unfinished.chmod(0o666 & ~_umask())
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _umask() -> int:
    """The process's mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
