"""Mutants of the trusted event log: effects that did not happen, happened twice, in another order or otherwise."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from wardian.envs.verifier import FinalState
from wardian.rollouts.redteam.mutants import Mutant
from wardian.tools.contract import CallEvent, Json


def mutants(state: FinalState, acting: Sequence[str]) -> Iterator[Mutant]:
    """Of a state whose database can be read; `acting` are the names of tools that change something."""
    events = list(state.events)
    acts = [at for at, event in enumerate(events) if event.committed and event.effects and event.tool in acting]
    for at in acts:
        event = events[at]
        detail = f"call {event.index}"
        yield Mutant(f"effect_removed {event.tool}", detail, replace(state, events=(*events[:at], *events[at + 1 :])))
        yield Mutant(f"effect_doubled {event.tool}", detail, replace(state, events=(*events[:at], event, *events[at:])))
        yield Mutant(f"effect_undone {event.tool}", detail, _with(state, at, replace(event, committed=False)))
        for number, effect in enumerate(event.effects):
            for name, value in effect.items():
                if (other := _otherwise(value)) is not None:
                    effects = (*event.effects[:number], {**effect, name: other}, *event.effects[number + 1 :])
                    changed = f"{detail}: {name} {value!r} -> {other!r}"
                    yield Mutant(f"effect_changed {event.tool}.{name}", changed, _with(state, at, replace(event, effects=effects)))
    for one, two in pairwise(acts):
        if (events[one].tool, events[one].effects) != (events[two].tool, events[two].effects):
            yield _swapped(state, one, two)


def _with(state: FinalState, at: int, event: CallEvent) -> FinalState:
    return replace(state, events=(*state.events[:at], event, *state.events[at + 1 :]))


def _swapped(state: FinalState, one: int, two: int) -> Mutant:
    """Two acts that followed each other, the other way round; each place keeps its number and its time."""
    events = list(state.events)
    first, second = events[one], events[two]
    events[one] = replace(second, index=first.index, step=first.step, at_ms=first.at_ms)
    events[two] = replace(first, index=second.index, step=second.step, at_ms=second.at_ms)
    name = f"effects_swapped {first.tool}>{second.tool}"
    return Mutant(name, f"calls {first.index} and {second.index}", replace(state, events=tuple(events)))


def _otherwise(value: Json) -> Json:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str() if value:
            return value + "x"
    return None
