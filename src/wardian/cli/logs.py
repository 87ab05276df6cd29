"""Commands about trajectories that run nothing: `schema`, `validate`, `show`."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wardian.cli.console import errors_end_the_command, say_damage, stderr
from wardian.envs.taskfile.schema import json_schema as tasks_schema
from wardian.rollouts.actions import action_text
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.lines import well_formed as printable
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, Json, SamplePart, StepRecord, json_schema
from wardian.rollouts.resume import is_final
from wardian.rollouts.trajectory import TrajectoryLog, validate

SCHEMAS = {"trajectory": json_schema, "tasks": tasks_schema}
ALL_RIGHT = "valid"
SHOWN_CHARS = 600

Where = Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `wardian run --out` made, or one of its files.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command()(schema)
    app.command("validate")(validate_log)
    app.command()(show)


def schema(name: Annotated[str, typer.Argument(help="Which: trajectory, tasks.")] = "trajectory") -> None:
    """Print a JSON Schema: `trajectory` of each line of a log, `tasks` of a file of tasks on a database of your own."""
    with errors_end_the_command():
        if name not in SCHEMAS:
            raise UsageProblem(f"schema: no {name!r}; there are {', '.join(SCHEMAS)}")
        print(json.dumps(SCHEMAS[name](), indent=2))


def validate_log(where: Where) -> None:
    """Check every line of a trajectory, and all of them together; names file, line, record, field and fix of what is wrong.

    A torn last line and an episode without an end, as a crash leaves them, are said and are no error.
    """
    lines = problems = 0
    begun: set[str] = set()
    done: set[str] = set()
    with errors_end_the_command():
        for record, findings in validate(where):
            lines += record is not None
            if isinstance(record, EpisodeStart):
                begun.add(record.episode_id)
            elif isinstance(record, EpisodeEnd) and is_final(record):
                done.add(record.episode_id)
            for finding in findings:
                problems += not finding.torn
                print(f"{'warning' if finding.torn else 'error'}: {printable(str(finding))}")
    # By attempts and not by order: of a run that went on, a file with later attempts may come first.
    unfinished = begun - done
    counted = f"{lines} lines{f', {len(unfinished)} unfinished episodes' if unfinished else ''}"
    print(f"{counted}, {problems} problems" if problems else f"{ALL_RIGHT}: {counted}")
    raise typer.Exit(1 if problems else 0)


def show(
    where: Where,
    episode: Annotated[str | None, typer.Argument(help="Id of an episode, the end of one, or its number. Default: list all.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Print actions and observations whole, however long they are.")] = False,
) -> None:
    """List the episodes of a trajectory, or print one step by step. Long texts are cut, which is said, unless --full is given."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)
    with errors_end_the_command():
        log = TrajectoryLog.open(where)
        say_damage(stderr(), where)
        if episode is None:
            _list(console, log)
        else:
            cut = 0
            for attempt in log.attempts(log.find(episode)):
                _print_start(console, attempt.start)
                checkpoint = attempt.start.policy_checkpoint if attempt.start else ""
                for step in attempt.steps:
                    cut += _print_step(console, step, checkpoint, sys.maxsize if full else SHOWN_CHARS)
                    checkpoint = step.policy_checkpoint
                _print_end(console, attempt.end)
            if cut:
                console.print(f"{cut} texts were cut after {SHOWN_CHARS} characters; --full prints them whole", style="yellow")
        for warning in log.warnings:
            stderr().print(f"warning: {warning}", style="yellow", markup=False)


def _list(console: Console, log: TrajectoryLog) -> None:
    table = Table("episode", "task", "policy", "attempts", "steps", "outcome", "ended by", "reward", "mask")
    for name, places in sorted(log.episodes.items()):
        end = log.last_end(name)
        if end is None:
            table.add_row(name, "", "", "", str(len(places) - 1), "[yellow]unfinished[/]", "", "", "0")
            continue
        outcome = "succeeded" if end.succeeded else end.outcome
        facts = end.task_id, end.policy, str(end.attempt), str(end.steps), outcome, escape(end.end_cause), _reward_text(end), str(end.mask)
        table.add_row(name, *facts)
    console.print(table)
    console.print(f"{len(log.episodes)} episodes")


