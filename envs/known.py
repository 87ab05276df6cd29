"""The tasks of one environment and its forks, and whether a snapshot is of what the environment is."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wardian.envs.definition import WorldDefinition
from wardian.envs.family import Family
from wardian.envs.snapshot import Snapshot
from wardian.envs.splits import must_be
from wardian.envs.task import Task, TaskId
from wardian.envs.tokens import Tokenizer
from wardian.envs.variants import task_of
from wardian.envs.versions import check_versions, world_versions
from wardian.sandbox.errors import SnapshotRefused
from wardian.sandbox.sealed import start_of

if TYPE_CHECKING:
    from wardian.envs.stage import Stage


class KnownTasks:
    """Generates tasks, and keeps the last one with its hash: generating and hashing one again for each fork would be most of it."""

    def __init__(self, world: WorldDefinition, split: str | None = None) -> None:
        """`split`: the only one whose tasks may be played; `None`: any."""
        self._world, self._split = world, split
        self._last: Task | None = None
        self._hash = ""

    def generate(self, task_id: str) -> tuple[Task, Family]:
        """The task of that id.

        Raises:
            TaskError: there is no such task.
            HeldOut: it is of another split.
        """
        parsed = TaskId.parse(task_id)
        family = self._world.family(parsed.family)
        task = task_of(self._world, parsed)
        must_be(self._split, task_id, task.split)
        return task, family

    def hash_of(self, task: Task) -> str:
        """`task.hash`, made once."""
        if self._last is not task:
            self._last, self._hash = task, task.hash
        return self._hash

    def checked(self, snapshot: Snapshot, versions: Mapping[str, str]) -> tuple[Task, Family]:
        """The task of a snapshot, which this environment can go on with.

        Raises:
            SnapshotRefused: it cannot; says why.
            HeldOut: its task is of another split.
        """
        check_versions({**snapshot.versions, "task": ""}, {**versions, "task": ""})
        if snapshot.past.lost:
            raise SnapshotRefused(f"the snapshot has no cell: its agent ended it ({snapshot.past.lost})")
        last, wanted = self._last, snapshot.versions.get("task")
        if last is not None and str(last.id) == snapshot.task_id and self._hash == wanted:
            return last, self._world.family(last.id.family)
        task, family = self.generate(snapshot.task_id)
        found = self.hash_of(task)
        if found != wanted:
            raise SnapshotRefused(f"the snapshot is of another task {snapshot.task_id}: {wanted}, and here {found}")
        return task, family


def versions_with(world: WorldDefinition, stage: "Stage", tokenizer: Tokenizer) -> dict[str, str]:
    """All that a snapshot must agree in with an environment, but its task."""
    return {
        **world_versions(world),
        "template": stage.template.key,
        "faults": f"{stage.faults.name} {stage.faults.hash}",
        "malformed": stage.malformed.value,
        "tokenizer": tokenizer.label,
        "cells": start_of(stage.cells.spec) if stage.cells else "none",
    }
