"""The vandal: an agent that dirties whatever it can reach, to prove that nothing of it reaches the next episode.

It takes what tools there are: scripts where there is a shell, files where there are file tools, the world's own `vandal_calls`, and
calls of every tool with arguments made from its schema. All of it is drawn from the policy's seed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import TypeAlias

from wardian.envs.action import Action, Malformed, Message, Observation, ToolCalls, call
from wardian.envs.family import Solution
from wardian.rollouts.policies.base import Script, TaskView
from wardian.rollouts.policies.dirt import HEAVY, ORDINARY
from wardian.sandbox.streams import stream
from wardian.tools.contract import Json, ToolCall

Wreck: TypeAlias = Callable[[Random], Iterable[Action | ToolCall]]
"""A world's own calls that do damage, endless if it likes."""

SCRIPTS, CALLS = 5, 4
"""How much of each kind goes into one episode."""
HEAVY_CHANCE = 0.2


def vandal(wreck: Wreck | None) -> Script:
    """The vandal's script, with the world's own calls where it has some."""

    def script(first: Observation, view: TaskView) -> Solution:
        rng = stream(view.seed, "vandal")
        actions = list(_plan(rng, view, wreck))
        rng.shuffle(actions)
        for action in actions:  # noqa: UP028 - a list cannot be sent the observations
            yield action
        yield Message("All done, nothing broken.")

    return script


def _plan(rng: Random, view: TaskView, wreck: Wreck | None) -> Iterator[Action]:
    schemas = {schema["function"]["name"]: schema["function"]["parameters"] for schema in view.tool_schemas}
    if "shell" in schemas:
        yield from _scripts(rng)
    if "write_file" in schemas:
        for path in (".bashrc", "/tmp/left", f"a/b/c/{rng.randrange(100)}", "/dev/shm/left", "/etc/passwd"):
            yield call("write_file", path=path, content="vandal was here\n" * rng.randrange(1, 200))
    if wreck is not None:
        yield from (_as_action(one) for one in islice(wreck(rng), CALLS))
    names = sorted(set(schemas) - {"shell"})
    yield from (call(name, **arguments(rng, schemas[name])) for name in rng.choices(names, k=CALLS) if names)
    yield Malformed("<tool_call>{ broken", "The tool call is not complete.")


def _scripts(rng: Random) -> Iterator[Action]:
    for name in rng.sample(sorted(ORDINARY), SCRIPTS):
        yield call("shell", command=ORDINARY[name])
    if rng.random() < HEAVY_CHANCE:
        script, limit_s = HEAVY[rng.choice(sorted(HEAVY))]
        yield call("shell", command=script, timeout_s=limit_s)


def _as_action(one: Action | ToolCall) -> Action:
    return ToolCalls((one,)) if isinstance(one, ToolCall) else one


def arguments(rng: Random, schema: Mapping[str, Json]) -> dict[str, Json]:
    """Make arguments that a schema mostly accepts; optional ones by chance."""
    required: Sequence[str] = schema.get("required", ())
    properties: Mapping[str, Mapping[str, Json]] = schema.get("properties", {})
    return {name: _value(rng, inner) for name, inner in properties.items() if name in required or rng.random() < 0.3}


def _value(rng: Random, schema: Mapping[str, Json]) -> Json:
    if "anyOf" in schema:
        return _value(rng, rng.choice(schema["anyOf"]))
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "integer" | "number":
            low = int(schema.get("minimum", 0))
            return rng.randint(low, min(int(schema.get("maximum", low + 50)), low + 50))
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [_value(rng, schema.get("items", {}))]
        case "object":
            return arguments(rng, schema)
        case "null":
            return None
    text: str = rng.choice(["vandal", "x", "2026-03-01", "/workspace/left", "'; DROP TABLE users; --"])
    return text
