"""Answers in git: what the repositories of an image hold beside the past of what is checked out.

An image for a task is often a clone at an old commit, and the clone knows the later ones, the solution among them. Whatever HEAD does not
reach counts, whatever its date: a HEAD that was committed when the image was made is younger than the solution beside it.

Repositories are found in the image's tree as the engine exports it; nothing of the image runs for that. They are read in a cell, as an
agent and by the image's own git, as an agent would read them. Programs that a repository's configuration names are not run.
"""

import tarfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

from wardian.sandbox.cell import Captured, Cell, CellSpec, Command, ExecOutcome, Limits, Tier
from wardian.sandbox.docker_cell import make_cell
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import FileProblem, FileProblemKind
from wardian.sandbox.files import FileEntry, FileLayer
from wardian.sandbox.probe import UID

PARTS = frozenset({"HEAD", "objects", "refs"})
"""What every repository has in its folder, a bare one too."""
HOME = "/tmp/looking"
SETTINGS = b"[safe]\n\tdirectory = *\n[core]\n\tfsmonitor = false\n\thooksPath = /dev/null\n"
ENVIRONMENT = (("HOME", HOME), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_NO_LAZY_FETCH", "1"), ("GIT_NO_REPLACE_OBJECTS", "1"))
GIT = ("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
LIMITS = Limits(memory_mib=1024, disk_mib=8, shm_mib=1)
LOOK_S = 600
SHOWN = 3
OUTPUT_BYTES = 1 << 20


class Unreadable(Exception):
    """A repository cannot be looked at; says why."""


@dataclass(frozen=True, slots=True)
class History:
    """What came of looking at one repository."""

    repository: str
    commits: int = 0
    """Commits of a branch, tag or reflog that HEAD does not reach."""
    objects: int = 0
    """Objects that nothing leads to, at least."""
    shown: tuple[str, ...] = ()
    """Some of those commits: hash, date, names that lead there, first line."""
    problem: str = ""
    """Why nobody knows; else empty."""

    @property
    def clean(self) -> bool:
        """Whether there is nothing but HEAD and its past."""
        return not (self.commits or self.objects or self.problem)

    def __str__(self) -> str:
        if self.problem:
            return f"{self.repository}: cannot be looked at: {self.problem}"
        found = f"{self.commits} commits that HEAD does not reach, {self.objects} objects that nothing leads to"
        return f"{self.repository}: {found if not self.clean else 'nothing but HEAD and its past'}"


def repositories(chunks: Iterator[bytes]) -> tuple[str, ...]:
    """The folders of all git repositories of a file tree, which comes as a tar stream; sorted."""
    parts: dict[str, set[str]] = defaultdict(set)
    stream = cast("BinaryIO", _Stream(chunks))  # a stream is only read, whatever its declared type says
    with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as archive:
        while (entry := archive.next()) is not None:
            folder, _, name = entry.name.rpartition("/")
            if name in PARTS:
                parts[f"/{folder}"].add(name)
            archive.members.clear()  # type: ignore[attr-defined]  # it keeps every entry else, and an image can have a million
    return tuple(sorted(folder for folder, found in parts.items() if found == PARTS))


class _Stream:
    """Chunks as tarfile reads them: the size asked for, less at the end alone."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, bytearray()

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
        taken = bytes(self._rest[:size])
        del self._rest[:size]
        return taken


async def histories(engine: Engine, image: str, tier: Tier, folders: Sequence[str]) -> tuple[History, ...]:
    """Look at the repositories in `folders` of `image`, each as an agent sees it. One that no agent may read is clean.

    Raises:
        SandboxError: the cell is lost.
    """
    cell = make_cell(CellSpec(image, tier=tier, limits=LIMITS), engine, UID)
    try:
        await cell.start()
        await cell.restore()
        await cell.write_files(FileLayer({f"{HOME}/.gitconfig": FileEntry(SETTINGS)}))
        return tuple([await _history(cell, folder) for folder in folders])
    finally:
        await cell.stop()


async def _history(cell: Cell, folder: str) -> History:
    try:
        await cell.read_file(f"{folder}/HEAD", max_bytes=1)
    except FileProblem as problem:
        if problem.kind is FileProblemKind.PERMISSION_DENIED:
            return History(folder)
    try:
        return await _looked(cell, folder)
    except Unreadable as problem:
        return History(folder, problem=str(problem))


async def _looked(cell: Cell, folder: str) -> History:
    beyond = ["--all", "--reflog"]
    head = await _git(cell, folder, "rev-parse", "-q", "--verify", "HEAD^{commit}", unborn=True)
    if head.data:
        beyond += ["--not", "HEAD"]
    commits = int((await _git(cell, folder, "rev-list", "--count", *beyond)).text())
    shown = await _shown(cell, folder, *beyond) if commits else ()
    listed = await _git(cell, folder, "fsck", "--unreachable", "--connectivity-only", "--no-progress")
    lost = [line.split()[1:] for line in listed.text().splitlines() if line.startswith("unreachable ")]
    if ends := [name for kind, name in lost if kind == "commit"][: SHOWN - len(shown)]:
        shown += await _shown(cell, folder, "--no-walk", *ends)
    return History(folder, commits, len(lost), shown)


async def _shown(cell: Cell, folder: str, *which: str) -> tuple[str, ...]:
    lines = await _git(cell, folder, "log", f"-{SHOWN}", "--no-show-signature", "--date=short", "--format=%h %cd%d %s", *which)
    return tuple(lines.text().splitlines())


async def _git(cell: Cell, folder: str, *arguments: str, unborn: bool = False) -> Captured:
    """What a git command wrote. `unborn`: it may end with 1, which says that there is none."""
    argv = (*GIT, f"--git-dir={folder}", *arguments)
    done = await cell.exec(Command(argv=argv, timeout_s=LOOK_S, environment=ENVIRONMENT, output_cap_bytes=OUTPUT_BYTES))
    if done.outcome is ExecOutcome.COULD_NOT_START:
        raise Unreadable("the image has no git that an agent can start, and its objects can be read without; add git, or remove the folder")
    if done.exit_code not in ((0, 1) if unborn else (0,)):
        said = done.stderr.text().strip()[-300:]
        raise Unreadable(f"`git {arguments[0]}` {done.outcome.value} with {done.exit_code}: {said}")
    return done.stdout
