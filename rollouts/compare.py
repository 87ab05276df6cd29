"""The first difference between a recorded step and the same step run again, named so that one can look for its cause."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from wardian.rollouts.lines import well_formed_json
from wardian.rollouts.records import EpisodeEnd, EpisodeStart, Json, StepRecord
from wardian.sandbox import differing
from wardian.sandbox.differing import Difference, Part


def start_difference(recorded: EpisodeStart, found: EpisodeStart) -> Difference | None:
    """The first difference between two starts. Receipts and real times are the machine's and not compared."""
    names = ("task_hash", "split", "observation", "schema_tokens", "tools", "clock_ms")
    parts: list[Part] = [(name, getattr(recorded, name), getattr(found, name)) for name in names]
    counted, counts = recorded.tokenizer, found.tokenizer
    if (counted.name, counted.version) == (counts.name, counts.version):  # another one is a matter of versions
        parts.append(("tokenizer", counted, counts))
    return _first([*parts, *_leaves(recorded, found)])


def step_difference(recorded: StepRecord, found: StepRecord, *, files_inexact: bool) -> Difference | None:
    """The first difference between two steps, causes before effects. Real times are not compared.

    `files_inexact`: in this step or before, an outcome was applied that depends on the machine; files are then not compared.
    """
    parts: list[Part] = [("events", _events(recorded), _events(found))]
    parts += [(name, getattr(recorded, name), getattr(found, name)) for name in _BEFORE_STATE]
    parts.append(("database", _rows(recorded), _rows(found)))
    if not files_inexact:
        parts.append(("files", recorded.files, found.files))
    parts += [("clock_ms", recorded.clock_ms, found.clock_ms), *_leaves(recorded, found, skip="files" if files_inexact else "")]
    parts += [(name, getattr(recorded, name), getattr(found, name)) for name in ("verdict", "recomputed")]
    return _first(parts)


def end_difference(recorded: EpisodeEnd, found: EpisodeEnd | None) -> Difference | None:
    """The first difference between two ends; `None` in place of the second: the episode has not ended by its last step."""
    if found is None:
        return Difference("outcome", repr(recorded.outcome), "an episode that goes on")
    return _first([(name, getattr(recorded, name), getattr(found, name)) for name in _OF_END])


_OF_END = (
    *(
        "outcome",
        "end_cause",
        "steps",
        "verdict",
        "succeeded",
        "reward_components",
        "reward",
        "mask",
        "tool_outcomes",
        "faults",
        "problems",
    ),
    *("inexact", "tokens", "prompt_tokens", "completion_tokens"),
)

_BEFORE_STATE = (
    "tool_result",
    "tool_results",
    "background",
    "observation",
    "reward_components",
    "reward",
    "terminated",
    "truncated",
    "end_cause",
    "failed",
)


def _events(step: StepRecord) -> list[Json]:
    """Events without the raw output of inexact calls, of which only the outcome is applied."""
    return [event.model_dump(exclude={"attachments"} if event.inexact else set()) for event in step.events]


def _rows(step: StepRecord) -> dict[str, Json]:
    return {f"{row.table}[{', '.join(map(repr, row.key))}]": {"before": row.before, "after": row.after} for row in step.database}


def _leaves(recorded: EpisodeStart | StepRecord, found: EpisodeStart | StepRecord, skip: str = "") -> list[Part]:
    """Leaf by leaf, since a root only says that something differs."""
    sides = [{} if one.fingerprint is None else one.fingerprint.leaves for one in (recorded, found)]
    expected, actual = ({name: value for name, value in side.items() if name != skip} for side in sides)
    return [("fingerprint", expected, actual)]


def _first(parts: Sequence[Part]) -> Difference | None:
    return next((one for name, expected, found in parts for one in differences(name, expected, found)), None)


def differences(path: str, expected: Json, found: Json) -> Iterator[Difference]:
    """All differences between two values of JSON or records, depth first; texts count as a log holds them."""
    return differing.differences(path, *(well_formed_json(_plain(one)) for one in (expected, found)))


def _plain(value: Json) -> Json:
    match value:
        case BaseModel():
            return value.model_dump()
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
    return value
