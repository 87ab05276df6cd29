"""`wardian eval`: measure policies on a fixed set of held-out tasks; `wardian checkpoints`: compare such measurements."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import anyio
import typer

from wardian.cli import database, endpoint, options
from wardian.cli.console import errors_end_the_command, find_modules_here, log_to, run_until_signal, stderr
from wardian.cli.eval_tables import print_checkpoints, print_evaluation
from wardian.cli.report import EpisodeProgress
from wardian.envs.definition import WorldDefinition
from wardian.envs.registry import load_world, profile
from wardian.envs.splits import Split, split_named
from wardian.envs.tokens import DEFAULT, Tokenizer, load_tokenizer
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.evaluation.checkpoints import Row, compared, rows_of
from wardian.rollouts.evaluation.running import Evaluation, next_folder, with_twins
from wardian.rollouts.evaluation.taskset import TaskSet, task_set
from wardian.rollouts.folder import folder_for_a_run
from wardian.rollouts.ground import Ground, open_ground
from wardian.rollouts.policies.base import Policy
from wardian.rollouts.policies.registry import NAMES, load_policies
from wardian.rollouts.records import Json
from wardian.tools.faults import FaultProfile


def register(app: typer.Typer) -> None:
    """Add this module's commands to `app`."""
    app.command("eval")(evaluate)
    app.command()(checkpoints)


