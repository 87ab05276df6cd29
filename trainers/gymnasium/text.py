"""A space of texts: what an agent reads, and what it writes."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np


class AnyText(gymnasium.Space[str]):
    """Any text up to a length. Gymnasium's own `Text` lists its characters, and a world may show any."""

    def __init__(self, max_chars: int, draw: Callable[[np.random.Generator], str], seed: int | None = None) -> None:
        """`draw` makes a sample, since letters at random are no action of any agent."""
        super().__init__(shape=None, dtype=str, seed=seed)
        self.max_chars = max_chars
        self._draw = draw

    @property
    def is_np_flattenable(self) -> bool:
        """It is not."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """Draw a text."""
        return self._draw(self.np_random)

    def contains(self, x: Any) -> bool:
        """Whether it is a text, and not too long."""
        return isinstance(x, str) and len(x) <= self.max_chars

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText) and self.max_chars == other.max_chars

    def __hash__(self) -> int:
        return hash((AnyText, self.max_chars))

    def __repr__(self) -> str:
        return f"AnyText({self.max_chars})"
