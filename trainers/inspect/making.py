"""An Inspect task from a world: its data set, and what happens before and after each sample."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from inspect_ai import Task
from inspect_ai.agent import Agent
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageSystem, ChatMessageUser
from inspect_ai.solver import Generate, Solver, TaskState, solver

from wardian.envs.definition import WorldDefinition
from wardian.envs.observation import first_observation
from wardian.envs.registry import load_world, profile
from wardian.envs.settings import MalformedPolicy
from wardian.envs.splits import split_named
from wardian.envs.versions import env_version
from wardian.rollouts.chat import opening as opening_messages
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.evaluation.taskset import EvalTask, TaskSet, seeds_of, task_set
from wardian.sandbox.cell import Tier
from wardian.trainers.inspect.agent import wardian_agent
from wardian.trainers.inspect.config import default_places
from wardian.trainers.inspect.grounds import Opening, Rules, close_after_runs, rise, sit
from wardian.trainers.inspect.playing import EpisodeFailed
from wardian.trainers.inspect.scoring import world_state
from wardian.trainers.inspect.tools import CURRENT, as_tools, tool_of


@dataclass(frozen=True, slots=True)
class Asked:
    """Arguments of `wardian_task`, which says what they mean."""

    world: str
    split: str
    faults: str
    family: str | None
    difficulty: str | None
    tasks: int
    limit: int | None
    seed: int
    malformed: str
    cells: int | None
    tier: str | None
    image: str | None
    step_s: float


def make_task(asked: Asked, agent: Solver | Agent | None) -> Task:
    """Make it; nothing is started.

    Raises:
        TaskError: there is no such world, split or fault profile.
        UsageProblem: there is no such family or difficulty, nothing of that split, or the split is for training.
        ValueError: another argument is wrong; names it.
    """
    world = load_world(asked.world)
    split = split_named(asked.split)
    profile(asked.faults, world)
    if asked.tasks < 1 or (asked.limit is not None and asked.limit < 1) or asked.step_s <= 0:
        raise UsageProblem("tasks, limit: at least 1 is needed; step_s: above 0")
    families = (asked.family,) if asked.family else ()
    chosen = task_set(world, split=split, tasks=asked.tasks, repeats=1, seed=asked.seed, families=families, difficulty=asked.difficulty)
    opening = Opening(asked.world, asked.cells or default_places(), Tier(asked.tier) if asked.tier else None, asked.image)
    rules = Rules(asked.faults, MalformedPolicy(asked.malformed), split.value, asked.step_s)
    close_after_runs()
    return Task(
        MemoryDataset([sample_of(world, one) for one in _in_turns(chosen, asked.limit)], name=f"{world.name}-{split.value}-{chosen.key}"),
        setup=begin(opening, rules),
        solver=agent if agent is not None else wardian_agent(),
        cleanup=_close,
        scorer=world_state(),
        fail_on_error=False,
        version=world.version,
        metadata={"world": world.name, "env_version": env_version(world), "faults": asked.faults, "task_set": chosen.key},
    )


def _in_turns(chosen: TaskSet, limit: int | None) -> list[EvalTask]:
    """The tasks of a set, families and difficulties in turn, so that the first few are of all."""
    groups: dict[tuple[str, str], list[EvalTask]] = {}
    for one in chosen.tasks:
        groups.setdefault((one.task_id.family, one.task_id.difficulty.value), []).append(one)
    return [one for row in zip_longest(*groups.values()) for one in row if one is not None][:limit]


def sample_of(world: WorldDefinition, one: EvalTask) -> Sample:
    """A sample reads what an episode's first observation says; the truth behind its task stays with the verifier."""
    task = world.family(one.task_id.family).generate(one.task_id.difficulty, one.task_id.seed)
    rendered = first_observation(task.instruction, world.policy, task.start).rendered
    metadata = {
        "world": world.name,
        "task_id": str(task.id),
        "family": task.id.family,
        "difficulty": task.id.difficulty.value,
        "region": one.region,
        "split": task.split,
        "seed": one.seed,
        "task_hash": one.task_hash,
        "canary": task.canary,
    }
    return Sample(input=list(messages_of(rendered)), id=str(task.id), metadata=metadata)


def messages_of(rendered: str) -> Iterator[ChatMessage]:
    """A first observation as messages."""
    for message in opening_messages(rendered):
        kind = ChatMessageSystem if message["role"] == "system" else ChatMessageUser
        yield kind(content=message["content"])


def episode_seed(seed: int, epoch: int) -> int:
    """Of the episode's streams in an epoch, from 1: the same as that of the repeat under `wardian eval`."""
    return seeds_of(seed, epoch - 1).getrandbits(32)


@solver
def begin(opening: Opening, rules: Rules) -> Solver:
    """Begin the sample's episode, and give it its tools."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        await rise(state.uuid)  # of an attempt before this one
        seed = episode_seed(state.metadata["seed"], state.epoch)
        episode = await sit(state.uuid, opening, rules, state.metadata["task_id"], seed)
        rendered = await episode.begin()
        if [message.text for message in messages_of(rendered)] != [message.text for message in state.messages]:
            raise EpisodeFailed("the sample does not read what its episode says: the data set is of another version of the world")
        tools = tuple(tool_of(schema, episode.call) for schema in episode.schemas)
        CURRENT.set(tools)
        state.tools = as_tools(tools)
        return state

    return solve


async def _close(state: TaskState) -> None:
    await rise(state.uuid)
