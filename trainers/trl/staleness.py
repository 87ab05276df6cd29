"""How old the weights were that acted: a filter over what was played, by the version that stands in every step of a trajectory."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wardian.rollouts.export.selection import Episode


def version_number(version: str) -> int:
    """The number that a version ends with: 17 of `17` and of `step-17`.

    Raises:
        ValueError: it ends with none.
    """
    found = re.search(r"\d+$", version)
    if found is None:
        raise ValueError(f"policy version: {version!r} ends with no number, so its age cannot be told; name versions as in step-17")
    return int(found[0])


def staleness(versions: Iterable[str], now: int) -> int:
    """How many versions the oldest weights of an episode are behind `now`; 0 where nothing acted."""
    return max((now - version_number(version) for version in versions), default=0)


def fresh_rows(rows: Iterable[Mapping[str, Any]], now: int, max_staleness: int) -> Iterator[Mapping[str, Any]]:
    """Rows of an export (`wardian export chat`, `load_rows`) that no older weights acted in than `max_staleness` versions before `now`."""
    return (row for row in rows if staleness(row["policy_checkpoints"], now) <= max_staleness)


def fresh_episodes(episodes: Iterable[Episode], now: int, max_staleness: int) -> Iterator[Episode]:
    """The same of the episodes of a folder of trajectories."""
    return (episode for episode in episodes if staleness((step.policy_checkpoint for step in episode.steps), now) <= max_staleness)
