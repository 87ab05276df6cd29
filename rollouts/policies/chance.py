"""The policy `random`: calls at random that the schemas allow, with values that were seen where there are some. For any world.

It knows of an argument what its schema says and what stood under the same name in an answer, so that `ticket_id` is mostly a ticket; it
knows nothing of what the tools are for. All of it is drawn from the policy's seed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from wardian.envs.action import Message, Observation, ToolCalls, call
from wardian.envs.family import Solution
from wardian.rollouts.policies.base import TaskView
from wardian.sandbox.streams import stream
from wardian.tools.contract import Json

END_CHANCE = 0.05
"""Before each call: that it says something instead, which mostly ends the episode."""
OPTIONAL_CHANCE = 0.2
SEEN_CHANCE = 0.9
MOST_CALLS = 200
WORDS = ("yes", "no", "done", "a good reason", "Thank you, we look into it.", "2026-05-01")
COMMANDS = ("ls -R .", "pwd", "cat {path}", "head -n 5 {path}", "wc -l {path}")
NO_VALUE = object()


@dataclass(slots=True)
class Seen:
    """Values by the name that they stood under, each once and in the order in which they came."""

    values: dict[str, dict[Json, None]] = field(default_factory=dict)

    def take(self, observation: Observation) -> None:
        """Remember what an observation shows."""
        for result in observation.results:
            for name, value in _leaves(result.get("result"), ""):
                self.values.setdefault(name, {})[value] = None
                if isinstance(value, str):
                    for path in re.findall(r"/\w[\w./-]*\w", value):
                        self.values.setdefault("path", {})[path] = None

    def first(self, observation: Observation) -> None:
        """Remember what the task's own text names: numbers that may be anything, and paths."""
        self.take(observation)
        for number in re.findall(r"\b\d{1,15}\b", str(observation.results[0]["result"]["instruction"])):
            self.values.setdefault("", {})[int(number)] = None

    def of(self, name: str) -> list[Json]:
        """What may be meant by `name`."""
        return [*self.values.get(name, ()), *self.values.get("", ())]


def random_call(rng: Random, schemas: Sequence[Mapping[str, Any]], seen: Seen) -> ToolCalls | None:
    """A call that `schemas` (in the OpenAI function format) allow; `None` where no value is known for an argument that it needs."""
    chosen = rng.choice(sorted((schema["function"] for schema in schemas), key=lambda function: str(function["name"])))
    args = _arguments(rng, chosen["parameters"], seen)
    return None if args is None else call(chosen["name"], **args)


def random_calls(first: Observation, view: TaskView) -> Solution:
    """Call tools at random until something is said."""
    rng, seen = stream(view.seed, "random"), Seen()
    seen.first(first)
    for _ in range(MOST_CALLS):
        drawn = random_call(rng, view.tool_schemas, seen)
        if rng.random() < END_CHANCE:
            seen.take((yield Message(rng.choice(WORDS))))
        if drawn is not None:
            seen.take((yield drawn))
    yield Message("")


def _arguments(rng: Random, schema: Mapping[str, Any], seen: Seen) -> dict[str, Json] | None:
    """Arguments that the schema allows; `None` where no value is known for one that has to be given."""
    args = {}
    for name, inner in schema.get("properties", {}).items():
        needed = name in schema.get("required", ())
        if not needed and rng.random() >= OPTIONAL_CHANCE:
            continue
        value = _value(rng, name, inner, seen)
        if value is not NO_VALUE:
            args[name] = value
        elif needed:
            return None
    return args


def _value(rng: Random, name: str, schema: Mapping[str, Any], seen: Seen) -> Any:
    if "anyOf" in schema:
        return _value(rng, name, rng.choice(schema["anyOf"]), seen)
    if "enum" in schema or "const" in schema:
        return rng.choice(schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "integer" | "number":
            return _number(rng, name, schema, seen)
        case "boolean":
            return rng.random() < 0.5
        case "array":
            item = _value(rng, name, schema.get("items", {}), seen)
            return NO_VALUE if item is NO_VALUE else [item] * max(1, schema.get("minItems", 1))
        case "object":
            found = _arguments(rng, schema, seen)
            return NO_VALUE if found is None else found
        case "null":
            return None
    return _text(rng, name, schema, seen)


def _number(rng: Random, name: str, schema: Mapping[str, Any], seen: Seen) -> int:
    low = int(schema.get("minimum", schema.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in schema)))
    high = int(schema.get("maximum", 2**31))
    known = [value for value in seen.of(name) if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high]
    if known and rng.random() < SEEN_CHANCE:
        return rng.choice(known)
    return rng.randint(low, min(high, low + 1000))


def _text(rng: Random, name: str, schema: Mapping[str, Any], seen: Seen) -> Any:
    paths = [value for value in seen.of("path") if isinstance(value, str)] or ["."]
    words: list[str] = list(WORDS)
    if name == "path":
        words = paths
    elif name == "command":
        words = [command.format(path=rng.choice(paths)) for command in COMMANDS]
    known = [value for value in seen.of(name) if isinstance(value, str) and _fits(value, schema)]
    if known and name != "command" and rng.random() < SEEN_CHANCE:
        return rng.choice(known)
    fitting = [word for word in words if _fits(word, schema)]
    return rng.choice(fitting) if fitting else NO_VALUE


def _fits(text: str, schema: Mapping[str, Any]) -> bool:
    right = schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", len(text))
    return right and (re.search(schema["pattern"], text) is not None if "pattern" in schema else True)


def _leaves(value: Json, name: str) -> Iterator[tuple[str, Json]]:
    """Texts and numbers of an answer, with the name of the field that holds them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, key)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, name)
    elif isinstance(value, str | int):
        yield name, value
