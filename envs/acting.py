"""How one action is carried out: calls, a message, or output that is neither; and what the world does by itself meanwhile."""

from wardian.envs.action import Action, Malformed, Message, ToolCalls
from wardian.envs.ending import EndCause, Ending, EndKind
from wardian.envs.episode import Episode
from wardian.envs.observation import delivered, refused
from wardian.envs.passing import happen
from wardian.envs.settings import MalformedPolicy
from wardian.envs.turn import Turn
from wardian.tools.contract import CallEvent, Json, Status, ToolCall
from wardian.tools.loading import MAX_CHARS
from wardian.tools.toolbox import UNKNOWN

INVALID = frozenset({Status.MALFORMED_CALL, Status.UNKNOWN_TOOL, Status.INVALID_ARGUMENTS})
"""Statuses of a call that never reached a tool."""


async def act(episode: Episode, action: Action, turn: Turn) -> Ending | None:
    """Carry out `action` and write into `turn` what came of it; gives an ending when it ended the episode.

    Raises:
        EventBroken, ToolBroken: the world's code is at fault.
        SandboxError: the infrastructure failed, or the agent ended its cell.
    """
    match action:
        case ToolCalls(calls) if calls:
            ending = await _run(episode, calls, turn)
            if any(call.tool in episode.cell_tools for call in calls):
                await episode.world.refresh_files()
            return ending
        case ToolCalls():
            return await _refuse(episode, Malformed("", "There is no tool call in this action; send at least one."), turn)
        case Message(text):
            return await _message(episode, text, turn)
        case Malformed():
            return await _refuse(episode, action, turn)


async def _run(episode: Episode, calls: tuple[ToolCall, ...], turn: Turn) -> Ending | None:
    """Run the calls in order; those after an ending are not run."""
    for call in calls:
        episode.used_cell = episode.used_cell or call.tool in episode.cell_tools
        result, event = await episode.toolbox.call(episode.world, call, agent_id=episode.task.agent_id, step=episode.step)
        _log(episode, event)
        turn.results.append(result.visible())
        if result.inexact:
            turn.inexact.append(f"{call.tool}: {result.inexact}")
        ending = await _counted(episode, turn, invalid=result.status in INVALID) or episode.over_budget()
        if ending is not None:
            return ending
    return None


def _log(episode: Episode, event: CallEvent) -> None:
    """Note a call, and let the customer hear what it said to them."""
    episode.log.append(event)
    if episode.conversation is not None:
        episode.conversation.call(episode.world, event)


async def _message(episode: Episode, text: str, turn: Turn) -> Ending | None:
    """Say something to the customer or user. One that does not end the episode waits for the answer."""
    talk, world = episode.conversation, episode.world
    turn.results.append(delivered())
    episode.answer = text
    if episode.family.ends_on_message(talk.hear(text) if talk and talk.waits(world) else None):
        return (await _counted(episode, turn, invalid=False)) or Ending(EndKind.TERMINATED, EndCause.MESSAGE)
    if talk is not None:
        talk.message(world, text)
        await let_happen(episode, turn)
        world.clock.advance(talk.answer_in_ms(world))
    return await _counted(episode, turn, invalid=False)


async def _refuse(episode: Episode, action: Malformed, turn: Turn) -> Ending | None:
    turn.results.append(refused(action.reason))
    counts = episode.world.memory.call_counts
    event = CallEvent(
        index=sum(counts.values()),
        step=episode.step,
        at_ms=episode.world.clock.now_ms,
        tool="",
        args=action.raw[:MAX_CHARS],
        status=Status.MALFORMED_CALL,
        committed=False,
        fault=None,
        latency_ms=0,
        agent_id=episode.task.agent_id,
        problem=action.reason,
    )
    counts[UNKNOWN] = counts.get(UNKNOWN, 0) + 1
    episode.log.append(event)
    return await _counted(episode, turn, invalid=True)


async def _counted(episode: Episode, turn: Turn, *, invalid: bool) -> Ending | None:
    """Count one call, message or malformed output, and let happen what became due meanwhile; gives the ending that came of either."""
    turn.counted += 1
    turn.invalid += invalid
    episode.count(invalid=invalid)
    await let_happen(episode, turn)
    if turn.invalid and episode.malformed is MalformedPolicy.TERMINATE:
        return Ending(EndKind.TERMINATED, EndCause.MALFORMED)
    return _ended_by_effects(episode, turn)


async def let_happen(episode: Episode, turn: Turn) -> None:
    """Let every event happen whose time has passed, and every late call land, in the order of time."""
    while (due_ms := episode.toolbox.late_ms(episode.world)) is not None and due_ms <= episode.world.clock.now_ms:
        _happen(episode, turn, due_ms)
        _log(episode, await episode.toolbox.land(episode.world, episode.step))
    _happen(episode, turn)


async def settle(episode: Episode) -> None:
    """Let land what is still under way when the episode ends: it is what the agent did, and is judged."""
    while episode.toolbox.late_ms(episode.world) is not None:
        episode.log.append(await episode.toolbox.land(episode.world, episode.step))


def _happen(episode: Episode, turn: Turn, until_ms: int | None = None) -> None:
    happened = happen(episode.world, episode.handlers, episode.toolbox, episode.ledger, episode.step, until_ms)
    episode.background += happened
    turn.background += happened


def _ended_by_effects(episode: Episode, turn: Turn) -> Ending | None:
    calls = (effect for event in episode.log[turn.first_event :] if event.committed for effect in event.effects)
    events = (effect for event in turn.background for effect in event.effects)
    return next((_ending(effect) for effect in (*calls, *events) if effect["kind"] in episode.family.ends_on_effects), None)


def _ending(effect: dict[str, Json]) -> Ending:
    return Ending(EndKind.TERMINATED, effect["kind"])
