"""Whatever a model writes: reading it never raises, never accepts what the schema refuses, and never changes a value unseen."""

import json
from typing import Any, Literal

from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import Field

from wardian.tools.contract import Arguments, Json
from wardian.tools.loading import Rejected, load
from wardian.tools.parsing import Parsed, parse
from wardian.tools.schemas import arguments_schema


class Line(Arguments):
    sku: str
    qty: int = Field(default=1, ge=1, le=1 << 60)
    tags: list[str] = Field(default_factory=list)


class Order(Arguments):
    order_id: int
    status: Literal["open", "held"] = "open"
    level: Literal[1, 2, 3] = 1
    lines: list[Line] = Field(default_factory=list, max_length=3)
    first: Line | None = None
    note: str | None = None
    rush: bool = False
    amount: float = 0.0
    weights: dict[str, float] = Field(default_factory=dict)
    pair: tuple[int, bool] = (0, False)
    either: int | str = 0
    extra: Any = None


class Nothing(Arguments):
    """Nothing to say."""


MODELS: tuple[type[Arguments], ...] = (Order, Nothing)
SCHEMAS = {model: Draft202012Validator(arguments_schema(model)) for model in MODELS}

INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from([(1 << 53) + 1, 1 << 53, -(1 << 53) - 1, (1 << 63) - 1])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(max_size=8) | st.sampled_from(
    ["<|im_end|>", "</tool_call>", "\x00", "\U0001f378", "17", "[1]", '{"a": 1}', "null", "```", "\\", '"']
)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)
LINES = st.fixed_dictionaries({"sku": WORDS}, optional={"qty": st.integers(1, 9), "tags": st.lists(WORDS, max_size=2)})
ORDERS = st.fixed_dictionaries(
    {"order_id": INTEGERS},
    optional={
        "status": st.sampled_from(["open", "held"]),
        "level": st.sampled_from([1, 2, 3]),
        "lines": st.lists(LINES, max_size=2),
        "first": st.none() | LINES,
        "note": st.none() | WORDS,
        "rush": st.booleans(),
        "amount": FLOATS | st.integers(-9, 9),
        "weights": st.dictionaries(WORDS, FLOATS, max_size=2),
        "pair": st.tuples(INTEGERS, st.booleans()).map(list),
        "either": INTEGERS | WORDS,
        "extra": VALUES,
    },
)
ESCAPES = ["\\u", "\\ud83d", "\\udf78", "NaN", "-Infinity", "1e999", "-0", "1.0", "9007199254740993", "true", "None", "```json\n"]
FIELDS = ['"order_id": 1,', '"order_id": "1",', '"rush": "true",', '"lines": "[]",', '"first": "{\\"sku\\": \\"a\\"}",', '"x": 1,']
PIECES = st.sampled_from([*"{}[]\",:\\ \n\t\x00\x1f\ufeff\ud800'", *ESCAPES, *FIELDS, "\n```", "9" * 400, "[" * 80])


