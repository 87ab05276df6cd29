"""Failures that look like success, for any task of a file: what they are follows from its checks, its tools and its solution."""

import posixpath
from collections.abc import Callable, Iterator, Sequence

from wardian.envs.action import Action, Message, call
from wardian.envs.attack import Allowance, Attack, Solved, attack, put, without
from wardian.envs.taskfile.schema import CHANGES, WORKSPACE, AnswerCheck, FileCheck, TaskSpec

WRITING = ("execute_sql", "write_file", "edit_file")
CLAIM = Message("Everything that you asked for is done.")
ALLOWANCES = (Allowance("effect*_* *", "tasks of a file are judged by rows, files and answer; how they came about is free"),)
KINDS = {
    "linked": ("a link in place of {path}", "ln -s /tmp/taken {path}"),
    "fifo": ("a pipe in place of {path}", "mkfifo {path}"),
    "folder": ("a folder in place of {path}", "mkdir {path}"),
    "gone": ("{path} is removed when all is done", "true"),
}


def attacks_on(spec: TaskSpec) -> tuple[Attack, ...]:
    """The attacks on one task."""
    return tuple(_made(spec))


def _made(spec: TaskSpec) -> Iterator[Attack]:
    yield attack("claim_only", "says that all is done, and did nothing", lambda solved: [CLAIM])
    if _writes(spec):
        yield attack("acts_left_out", "looks at everything, changes nothing, and says what was wanted", without(*WRITING))
    if answers := [check.name for check in spec.checks if isinstance(check, AnswerCheck)]:
        yield attack("answer_left_out", "does all, and does not say what was asked for", _claiming, *answers)
    written = [check for check in spec.checks if isinstance(check, FileCheck) and check.exists]
    tools = spec.tools or ()
    for check in written:
        if "shell" in tools:
            for kind, (claim, script) in KINDS.items():
                yield attack(f"{kind}: {check.name}", claim.format(path=check.file), _moved(check.file, script), check.name)
        if "files" in tools:
            yield attack(f"emptied: {check.name}", f"{check.file} has other bytes in the end", _overwritten(check.file), check.name)
    if "files" in tools and spec.changes.only == ():
        planted = call("write_file", path=f"{WORKSPACE}/planted.txt", content="planted")
        yield attack("planted", "leaves a file that the task does not allow", put("", planted), CHANGES)


def _writes(spec: TaskSpec) -> bool:
    """Whether the solution has to change something, as far as it shows it."""
    steps = [step.model_dump() for step in spec.solution]
    return any(step.get("tool") in WRITING for step in steps) or any("sql" in step and _changes(str(step["sql"])) for step in steps)


def _changes(sql: str) -> bool:
    return any(word in sql.lower() for word in ("insert ", "update ", "delete "))


def _claiming(solved: Solved) -> Sequence[Action]:
    return [*solved.actions[:-1], CLAIM]


def _moved(path: str, script: str) -> Callable[[Solved], Sequence[Action]]:
    """The right file is moved away, and `script` puts something else in its place."""
    command = f"mv {path} /tmp/taken && cd {posixpath.dirname(path)} && {script.format(path=path)}"
    return put("", call("shell", command=command))


def _overwritten(path: str) -> Callable[[Solved], Sequence[Action]]:
    return put("", call("write_file", path=path, content="\u200bnothing of it\n"))
