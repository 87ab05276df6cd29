"""Our outcomes as the errors that Inspect prescribes to a sandbox provider."""

import errno
import os

from inspect_ai.util import ExecResult

from wardian.sandbox.errors import FileProblem, FileProblemKind

ERRNOS = {
    FileProblemKind.NOT_FOUND: errno.ENOENT,
    FileProblemKind.PARENT_NOT_FOUND: errno.ENOENT,
    FileProblemKind.IS_DIRECTORY: errno.EISDIR,
    FileProblemKind.NOT_A_DIRECTORY: errno.ENOTDIR,
    FileProblemKind.NOT_A_FILE: errno.ENXIO,
    FileProblemKind.PERMISSION_DENIED: errno.EACCES,
    FileProblemKind.NAME_TOO_LONG: errno.ENAMETOOLONG,
    FileProblemKind.TOO_LARGE: errno.EFBIG,
    FileProblemKind.DISK_FULL: errno.ENOSPC,
    FileProblemKind.INVALID_PATH: errno.EINVAL,
}
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes, as shells have them."""


def file_error(problem: FileProblem, file: str) -> OSError:
    """The `OSError` whose class and `errno` say what `problem` says: `FileNotFoundError`, `IsADirectoryError`, ..."""
    number = ERRNOS[problem.kind]
    return OSError(number, os.strerror(number).lower() if number == errno.EISDIR else os.strerror(number), file)


def could_not_start(program: str, cwd: str | None, detail: str) -> ExecResult[str]:
    """The result of a command of which nothing ran. `detail` is `errno step message`, or what is wrong with the request.

    Raises:
        PermissionError: it may not be executed.
    """
    number, _, rest = detail.partition(" ")
    step, _, message = rest.partition(" ")
    if not number.isdigit():
        return ExecResult(success=False, returncode=NOT_EXECUTABLE, stdout="", stderr=f"{detail}\n")
    if step == "workdir":
        return ExecResult(success=False, returncode=NOT_EXECUTABLE, stdout="", stderr=f"{cwd}: {os.strerror(int(number))}\n")
    if int(number) in (errno.EACCES, errno.EPERM):
        raise PermissionError(int(number), os.strerror(int(number)), program)
    code = NOT_FOUND if int(number) == errno.ENOENT else NOT_EXECUTABLE
    return ExecResult(success=False, returncode=code, stdout="", stderr=f"{message}\n")
