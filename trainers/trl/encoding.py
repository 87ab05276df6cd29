"""Messages to token ids, so that nothing in them can act as a turn, and what a model sampled is never encoded again.

A chat template is rendered as text with a mark inside whatever in a message would read as one of the tokenizer's added tokens
(`<|im_end|>`, `<tool_call>`); the text is then cut at the marks and encoded piece by piece, so that such words come out as plain text ids.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Messages: TypeAlias = Sequence[Mapping[str, Any]]

_MARKS = [chr(code) for code in range(0xE000, 0xE100)]
"""Of the private use area; one that stands in no message is taken."""
_ASKED = {"role": "user", "content": "."}


class Encoder:
    """One tokenizer with its chat template."""

    def __init__(self, tokenizer: Any, template: str | None = None, options: Mapping[str, Any] | None = None) -> None:
        """`template` in place of the tokenizer's own; `options` are further variables of it."""
        self.tokenizer = tokenizer
        self._template = {"chat_template": template} if template else {}
        self._options = dict(options or {})
        added = sorted((word for word in tokenizer.get_added_vocab() if len(word) > 1), key=len, reverse=True)
        self._added = re.compile("|".join(map(re.escape, added))) if added else None

    def prompt(self, messages: Messages, tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Ids of the start of a conversation, up to where the model writes."""
        guarded, mark = self._guarded(messages)
        return self._ids(self._rendered(guarded, tools, going_on=True), mark)

    def answer(self, messages: Messages) -> list[int]:
        """Ids of what follows a turn that the model ended itself: `messages`, and the start of its next turn.

        Raises:
            ValueError: the chat template writes earlier turns in another way once later ones are there; give one that does not.
        """
        guarded, mark = self._guarded(messages)
        calls = [{"type": "function", "function": {"name": message["name"], "arguments": {}}} for message in messages if "name" in message]
        said = {"role": "assistant", "content": "" if calls else ".", **({"tool_calls": calls[:1]} if calls else {})}
        before = self._rendered([_ASKED, said], (), going_on=False)
        after = self._rendered([_ASKED, said, *guarded], (), going_on=True)
        end = self.tokenizer.eos_token or ""
        kept = before.rfind(end) + len(end) if end and end in before else len(before)
        if after[:kept] != before[:kept]:
            raise ValueError(
                "chat template: it writes a turn in another way once a later one follows, so sampled tokens cannot be kept. "
                "Give a template for training, as in tokenizer.chat_template = trl.chat_template_utils.qwen3_training_chat_template"
            )
        return self._ids(after[kept:], mark)

    def text(self, ids: Sequence[int]) -> str:
        """What the model wrote, its control tokens included."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def _guarded(self, messages: Messages) -> tuple[list[dict[str, Any]], str]:
        """The messages with a mark in each word that is a token of its own, and the mark."""
        texts = "".join(str(message["content"]) for message in messages)
        mark = next(mark for mark in _MARKS if mark not in texts)
        return [{**message, "content": self._broken(message["content"], mark)} for message in messages], mark

    def _broken(self, text: str, mark: str) -> str:
        return self._added.sub(lambda found: f"{found[0][0]}{mark}{found[0][1:]}", text) if self._added else text

    def _rendered(self, messages: Messages, tools: Sequence[Mapping[str, Any]], *, going_on: bool) -> str:
        options = {**self._template, **self._options}
        return str(
            self.tokenizer.apply_chat_template(
                list(messages), tools=list(tools) or None, add_generation_prompt=going_on, tokenize=False, **options
            )
        )

    def _ids(self, text: str, mark: str) -> list[int]:
        pieces = [piece for piece in text.split(mark) if piece]
        return [token for piece in pieces for token in self.tokenizer.encode(piece, add_special_tokens=False)]
