"""Whether a task is sound: its reference solution passes, and doing nothing does not."""

from dataclasses import dataclass

from wardian.envs.action import Step
from wardian.envs.ending import EndCause
from wardian.envs.environment import ToolEnvironment
from wardian.envs.errors import SetupRefused, TaskError
from wardian.envs.playing import Played, play_idle, play_reference
from wardian.envs.taskfile.family import WrittenTask
from wardian.envs.taskfile.matching import is_slow
from wardian.envs.taskfile.schema import OURS, FileCheck, SqlCheck


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of trying a task."""

    task_id: str
    steps: int = 0
    """Of the reference solution."""
    problems: tuple[str, ...] = ()
    idle_passes: tuple[str, ...] = ()
    """Checks of the author's that pass when nothing is done: they can only guard what is there."""
    slow_patterns: tuple[str, ...] = ()
    """Checks whose pattern needs long for simple texts: an answer like those does not pass, whatever it says."""


async def try_task(env: ToolEnvironment, family: WrittenTask) -> Trial:
    """Play the reference solution of a task, and play it doing nothing.

    Raises:
        SandboxError: the infrastructure failed.
    """
    task_id = str(family.task_id)
    try:
        solved = await play_reference(env, task_id)
        idle = await play_idle(env, task_id)
    except SetupRefused as error:
        return Trial(task_id, problems=(str(family.problem(("setup", "sql"), str(error).removeprefix("setup: "))),))
    except TaskError as error:
        return Trial(task_id, problems=(str(error),))
    verdict = idle.last.info.verdict
    passing = tuple(check.name for check in verdict.checks if check.passed) if verdict else ()
    problems = _unsolved(family, solved)
    if idle.last.failed is not None:
        problems.append(_failure("doing nothing", idle.last))
    elif verdict is not None and verdict.succeeded:
        problems.append(f"doing nothing passes every check ({', '.join(passing)}); add one that only the wanted end state passes")
    guards = tuple(name for name in passing if name not in OURS)
    return Trial(task_id, len(solved.steps), tuple(dict.fromkeys(problems)), guards, _slow_patterns(family))


def _slow_patterns(family: WrittenTask) -> tuple[str, ...]:
    texts = {
        check.name: check if isinstance(check, FileCheck) else check.answer
        for check in family.spec.checks
        if not isinstance(check, SqlCheck)
    }
    return tuple(name for name, text in texts.items() if text.matches is not None and is_slow(text.matches))


def _failure(who: str, last: Step) -> str:
    """Why there is no verdict. A check that cannot be carried out says its place, and is the same whoever plays."""
    assert last.failed is not None, "asked of failed episodes alone"
    whose = f"{EndCause.VERIFIER}: "
    return last.failed.removeprefix(whose) if last.failed.startswith(whose) else f"{who}: {last.failed}"


def _unsolved(family: WrittenTask, played: Played) -> list[str]:
    last = played.last
    if last.failed is not None:
        return [_failure("the solution", last)]
    problems = [
        str(family.problem(("solution", min(number, len(family.spec.solution) - 1)), f"{result['status']}: {result.get('error')}"))
        for number, step in enumerate(played.steps)
        for result in step.observation.results
        if result["status"] != "ok"
    ]
    if last.info.verdict is None:
        return [*problems, "the solution does not end the episode"]
    ended = "" if last.terminated else f" (ended by {last.info.end_cause})"
    problems += [
        f"the solution does not pass {check.name}{ended}: {check.detail}" for check in last.info.verdict.checks if not check.passed
    ]
    return problems