def _print_start(console: Console, start: EpisodeStart | None) -> None:
    if start is None:
        return
    console.rule(f"{start.episode_id}  {start.task_id}  attempt {start.attempt}", align="left")
    facts = {
        "policy": f"{start.policy} ({start.policy_checkpoint})",
        "seed": start.seed,
        "split": start.split,
        "faults": f"{start.faults.get('name')} ({start.faults_hash[:12]})",
        "tier": start.tier,
        "cell": f"{start.receipt.cell_id}, epoch {start.receipt.epoch}" if start.receipt else "none",
        "versions": ", ".join(f"{name} {value}" for name, value in start.versions.model_dump().items()),
        "fingerprint": start.fingerprint.root,
    }
    for name, value in facts.items():
        console.print(f"{name}: {value}", markup=False)
    console.print(start.observation.rendered, markup=False, style="dim")


def _print_step(console: Console, step: StepRecord, checkpoint: str, limit: int) -> int:
    """Print a step, its texts up to so many characters; gives how many were cut.

    `checkpoint` is that of the step before: that of this one is printed where it is another.
    """
    console.rule(f"step {step.step}", align="left", style="dim")
    texts = [action_text(step.action, sys.maxsize), printable(step.observation.rendered)]
    for text, style in zip(texts, ("bold", None), strict=True):
        console.print(_cut(text, limit), markup=False, style=style, soft_wrap=True)
    facts: dict[str, Json] = {
        "faults": ", ".join(f"{event.fault} on {event.tool}" for event in step.events if event.fault),
        "by itself": ", ".join(event.kind for event in step.background),
        "rows": ", ".join(f"{row.table}{row.key}" for row in step.database),
        "files": ", ".join(step.files),
        "inexact": "; ".join(step.inexact),
        "reward": ", ".join(f"{name} {value:g}" for name, value in step.reward_components.items() if value),
        "checkpoint": step.policy_checkpoint if step.policy_checkpoint != checkpoint else "",
        "sample": _sample_text(step.sample) if step.sample else "",
        "failed": step.failed,
    }
    for name, value in facts.items():
        if value:
            console.print(f"  {name}: {value}", markup=False, style="dim")
    return sum(len(text) > limit for text in texts)


def _sample_text(sample: SamplePart) -> str:
    """What the model gave along with its action, in one line."""
    count = next((len(values) for values in (sample.token_ids, sample.logprobs) if values is not None), sample.completion_tokens)
    trained = f"{sum(sample.loss_mask)} of them train" if sample.loss_mask is not None else ""
    mean = f"mean log-probability {sum(sample.logprobs) / len(sample.logprobs):.3f}" if sample.logprobs else ""
    prompt = f"prompt of {sample.prompt_tokens}" if sample.prompt_tokens is not None else ""
    return ", ".join(part for part in (f"{count} tokens" if count is not None else "", trained, mean, prompt) if part)


def _print_end(console: Console, end: EpisodeEnd | None) -> None:
    if end is None:
        console.print("unfinished: the run ended before this episode did", style="yellow")
        return
    console.rule(f"{end.outcome} by {end.end_cause}, reward {_reward_text(end)}, mask {end.mask}", align="left")
    for check_ in end.verdict.checks if end.verdict else ():
        line = f"passed {check_.name}" if check_.passed else f"FAILED {check_.name}: {check_.detail}"
        console.print(line, markup=False)
    if end.detail:
        console.print(end.detail, markup=False)


def _reward_text(end: EpisodeEnd) -> str:
    """To six digits; the log holds it exactly."""
    return "none" if end.reward is None else f"{end.reward:g}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} [... cut, {len(text)} characters in all]"
