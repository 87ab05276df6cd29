"""The trusted event log of one episode: every call in order, faults included. Verifiers and replay read it, agents never."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import overload

from wardian.tools.contract import CallEvent, Json


def to_json(event: CallEvent) -> dict[str, Json]:
    """The event as a plain JSON object."""
    return asdict(event) | {"status": event.status.value, "effects": list(event.effects)}


class EventLog(Sequence[CallEvent]):
    """Append-only. A snapshot keeps `tuple(log)` and restores with `EventLog(kept)`."""

    def __init__(self, events: Iterable[CallEvent] = ()) -> None:
        self._events = list(events)

    def append(self, event: CallEvent) -> None:
        """Add the newest event."""
        self._events.append(event)

    def since(self, step: int) -> tuple[CallEvent, ...]:
        """Events of step `step` and later."""
        return tuple(event for event in self._events if event.step >= step)

    def effects(self, kind: str) -> tuple[dict[str, Json], ...]:
        """Facts of that kind that committed calls noted, in order."""
        return tuple(fact for event in self._events if event.committed for fact in event.effects if fact["kind"] == kind)

    def dump(self) -> str:
        """One JSON line per event. ASCII, so that even text which UTF-8 cannot hold is written and read back."""
        return "".join(json.dumps(to_json(event), ensure_ascii=True) + "\n" for event in self._events)

    def __iter__(self) -> Iterator[CallEvent]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> CallEvent: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CallEvent, ...]: ...
    def __getitem__(self, index: int | slice) -> CallEvent | tuple[CallEvent, ...]:
        return tuple(self._events[index]) if isinstance(index, slice) else self._events[index]
