"""What an agent can have moved in a directory that everybody may write to, where the image's files are another user's."""

import os
from pathlib import Path
from typing import Any

import pytest

from wardian.sandbox.supervisor import AGENT, OVERLAY, Provenance, Unfit

AGENT_UID = 54321


def check(base: Path, rows: list[list[Any]]) -> None:
    top = os.open(base, os.O_RDONLY)
    try:
        Provenance(top, AGENT_UID, rows).check()
    finally:
        os.close(top)


def foreign(path: Path, depth: int, name: str, kind: str, content: Any = None, **attributes: str) -> list[Any]:
    """The entry of something of the base, at another place or name."""
    found = path.stat()
    return [depth, name, kind, found.st_mode & 0o7777, found.st_uid, found.st_gid, found.st_mtime_ns, content, attributes]


def test_what_is_moved_in_an_open_directory_is_taken_and_what_has_no_source_is_not(tmp_path: Path) -> None:
    app = tmp_path / "app"
    (app / "kept").mkdir(parents=True)
    app.chmod(0o777)
    (app / "old").write_text("four")
    (app / "old").chmod(0o644)
    top = foreign(app, 1, "app", "directory")
    moved, away = foreign(app / "old", 2, "new", "file", [4, [[0, 4]]]), [2, "old", "whiteout", 0, 0, 0, 0, None, {}]
    check(tmp_path, [top, moved, away])
    for rows in ([top, moved], [top, [*moved[:3], 0o4644, *moved[4:]], away], [top, [*moved[:7], [5, []], {}], away]):
        with pytest.raises(Unfit, match="/app/new: the agent cannot have made it"):
            check(tmp_path, rows)
    renamed = foreign(app / "kept", 2, "dir", "directory", **{OVERLAY[1]: b"kept".hex()})
    check(tmp_path, [top, renamed])
    made = [2, "made", "directory", 0o755, AGENT, AGENT, 0, None, {OVERLAY[0]: b"y".hex()}]
    check(tmp_path, [top, made, [3, *renamed[1:8], {OVERLAY[1]: b"/app/kept".hex()}]])
    app.chmod(0o755)
    with pytest.raises(Unfit, match="/app/dir: no directory that the agent can have renamed"):
        check(tmp_path, [foreign(app, 1, "app", "directory"), renamed])
