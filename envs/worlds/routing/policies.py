"""Fixed plans, by the names under which `wardian run` knows them."""

from wardian.envs.action import Observation, call
from wardian.envs.family import Solution
from wardian.envs.worlds.routing.tools import PARAMETERS


def careless(first: Observation) -> Solution:
    """Always the cheap model."""
    for _ in range(PARAMETERS.attempts):
        yield call("ask_model", model="cheap")


def greedy(first: Observation) -> Solution:
    """Always the strong model."""
    for _ in range(PARAMETERS.attempts):
        yield call("ask_model", model="strong")
