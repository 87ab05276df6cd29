"""Model routing as numbers, for tabular learners and vector environments. The same query as behind the world's tools, without them."""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from wardian.envs.worlds.routing.model import Move, Parameters, Query


class RoutingEnv(gymnasium.Env[np.ndarray[Any, np.dtype[np.int64]], np.int64]):
    """Actions: 0 the cheap model, 1 the strong one, 2 escalate. Observation: rejected answers of the cheap and of the strong model.

    An accepted answer and an escalation terminate; the last rejected attempt truncates. `info` holds `accepted` after each
    step, and nothing that tells whether the query is hard.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, **parameters: float) -> None:
        """Take any of `wardian.envs.worlds.routing.model.Parameters` by name.

        Raises:
            TypeError: there is no such parameter.
            ValueError: one is out of range.
        """
        self._parameters = replace(Parameters(), **parameters)  # type: ignore[arg-type]  # its fields say what each takes
        self.action_space = spaces.Discrete(len(Move))
        most = self._parameters.attempts + 1
        self.observation_space = spaces.MultiDiscrete(np.array([most, most], dtype=np.int64))
        self._query: Query | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Begin with a new query."""
        super().reset(seed=seed)
        self._query = Query(self._parameters, self.np_random.random)
        return self._seen(self._query), {}

    def step(self, action: np.int64) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        """Make one move.

        Raises:
            gymnasium.error.ResetNeeded: no query is open.
            ValueError: there is no such action.
        """
        if self._query is None:
            raise gymnasium.error.ResetNeeded("no query is open; call reset first, and after the end of an episode")
        query, moved = self._query, self._query.move(Move(int(action)))
        if moved.terminated or moved.truncated:
            self._query = None
        return self._seen(query), moved.reward, moved.terminated, moved.truncated, {"accepted": moved.accepted}

    @staticmethod
    def _seen(query: Query) -> np.ndarray[Any, Any]:
        return np.array(query.seen, dtype=np.int64)
