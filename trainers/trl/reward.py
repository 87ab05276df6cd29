"""The reward of an episode, as TRL asks for it."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from wardian.trainers.trl.environment import TaskEnvironment
from wardian.trainers.trl.outcome import Outcome, measures


def episode_reward(
    *,
    wardian: Sequence[Outcome] | None = None,
    environments: Sequence[TaskEnvironment] | None = None,
    completions: Sequence[Sequence[Mapping[str, Any]]] = (),
    log_metric: Callable[[str, float], None] | None = None,
    **_: Any,
) -> list[float | None]:
    """The server's reward for each episode; `None` where it was not scored, which TRL leaves out of its group.

    `wardian` comes from `WardianSpec.rollout_func`; with an `environment_factory` the episodes are ended here, side by side.

    Raises:
        ValueError: the rows were played by neither.
    """
    if wardian is None:
        if environments is None:
            raise ValueError("reward_funcs: give the trainer WardianSpec.rollout_func or WardianSpec.environment_factory as well")
        with ThreadPoolExecutor(max_workers=len(environments)) as threads:
            wardian = list(threads.map(lambda pair: pair[0]._finish(pair[1]), zip(environments, completions, strict=True)))
    if log_metric is not None:
        for name, value in measures(wardian).items():
            log_metric(f"wardian/{name}", value)
    return [outcome.reward for outcome in wardian]