def evaluate(
    world: options.World,
    policy: Annotated[str, typer.Option(help=f"{', '.join(NAMES)} or package.module:function; several by commas, one after another.")],
    split: Annotated[str, typer.Option(help="eval or heldout: tasks that are never for training.")] = Split.HELDOUT.value,
    tasks: Annotated[int, typer.Option(min=1, max=10_000, help="Of each family and difficulty that has some.")] = 4,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Episodes of each task, with other random streams.")] = 2,
    k: Annotated[int | None, typer.Option(min=1, help="Of pass@k and pass^k. Default: --repeats.")] = None,
    faults: Annotated[
        str, typer.Option(help="Fault profiles, by commas; the first decides what to keep. none is played in any case.")
    ] = "realistic",
    family: Annotated[str | None, typer.Option(help="These families only, by commas.")] = None,
    difficulty: Annotated[str | None, typer.Option(help="easy, medium or hard. Default: all.")] = None,
    every: Annotated[float | None, typer.Option(min=0, help="Evaluate again every so many seconds, as the policy changes.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="With --every: stop after so many. Default: when interrupted.")] = None,
    seed: Annotated[int, typer.Option(help="The set of tasks follows from it.")] = 0,
    cells: Annotated[int, typer.Option(min=1, max=256, help="How many episodes to play at once.")] = 4,
    malformed: options.Malformed = "recover",
    tokenizer: Annotated[str, typer.Option(help="What counts tokens: estimate, or package.module:function.")] = DEFAULT,
    tier: options.TierName = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for this evaluation; those that it holds already are compared with it.")] = None,
    against: Annotated[list[Path] | None, typer.Option(help="Further folders of evaluations to compare with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Results and table as one line of JSON, the last of stdout.")] = False,
    progress: options.Progress = True,
    db: Annotated[str, typer.Option(help=f"Engine of the world's database: {database.NAMES}.")] = "sqlite",
    db_url: database.Url = None,
    base_url: endpoint.BaseUrl = None,
    model: endpoint.Model = None,
    api_key_env: endpoint.ApiKeyEnv = None,
    tool_calls: endpoint.ToolCalls = endpoint.TOOL_CALLS,
    max_tokens: endpoint.MaxTokens = None,
    temperature: endpoint.Temperature = None,
    concurrency: endpoint.Concurrency = endpoint.DEFAULT.concurrency,
    streaming: endpoint.Streaming = endpoint.DEFAULT.streaming,
    silence_s: endpoint.SilenceS = endpoint.DEFAULT.silence_s,
    deadline_s: endpoint.DeadlineS = endpoint.DEFAULT.deadline_s,
    tries: endpoint.Tries = endpoint.DEFAULT.tries,
    gone_after: endpoint.GoneAfter = endpoint.DEFAULT.gone_after,
    request: endpoint.Request = "{}",
) -> None:
    """Measure policies on a fixed set of held-out tasks, with and without faults, and say which checkpoint to keep.

    Exits with 1 when not one episode could be judged.
    """
    asked = {name: value for name, value in locals().items() if name not in ("out", "against", "db_url")}
    find_modules_here()
    with errors_end_the_command(), folder_for_a_run(out):
        database.keep(db_url, db)
        order = EvalOrder.of(asked, out, against or [])
        log_to(stderr())
        order.signal = run_until_signal(order.play, order.interrupt)
        table = order.table()
    if as_json:
        print(json.dumps({"evaluations": order.found, "checkpoints": table}))
    else:
        for found in order.found:
            print_evaluation(found)
        if table is not None and len(table["rows"]) > 1:
            print_checkpoints(table)
    raise typer.Exit(order.exit_code)


def checkpoints(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that `wardian eval --out` made.")],
    as_json: Annotated[bool, typer.Option("--json", help="The table as one line of JSON.")] = False,
) -> None:
    """Compare evaluations of one set of tasks, and say which checkpoint to keep."""
    with errors_end_the_command():
        table = compared(rows_of(folders))
    if as_json:
        print(json.dumps(table))
    else:
        print_checkpoints(table)


@dataclass(slots=True)
class EvalOrder:
    """Evaluations as they were asked for, checked; plays them once."""

    name: str
    world: WorldDefinition
    policies: tuple[Policy, ...]
    profiles: tuple[FaultProfile, ...]
    tasks: TaskSet
    tokenizer: Tokenizer
    asked: Mapping[str, Json]
    out: Path | None
    against: Sequence[Path]
    found: list[dict[str, Json]] = field(default_factory=list)
    running: Evaluation | None = None
    signal: int = 0

    @classmethod
    def of(cls, asked: Mapping[str, Json], out: Path | None, against: Sequence[Path]) -> "EvalOrder":
        """Check everything before anything is started.

        Raises:
            UsageProblem, TaskError: an option names something that there is not; the message says what there is.
        """
        world = load_world(asked["world"])
        database.asked(asked)
        options.tier_of(asked["tier"])
        options.malformed_named(asked["malformed"])
        if (asked["k"] or 1) > asked["repeats"]:
            raise UsageProblem(f"k: {asked['k']} tries of a task need at least as many --repeats; got {asked['repeats']}")
        if asked["rounds"] is not None and asked["every"] is None:
            raise UsageProblem("rounds: they come every so many seconds; give --every too, or leave --rounds out")
        rows_of(against)
        tasks = task_set(
            world,
            split=split_named(asked["split"]),
            tasks=asked["tasks"],
            repeats=asked["repeats"],
            seed=asked["seed"],
            families=tuple(asked["family"].split(",")) if asked["family"] else (),
            difficulty=asked["difficulty"],
        )
        return cls(
            name=asked["world"],
            world=world,
            policies=load_policies(asked["policy"], world, asked["world"], endpoint.endpoint_of(asked)),
            profiles=with_twins([profile(name, world) for name in asked["faults"].split(",")]),
            tasks=tasks,
            tokenizer=load_tokenizer(asked["tokenizer"]),
            asked=asked,
            out=out,
            against=against,
        )

    @property
    def exit_code(self) -> int:
        """Of the command."""
        if self.signal:
            return 128 + self.signal
        return 0 if any(one["profiles"][one["headline"]]["success"] for one in self.found) else 1

    def interrupt(self) -> bool:
        """Give running episodes up; gives whether `play` ends by itself then."""
        if self.running is None:
            return False
        self.running.interrupt()
        return True

    async def play(self) -> None:
        """Evaluate all policies, as often as was asked for; sets `found`."""
        rounds = self.asked["rounds"] or (1 if self.asked["every"] is None else math.inf)
        cells = min(self.asked["cells"], len(self.tasks.tasks) * self.tasks.repeats)
        tier, choice = options.tier_of(self.asked["tier"]), database.asked(self.asked)
        async with open_ground(self.world, cells=cells, tier=tier, deep_checks=True, database=choice) as ground:
            number = 0
            while number < rounds:
                due = anyio.current_time() + (self.asked["every"] or 0.0)
                for policy in self.policies:
                    if not await self._evaluate(ground, policy, cells):
                        return
                number += 1
                if number < rounds:
                    self.running = None
                    await anyio.sleep_until(due)

    async def _evaluate(self, ground: Ground, policy: Policy, cells: int) -> bool:
        """Evaluate one policy; gives whether to go on."""
        bar = EpisodeProgress(
            stderr(),
            len(self.tasks.tasks) * self.tasks.repeats * len(self.profiles),
            shown=self.asked["progress"],
            verb=f"evaluating {policy.name}",
        )
        one = self.running = Evaluation(
            ground=ground,
            asked_for=self.name,
            tasks=self.tasks,
            profiles=self.profiles,
            policy=policy,
            k=self.asked["k"] or self.asked["repeats"],
            parameters=self.asked,
            malformed=self.asked["malformed"],
            tokenizer=self.tokenizer,
            out=next_folder(self.out, policy.name) if self.out else None,
            watch=bar.add,
        )
        with bar:
            found = await one.run(workers=cells)
        if not one.interrupted:
            self.found.append({"label": one.out.name if one.out else policy.name, **found})
        return not one.interrupted

    def table(self) -> dict[str, Json] | None:
        """This and earlier evaluations; `None` without any.

        Raises:
            UsageProblem: they are of different sets of tasks.
        """
        here = [] if self.out else [Row(str(one["label"]), one) for one in self.found]
        kept = [self.out] if self.out and self.found else []
        rows = [*here, *rows_of([*kept, *self.against])]
        return compared(rows) if rows else None
