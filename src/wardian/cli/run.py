"""`wardian run`: play many episodes of a world and sum them up."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from wardian.cli import database, endpoint, options, own, steering
from wardian.cli.console import errors_end_the_command, find_modules_here, folder, log_to, run_until_signal, stderr
from wardian.cli.report import EpisodeProgress, print_summary
from wardian.envs.definition import WorldDefinition
from wardian.envs.registry import profile
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.envs.splits import Split
from wardian.envs.taskfile.opening import keep_copy, world_named
from wardian.envs.tokens import DEFAULT, Tokenizer, load_tokenizer
from wardian.rollouts.crew import Crew
from wardian.rollouts.curriculum.episodes import CurriculumRun
from wardian.rollouts.errors import PolicyGone, UsageProblem
from wardian.rollouts.folder import folder_for_a_run, next_file
from wardian.rollouts.ground import Ground, open_ground
from wardian.rollouts.plan import Planned, new_run_id, plan
from wardian.rollouts.policies.lifetime import opened
from wardian.rollouts.policies.registry import NAMES, load_policies
from wardian.rollouts.recording import Setting, log_at, versions_of
from wardian.rollouts.records import EpisodeEnd, Json
from wardian.rollouts.resume import Played, stopped_run
from wardian.rollouts.runner import ATTEMPTS, EpisodePool
from wardian.rollouts.sampling import Mixture, split_asked
from wardian.rollouts.summary import Tally, joined, summary
from wardian.rollouts.trajectory import FILE
from wardian.rollouts.twins import FOLDER, Twins, keep
from wardian.sandbox.cell import Tier
from wardian.sandbox.lease import PoolStatistics
from wardian.tools.faults import NONE, FaultProfile

SUMMARY = "summary.json"


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(run)


def run(
    world: options.WorldOrTemplate = None,
    template: own.Template = None,
    tasks: own.TasksFile = None,
    family: Annotated[str | None, typer.Option(help="Play this family only. Default: all, balanced.")] = None,
    difficulty: Annotated[str | None, typer.Option(help="easy, medium or hard. Default: all, balanced.")] = None,
    episodes: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many to play.")] = 10,
    split: Annotated[
        str, typer.Option(help="Tasks of this split alone: train, eval, heldout, or all. Only train can be exported for training.")
    ] = Split.TRAIN.value,
    mix: Annotated[str | None, typer.Option(help="Families by weight, such as a=2,b=1. Default: all, balanced.")] = None,
    cap: Annotated[float, typer.Option(help="With --mix: the largest share of one family.")] = 1.0,
    group: Annotated[int, typer.Option(min=1, max=1024, help="Play each task so many times, from equal seeds.")] = 1,
    cells: Annotated[int, typer.Option(min=1, max=256, help="How many to play at once.")] = 4,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that share the cells. One that dies is replaced.")] = 1,
    policy: Annotated[
        str, typer.Option(help=f"{', '.join(NAMES)} or package.module:function; several, by commas, alternate, with equal shares.")
    ] = "expert",
    faults: options.Faults = "none",
    twin: Annotated[bool, typer.Option("--twin", help="Play each episode again without faults, and compare.")] = False,
    malformed: options.Malformed = "recover",
    tokenizer: Annotated[
        str, typer.Option(help="What counts tokens: estimate (a quarter of the bytes, no model's own count), or package.module:function.")
    ] = DEFAULT,
    seed: Annotated[int, typer.Option(help="Tasks, episodes and scripted policies all follow from it.")] = 0,
    tier: options.TierName = "auto",
    image: options.Image = None,
    attempts: Annotated[int, typer.Option(min=1, max=10, help="Of one episode, where the infrastructure fails.")] = ATTEMPTS,
    curriculum: steering.Where = None,
    from_pool: steering.FromPool = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for trajectories and summary. One that holds this run, unfinished, goes on.", parser=folder, metavar="DIR"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as one line of JSON, the last of stdout.")] = False,
    progress: options.Progress = True,
    db: Annotated[
        str | None, typer.Option(help=f"Engine of the world's database: {database.NAMES}. Default: sqlite, or that of --template.")
    ] = None,
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
    """Play episodes of a world, in parallel, and sum them up. Exits with 1 when not one could be judged."""
    parameters = {name: str(value) if isinstance(value, Path) else value for name, value in locals().items()}
    parameters["db_url"] = None
    parameters["curriculum"] = steering.shown(curriculum)
    find_modules_here()
    with errors_end_the_command(), folder_for_a_run(out):
        own.settle(parameters)
        database.keep(db_url, parameters["db"])
        order = order_of(parameters, out, curriculum=curriculum)
        log_to(order.progress.console)
        order.signal = run_until_signal(order.play, order.interrupt)
    if order.found is not None and as_json:
        print(json.dumps(order.found))
    elif order.found is not None:
        print_summary(order.found)
    if order.gone is not None:
        log = f"give the same command again to go on in {out}" if out else "with --out DIR, the same command goes on"
        stderr().print(f"ended early: {order.gone}; when it is there again, {log}", style="red", markup=False)
    raise typer.Exit(order.exit_code)


@dataclass(slots=True)
class Order:
    """A run as it was asked for, checked; plays it once."""

    name: str
    world: WorldDefinition
    episodes: list[Planned]
    run: str
    faults: FaultProfile
    malformed: MalformedPolicy
    tokenizer: Tokenizer
    tier: Tier | None
    out: Path | None
    parameters: Mapping[str, Json]
    progress: EpisodeProgress
    split: Split | None
    """The only split that is played."""
    steered: CurriculumRun | None = None
    """What chooses the episodes while they are played; `episodes` is empty then."""
    before: Played | None = None
    """What stands in the folder already, of the run that goes on."""
    found: dict[str, Json] | None = None
    """The summary; `None` when the run was interrupted before it began."""
    pool: EpisodePool | None = None
    twins: Twins | None = None
    """Where each episode is to be played again without faults."""
    crew: Crew | None = None
    signal: int = 0
    gone: PolicyGone | None = None
    """A policy that acted before can no longer; what was played is summed up."""

    @property
    def exit_code(self) -> int:
        """Of the command."""
        if self.signal:
            return 128 + self.signal
        if self.gone is not None:
            return 1
        return 0 if self.found and self.found["success_rate"] is not None else 1

    @property
    def left(self) -> int:
        """Episodes that are still to be played."""
        return len(self.episodes) if self.steered is None else len(self.steered)

    def interrupt(self) -> bool:
        """Give up running episodes; gives whether `play` ends by itself then."""
        playing = self.crew or self.pool
        if playing is None:
            self.progress.note("stopping: no episode was begun, so nothing is written")
            return False
        self.progress.note("stopping: running episodes are given up, what is written stands")
        playing.interrupt()
        return True

    async def play(self) -> None:
        """Play all; sets `found`.

        Raises:
            SandboxError: the cells or the template cannot be had.
            LogBroken, LogInUse: the trajectory cannot be written.
            PolicyHopeless: a policy can act in no episode.
        """
        if self.out is not None:
            keep_copy(self.world, self.out)
        if self.steered is not None and not self.left:
            self.steered.catch_up()
        if not self.left or self.parameters["workers"] > 1:
            await self._play_elsewhere()
            return
        cells = min(self.parameters["cells"], self.left)
        choice = database.asked(self.parameters)
        if self.world.needs_cell:
            self.progress.note(f"starting {cells} {'cell' if cells == 1 else 'cells'}, and checking every file that they stand on ...")
        async with open_ground(
            self.world, cells=cells, tier=self.tier, deep_checks=True, image=self.parameters["image"], database=choice
        ) as ground:
            setting = self.setting(ground, self._recorded)
            file = self._file()
            with log_at(file, setting, self.run, {**self.parameters, "continued": file.name if self.before and file else None}) as writer:
                self.pool = EpisodePool(ground, setting, writer, self.parameters["attempts"], self._watch, tally=self._tally())
                await self._run(self.pool, ground, cells)
            if self.twins is not None and not self.pool.interrupted:
                await self._play_twins(self.twins, ground, replace(setting, faults=NONE), cells)

    @property
    def _recorded(self) -> dict[str, Json] | None:
        return self.before.head.versions.model_dump() if self.before else None

    def _file(self) -> Path | None:
        if self.out is None:
            return None
        return next_file(self.out, "continued") if self.before else self.out / FILE

    def _tally(self) -> Tally:
        tally = Tally()
        if self.before is not None:
            self.before.count_into(tally)
        return tally

    async def _play_elsewhere(self) -> None:
        """Have other processes play what is left to play, which may be nothing."""
        began = time.perf_counter()
        order = {"parameters": dict(self.parameters), "run": self.run, "versions": self._recorded}
        if self.left and self.world.needs_cell:
            self.progress.note(f"starting {self.parameters['workers']} workers and their cells ...")
        crew = self.crew = Crew(order, self.parameters["workers"], self.parameters["cells"], self.out, self._watch, self._tally())
        with self.progress:
            await crew.run(self.episodes)
        pool = joined(crew.statistics)
        before = self.before.first.tier if self.before and self.before.first else None
        self._sum_up(crew.tally, pool, crew.tier or before, time.perf_counter() - began, crew.interrupted)
        assert self.found is not None, "it was summed up in the line before"
        self.found["workers_lost"] = crew.lost
        self._keep()

    def _watch(self, end: EpisodeEnd) -> None:
        self.progress.add(end)
        if self.steered is not None:
            self.steered.tell(end)
        if self.twins is not None:
            keep(self.twins.faulted, end)

    async def _play_twins(self, twins: Twins, ground: Ground, setting: Setting, workers: int) -> None:
        """Play the same episodes without faults, into a log of their own; adds the comparison to `found`."""
        assert self.found is not None, "the episodes themselves are summed up before"
        began = time.perf_counter()
        with log_at(self.out / FOLDER / FILE if self.out else None, setting, self.run, self.parameters) as writer:
            self.progress = EpisodeProgress(stderr(), len(self.episodes), shown=self.parameters["progress"], verb="playing twins")
            self.pool = EpisodePool(ground, setting, writer, self.parameters["attempts"], self._watch_twin)
            with self.progress:
                async with opened(planned.policy for planned in self.episodes):
                    await self._play_all(self.pool, workers)
        twins_s = time.perf_counter() - began
        found = {"twin": {**twins.summary(), "wall_s": round(twins_s, 3)}, "wall_s": round(self.found["wall_s"] + twins_s, 3)}
        self.found |= {**found, "interrupted": self.pool.interrupted}
        self._keep()

    def _watch_twin(self, end: EpisodeEnd) -> None:
        self.progress.add(end)
        if self.twins is not None:
            keep(self.twins.free, end)

    async def _play_all(self, pool: EpisodePool, workers: int) -> None:
        """Play with `pool`. A policy that is gone midway ends that as an interrupt does, and is kept in `gone`."""
        try:
            if self.steered is not None:
                await self.steered.play(pool, workers)
            else:
                await pool.run(self.episodes, workers=workers)
        except PolicyGone as gone:
            self.gone, pool.interrupted = gone, True

    async def _run(self, pool: EpisodePool, ground: Ground, workers: int) -> None:
        began = time.perf_counter()
        with self.progress:
            async with opened([self.steered.policy] if self.steered else (planned.policy for planned in self.episodes)):
                await self._play_all(pool, workers)
        wall_s = time.perf_counter() - began
        statistics = ground.cells.statistics() if ground.cells else None
        self._sum_up(pool.tally, statistics, ground.tier.value if ground.tier else None, wall_s, pool.interrupted)
        self._keep()

    def _sum_up(self, tally: Tally, statistics: PoolStatistics | None, tier: str | None, wall_s: float, interrupted: bool) -> None:
        asked = {name: self.parameters[name] for name in ("world", "policy", "faults", "malformed", "seed", "cells", "split")}
        self.found = {
            **asked,
            "tokenizer": self.tokenizer.label,
            "tokens_estimated": self.tokenizer.estimates,
            **summary(tally, statistics, planned=self.parameters["episodes"], tier=tier, wall_s=wall_s),
            "resumed": self.parameters["episodes"] - self.left,
            "interrupted": interrupted,
            "out": str(self.out) if self.out else None,
        }
        if self.steered is not None:
            self.found["curriculum"] = asdict(self.steered.curriculum.report().whole)

    def _keep(self) -> None:
        if self.out:
            (self.out / SUMMARY).write_text(json.dumps(self.found, indent=2) + "\n", "utf-8")

    def setting(self, ground: Ground, recorded: Mapping[str, Json] | None = None) -> Setting:
        """How all episodes are played. `recorded` are the versions of a run that goes on.

        Raises:
            UsageProblem: they are others than those here; names them.
        """
        versions = versions_of(ground)
        here = versions.model_dump()
        others = [f"{name} was {value}, and is {here[name]}" for name, value in (recorded or {}).items() if here[name] != value]
        if others:
            raise UsageProblem(f"out: the run there was begun by other versions: {'; '.join(others)}; name a new folder")
        return Setting(
            self.world, self.name, versions, self.faults, self.malformed.value, Settings().recompute_every, self.tokenizer, self.split
        )


def order_of(asked: Mapping[str, Json], out: Path | None, run: str | None = None, curriculum: str | None = None) -> Order:
    """Check what was asked for, before anything is started. `run` is the id of a run that other processes play too.

    `curriculum` is where the one that chooses stands; `asked` has it without its password.

    Raises:
        UsageProblem, TaskError: an option names something that there is not; the message says what there is.
    """
    database.asked(asked)
    name = asked["world"]
    world = world_named(name, Path(asked["tasks"]) if asked.get("tasks") else None)
    before = stopped_run(out, asked) if out is not None else None
    run_id = before.head.run if before else run or new_run_id()
    policies = load_policies(asked["policy"], world, name, endpoint.endpoint_of(asked))
    episodes = (
        plan(
            world,
            policies,
            run=run_id,
            episodes=asked["episodes"],
            seed=asked["seed"],
            family=asked["family"],
            difficulty=asked["difficulty"],
            split=split_asked(asked["split"]),
            mixture=_mixture(asked),
            group=asked["group"],
        )
        if curriculum is None
        else []
    )
    faults = profile(asked["faults"], world)
    _check_together(asked, world, faults, steered=curriculum is not None, part=run is not None)
    counter = load_tokenizer(asked["tokenizer"])
    if before is not None:
        before.check(faults, counter)
        episodes = before.rest(episodes)
    steered = steering.steered(curriculum, asked, world, policies, run_id, faults, before) if curriculum else None
    order = Order(
        name=name,
        steered=steered,
        world=world,
        episodes=episodes,
        before=before,
        run=run_id,
        faults=faults,
        twins=Twins() if asked["twin"] else None,
        malformed=options.malformed_named(asked["malformed"]),
        tokenizer=counter,
        tier=options.tier_of(asked["tier"]),
        out=out,
        parameters=asked,
        progress=EpisodeProgress(stderr(), len(episodes) if steered is None else len(steered), shown=asked["progress"]),
        split=split_asked(asked["split"]),
    )
    if out is not None and before is None:
        _check_empty(out)
    return order


def _check_together(asked: Mapping[str, Json], world: WorldDefinition, faults: FaultProfile, *, steered: bool, part: bool) -> None:
    """Refuse options that say nothing, or contradict each other. `part`: of a run that other processes play too."""
    if asked["from_pool"] and not steered:
        raise UsageProblem("from_pool: it is the pool of a curriculum; give --curriculum too")
    if asked["workers"] > 1 and asked["twin"] and not part:
        raise UsageProblem("twin: twins are played by one process; leave --workers out, or --twin")
    if asked["image"] is not None and not world.needs_cell:
        raise UsageProblem(f"image: no agent of the world {asked['world']} gets a cell; leave the option out")
    if asked["twin"] and not faults.ever():
        raise UsageProblem(
            f"twin: the profile {faults.name} has no faults, so each episode is its own twin; give --faults, or leave --twin out"
        )


def _mixture(asked: Mapping[str, Json]) -> Mixture | None:
    if asked["mix"] is None:
        if asked["cap"] != 1.0:
            raise UsageProblem("cap: it bounds the families of a mixture; give --mix too, or leave --cap out")
        return None
    if asked["family"] is not None:
        raise UsageProblem("mix: one family alone is no mixture; leave out --mix or --family")
    return Mixture.parse(asked["mix"], asked["cap"])


def _check_empty(out: Path) -> None:
    if any(out.iterdir()):
        raise UsageProblem(f"out: {out} is not empty and holds no run of this command; name a new folder")
