"""How an episode's text is counted in tokens: a named, versioned object that every trajectory records.

The default only estimates. Give the tokenizer of the model that is trained where budgets are to hold for it.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass

from wardian.envs.errors import TaskError

DEFAULT = "estimate"


@dataclass(frozen=True, slots=True)
class Tokenizer:
    name: str
    version: str
    """Another one wherever it may count otherwise."""
    counter: Callable[[str], int]
    """Gives the number of tokens of a text; equal for equal texts, in any process."""
    estimates: bool = False
    """It is no model's own count."""
    source: str = ""
    """What `load_tokenizer` takes to make it again; empty: it cannot."""

    @property
    def label(self) -> str:
        """Name and version in one word."""
        return f"{self.name}@{self.version}"

    def count(self, text: str) -> int:
        """Count the tokens of `text`.

        Raises:
            TaskError: the counter gave no whole number from 0.
        """
        found = self.counter(text)
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise TaskError(
                f"tokenizer: {self.label} gave {found!r} for a text of {len(text)} characters; a count is a whole number from 0"
            )
        return found


def quarter_of_bytes(text: str) -> int:
    """A quarter of the UTF-8 bytes, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


ESTIMATE = Tokenizer(DEFAULT, "1", quarter_of_bytes, estimates=True, source=DEFAULT)


def load_tokenizer(name: str) -> Tokenizer:
    """The estimate by its name, or a user's own as `package.module:function`; the function takes nothing and gives a `Tokenizer`.

    Raises:
        TaskError: there is none of that name; says what is needed.
    """
    if name == DEFAULT:
        return ESTIMATE
    module, _, function = name.partition(":")
    if not function or not module or module.startswith("."):
        raise TaskError(f"tokenizer: no {name!r}; there is {DEFAULT}; one of your own is named package.module:function")
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise TaskError(f"tokenizer: {name!r} cannot be loaded: {error}") from error
    made = _made(name, make)
    return Tokenizer(made.name, made.version, made.counter, made.estimates, source=name)


def _made(name: str, make: object) -> Tokenizer:
    form = f"tokenizer: {name!r} must be a function without arguments that gives a Tokenizer"
    if not callable(make):
        raise TaskError(f"{form}; it is {type(make).__name__}")
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError) as error:
        raise TaskError(f"{form}: {error}") from error
    made = make()
    if not isinstance(made, Tokenizer):
        raise TaskError(f"{form}; it gave {type(made).__name__}")
    return made
