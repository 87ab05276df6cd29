"""What a model is told about its tools where they are not sent by the API: their schemas, and the one format that will be read."""

import json
from collections.abc import Sequence

from wardian.tools.completions import CallFormat
from wardian.tools.contract import Json

_FORMS = {
    CallFormat.JSON: 'To call a tool, answer with one JSON object and nothing else: {"name": "...", "arguments": {...}}',
    CallFormat.TAGS: (
        'To call tools, write for each call: <tool_call>{"name": "...", "arguments": {...}}</tool_call>\n'
        "Several calls of one answer run in the order in which they stand."
    ),
    CallFormat.MISTRAL: (
        "To call tools, write for each call: [TOOL_CALLS]name{...}, where {...} is one JSON object with the arguments.\n"
        "Several calls of one answer run in the order in which they stand."
    ),
    CallFormat.INVOKE: (
        'To call tools, write for each call: <invoke name="..."><parameter name="...">value</parameter></invoke>\n'
        "Several calls of one answer run in the order in which they stand."
    ),
}


def tools_section(schemas: Sequence[dict[str, Json]], form: CallFormat) -> str:
    """The section on tools of a system message; each tool is one line of JSON in the OpenAI function format."""
    lines = "\n".join(json.dumps(schema, ensure_ascii=False) for schema in schemas)
    return f"# Tools\n\n{lines}\n\n{_FORMS[form]}\nText without a call is a message."
