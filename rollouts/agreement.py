"""What the parts of one step's line must say alike: its action, the events of its calls, their results, and what the agent was shown.

Each call of an action has one event, one result and one line of the observation, in the order of the calls. Calls after one that ended the
episode have none, and a call during which its cell ended has no event. What follows from the world alone, such as the content of an
answer, is for a replay to compare.
"""

import json
from collections.abc import Iterator, Sequence

from wardian.envs.action import Action, Malformed, ToolCalls
from wardian.envs.ending import EndCause
from wardian.envs.observation import RENDERER_VERSION, parted
from wardian.rollouts.actions import from_part
from wardian.rollouts.lines import well_formed, well_formed_json
from wardian.rollouts.records import EventPart, Json, ResultPart, StepRecord
from wardian.rollouts.rules import Fault, shown
from wardian.tools.attempt import loggable
from wardian.tools.contract import Status, ToolCall
from wardian.tools.encoding import text
from wardian.tools.loading import Loaded, Rejected, load
from wardian.tools.toolbox import OVER_RATE, TOO_EARLY

NAME_CHARS = 200
"""Of a tool's name, as an event holds it."""
_ABSENT = object()


def disagreements(step: StepRecord) -> Iterator[Fault]:
    """Every rule that the parts of `step` break; none where its action is none, which `rules` says."""
    try:
        action = from_part(step.action)
    except ValueError:
        return
    events = [(place, event) for place, event in enumerate(step.events) if not event.landed]
    calls = _logged(action)
    # A cell may also be found dead after the last call, which then has its event as any other.
    lost = int(step.end_cause == EndCause.CELL_DIED and step.failed is None and len(events) < len(calls))
    yield from _of_calls(step, calls, events, lost)
    if step.failed is None:
        yield from _of_results(step, [event for _, event in events], lost)
        if step.versions.renderer == RENDERER_VERSION:
            yield from _of_observation(step, lost)


def _of_calls(step: StepRecord, calls: Sequence[ToolCall], events: Sequence[tuple[int, EventPart]], lost: int) -> Iterator[Fault]:
    fewest = 0 if step.failed is not None else 1 if step.end_cause else len(calls)
    if not min(fewest, len(calls)) <= len(events) + lost <= len(calls):
        yield Fault("events", f"are {len(events)} of calls, and the action has {len(calls)}")
        return
    for (place, event), call in zip(events, calls, strict=False):
        if event.tool != text(call.tool[:NAME_CHARS]):
            yield Fault(f"events[{place}].tool", f"is {event.tool!r}, and the action calls {call.tool!r}")
        elif difference := _of_args(event, call):
            yield Fault(f"events[{place}].{difference[0]}", f"{difference[1]}, and the action says otherwise")


def _logged(action: Action) -> tuple[ToolCall, ...]:
    """The calls of an action as the event log counts them: output that is no call stands there as one of no tool."""
    match action:
        case ToolCalls(calls) if calls:
            return calls
        case ToolCalls():
            return (ToolCall("", ""),)
        case Malformed(raw, _):
            return (ToolCall("", raw),)
    return ()


def _of_args(event: EventPart, call: ToolCall) -> tuple[str, str] | None:
    """Where the arguments of an event are not those of its call, and what is wrong with them; `None`: they agree.

    Accepted ones may have been read out of the model's text, and may have been decoded where the event says so.
    """
    if not event.tool or (event.problem and event.problem not in (TOO_EARLY, OVER_RATE)):
        return None if event.args == well_formed_json(loggable(call.args)) else ("args", f"are {shown(event.args)}")
    if event.repaired:
        return None
    asked = _object(call.args)
    if asked is None or not isinstance(event.args, dict):
        return "args", f"are {shown(event.args)}"
    accepted, asked = well_formed_json(event.args), well_formed_json(asked)
    name = next((name for name in [*asked, *accepted] if not _same(asked.get(name, _ABSENT), accepted.get(name, _ABSENT))), None)
    if name is None:
        return None
    return f"args.{name}", f"is {shown(accepted[name])}" if name in accepted else "is missing"


def _object(raw: dict[str, Json] | str) -> dict[str, Json] | None:
    """The arguments that a call gives; those of a tool without any may be no text at all."""
    if not isinstance(raw, str):
        return raw
    read = Loaded({}) if raw.strip() in ("", "null") else load(raw)
    return None if isinstance(read, Rejected) or not isinstance(read.value, dict) else read.value


def _same(one: Json, other: Json) -> bool:
    return one is other or (one == other and isinstance(one, bool) == isinstance(other, bool))


def _of_results(step: StepRecord, events: Sequence[EventPart], lost: int) -> Iterator[Fault]:
    """Status and time of each call stand in its event and again among the results; a message has a result and no event."""
    if step.action.type == "message":
        expected = [ResultPart(status=Status.OK.value, latency_ms=0)]
    else:
        expected = [ResultPart(status=event.status, latency_ms=event.latency_ms) for event in events]
        expected += [ResultPart(status=Status.UNAVAILABLE.value, latency_ms=0)] * lost
    if len(step.tool_results) != len(expected):
        yield Fault("tool_results", f"are {len(step.tool_results)}, and the events make them {len(expected)}")
        return
    for index, (found, due) in enumerate(zip(step.tool_results, expected, strict=True)):
        for name in ("status", "latency_ms"):
            if getattr(found, name) != getattr(due, name):
                said = f"is {shown(getattr(found, name))}, and the call's event says {shown(getattr(due, name))}"
                yield Fault(f"tool_results[{index}].{name}", said)


def _of_observation(step: StepRecord, lost: int) -> Iterator[Fault]:
    """What was rendered has a line for each result, with its status, and one for each word that reached the agent.

    Where the cell is `lost`, further lines say of the calls after it that they were not run.
    """
    results, incoming = parted(step.observation.rendered)
    statuses = [line.get("status") for line in map(_line, results)]
    due = [result.status for result in step.tool_results]
    if statuses[: len(due)] != due or statuses[len(due) :] != [Status.UNAVAILABLE.value] * (len(statuses) - len(due)) * lost:
        yield Fault("observation.rendered", f"shows results {shown(statuses)}, and tool_results are {shown(due)}")
    heard = [(line.get("from"), well_formed(str(line.get("text")))) for line in map(_line, incoming)]
    said = [(word.sender, well_formed(word.text)) for event in step.background for word in event.words]
    if heard != said:
        yield Fault("observation.rendered", f"shows the words {shown(heard)}, and the background says {shown(said)}")


def _line(text_: str) -> dict[str, Json]:
    try:
        found = json.loads(text_)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