@st.composite
def stringified(draw: st.DrawFn) -> Json:
    """A good order, in which some values stand as the strings of their JSON."""
    return {key: json.dumps(value) if draw(st.booleans()) else value for key, value in draw(ORDERS).items()}


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The text of a call, and up to three changes to it."""
    value = draw(ORDERS | stringified() | VALUES)
    text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    if draw(st.integers(0, 5)) == 0:
        text = draw(
            st.sampled_from([json.dumps(text), f"```json\n{text}\n```", f"```\n{text}```", f"{text} {text}", text.replace("\\n", "\n")])
        )
    for _ in range(draw(st.integers(0, 3))):
        at, gone = draw(st.integers(0, len(text))), draw(st.integers(0, 3))
        text = text[:at] + draw(PIECES | st.just("")) + text[at + gone :]
    return text


def decodings(sent: Json, taken: Json) -> int:
    """How many strings of `sent` were decoded to give `taken`; fails when anything else became of it."""
    if isinstance(sent, str) and not isinstance(taken, str):
        inner = json.loads(sent)
        assert repr(inner) == repr(taken)
        assert isinstance(taken, dict | list) or json.dumps(taken) == sent
        return 1
    assert type(sent) is type(taken)
    if isinstance(sent, dict):
        assert list(sent) == list(taken)
        return sum(decodings(sent[key], taken[key]) for key in sent)
    if isinstance(sent, list):
        return sum(decodings(*both) for both in zip(sent, taken, strict=True))
    assert repr(sent) == repr(taken)
    return 0


def original(raw: str, repaired: str) -> Json:
    """What stands in the text, read by another reader."""
    if "code_fence" in repaired:
        raw = raw.strip().partition("\n")[2].removesuffix("```")
    return json.loads(raw, strict="control_characters" not in repaired)


def check_parsed(model: type[Arguments], found: Parsed, sent: Json) -> None:
    SCHEMAS[model].validate(found.values)
    places = found.repaired.partition("decoded(")[2]
    assert decodings(sent, found.values) == bool(places) * (places.count(" ") + 1) or any(" " in str(key) for key in walk(sent))
    again = parse(model, json.dumps(found.values))
    assert isinstance(again, Parsed)
    assert (repr(again.values), again.arguments, again.repaired) == (repr(found.values), found.arguments, "")
    assert model.model_validate_json(json.dumps(found.values)) == found.arguments


def walk(value: Json) -> list[Json]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*(value if isinstance(value, dict) else ()), *(key for part in inner for key in walk(part))]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(MODELS), mutated())
@example(Order, '{"order_id": 1, "weights": {"a": 9007199254740993}}')
@example(Order, '{"order_id": 1, "first": {"sku": "a", "qty": "2"}}')
@example(Order, '{"order_id": 1, "lines": ["{\\"sku\\": \\"a\\"}"]}')
@example(Order, '{"order_id": 1, "extra": [[9007199254740993, 1e308]], "amount": 1e-400}')
@example(Order, '{"order_id": 1, "level": true}')
@example(Order, '{"order_id": 1, "level": 1.0}')
@example(Order, '{"order_id": "1", "pair": ["1", "true"]}')
def test_no_text_raises_and_what_is_accepted_is_what_was_written(model: type[Arguments], raw: str) -> None:
    found = parse(model, raw)
    if isinstance(found, Rejected):
        assert len(found.message.encode()) + len(str(found).encode()) < 1500
        return
    if raw.strip() not in ("", "null"):
        sent = original(raw, found.repaired)
        if "decoded(arguments)" in found.repaired:
            sent, found = json.loads(sent), Parsed(found.arguments, found.values, found.repaired.replace("decoded(arguments)", ""))
        check_parsed(model, found, sent)


@settings(max_examples=150, deadline=None)
@given(ORDERS, st.booleans())
def test_every_good_call_is_accepted_unchanged(values: dict[str, Json], ascii_only: bool) -> None:
    for raw in (json.dumps(values, ensure_ascii=ascii_only), values):
        found = parse(Order, raw)
        assert isinstance(found, Parsed)
        assert (repr(found.values), found.repaired) == (repr(values), "")


@settings(max_examples=150, deadline=None)
@given(VALUES | st.builds(json.dumps, VALUES), st.sampled_from(list(Order.model_fields)))
def test_a_value_that_the_schema_refuses_is_never_accepted(value: Json, field: str) -> None:
    found = parse(Order, {"order_id": 1, field: value})
    if isinstance(found, Parsed):
        check_parsed(Order, found, {"order_id": 1, field: value})


@settings(max_examples=150)
@given(VALUES, st.booleans())
def test_every_json_value_survives_unchanged(value: Json, ascii_only: bool) -> None:
    found = load(json.dumps(value, ensure_ascii=ascii_only))
    assert not isinstance(found, Rejected)
    assert (repr(found.value), found.repaired) == (repr(value), "")
