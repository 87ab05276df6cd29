"""What an agent reads, as an explicit and versioned function of results.

Results are rendered as JSON, one line per result, and after them one line for each thing that reached the agent unasked, such as
a customer's words; complete: `rendered` says what `results` and `incoming` say. Inside the JSON whatever looks like a control token of a
chat template (`<|im_end|>`, `</s>`, `<tool_call>`, `[INST]`) has its first character written as a JSON escape, so a tool's output
reads the same and can never end a turn. The text of a task and its policy is the world author's and is not encoded; `check_environment`
looks that it holds no control token.

A change of any rendered text needs a new `RENDERER_VERSION`; the golden files in `tests/envs/golden` hold it to that.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from wardian.envs.action import Observation
from wardian.envs.events import Word
from wardian.envs.tokens import ESTIMATE, Tokenizer
from wardian.tools.contract import Json, Status

RENDERER_VERSION = 2

Result: TypeAlias = Mapping[str, Json]

_CONTROL = re.compile(r"<(?=[|/A-Za-z_\uff5c])|\[(?=/?[A-Z_]{2,}\])|[\ud800-\udfff]")


_KNOWN = re.compile(
    r"<[|\uff5c]|</?(?:s|bos|eos|pad|unk|mask|think|tool_?calls?|tool_response|tools|function|start_of_turn|end_of_turn)\b[^<>]*>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS|IMG)\]|<<SYS>>",
    re.IGNORECASE,
)
"""Control tokens of chat templates in use. Results are encoded by the wider pattern above, which needs no list."""


def encode(value: Json) -> str:
    """Write `value` as one line of JSON that holds no control token of any chat template, and no lone surrogate.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(", ", ": "))
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def has_control_token(text: str) -> bool:
    """Whether `text` holds a control token of a chat template in use."""
    return bool(_KNOWN.search(text))


def first_observation(instruction: str, policy: str, now: datetime, tokenizer: Tokenizer = ESTIMATE) -> Observation:
    """Render the start of an episode."""
    world_time = now.isoformat(timespec="seconds")
    rendered = f"# Task\n\n{instruction.strip()}\n\n# Policy\n\n{policy.strip()}\n\n# World time\n\n{world_time}\n"
    shown = {"status": Status.OK.value, "result": {"instruction": instruction, "policy": policy, "world_time": world_time}}
    return Observation(rendered, tokenizer.count(rendered), (shown,))


def observation(results: Sequence[Result], words: Sequence[Word] = (), tokenizer: Tokenizer = ESTIMATE) -> Observation:
    """Render the results of a step, in order, and after them what reached the agent without a call of its own.

    Raises:
        ValueError: a result holds a number that is NaN or infinite.
    """
    incoming = tuple(_shown(word) for word in words)
    rendered = "\n".join(encode(line) for line in (*results, *incoming))
    return Observation(rendered, tokenizer.count(rendered), tuple(results), incoming)


def parted(rendered: str) -> tuple[list[str], list[str]]:
    """The lines of a rendered step: results of its calls, and what reached the agent without one."""
    lines = rendered.split("\n")
    return [line for line in lines if not line.startswith(_INCOMING)], [line for line in lines if line.startswith(_INCOMING)]


_INCOMING = '{"from": '
"""How a line begins that is no result: those begin with their status."""


def _shown(word: Word) -> Result:
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=word.at_ms)
    return {"from": word.sender, "at": at.isoformat(timespec="seconds"), "text": word.text}


def schema_tokens(schemas: Sequence[Mapping[str, Json]], tokenizer: Tokenizer = ESTIMATE) -> int:
    """Tokens of the tool schemas as one line of JSON each, which is how near a prompt can be counted without its chat template."""
    return tokenizer.count("\n".join(json.dumps(schema, ensure_ascii=False) for schema in schemas)) if schemas else 0


def delivered() -> Result:
    """The result of a message that did not end the episode, or did."""
    return {"status": Status.OK.value, "result": "Your message was delivered."}


def lost(calls: int) -> list[Result]:
    """The results of the call by which an agent ended its machine, and of those that should have followed it: `calls` in all."""
    errors = ["Your machine ended while this call ran.", *["Your machine had ended before this call, which was not run."] * (calls - 1)]
    return [{"status": Status.UNAVAILABLE.value, "error": error} for error in errors[:calls]]


def refused(reason: str) -> Result:
    """The result of output that holds no usable action."""
    return {"status": Status.MALFORMED_CALL.value, "error": reason}
