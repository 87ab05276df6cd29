"""Texts and files that come with a world's package, from a checkout, a wheel or a zip alike."""

from importlib.resources import files
from importlib.resources.abc import Traversable

from wardian.envs.errors import TaskError
from wardian.sandbox.files import FileEntry, FileLayer


def read_text(package: str, name: str) -> str:
    """Read the UTF-8 file `name` of `package`.

    Raises:
        TaskError: the package has no such file.
    """
    try:
        return (files(package) / name).read_text("utf-8")
    except FileNotFoundError as error:
        raise TaskError(f"{package}: no file {name!r} in the package; is it listed in the wheel?") from error


def file_layer(package: str, folder: str = "files", at: str = "/workspace") -> FileLayer:
    """All files below `folder` of `package`, to stand below `at` in the cell.

    Raises:
        TaskError: the package has no such folder.
    """
    root = files(package) / folder
    if not root.is_dir():
        raise TaskError(f"{package}: no folder {folder!r} in the package; is it listed in the wheel?")
    return FileLayer({f"{at}/{path}": FileEntry(data) for path, data in _walk(root)})


def _walk(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found
