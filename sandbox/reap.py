"""Remove what killed runs left in the engine.

A cell vanishes by itself when its owner dies: its stdin ends, and the engine removes it. This is the second line, for
containers that were made and never started, for databases, and for an engine that was restarted in between. Only what carries
our labels is looked at, and only what has no living owner is removed, so two runs side by side never harm one another.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from docker.api.client import APIClient
from docker.errors import NotFound

from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import EngineUnavailable
from wardian.sandbox.labels import HOST, KIND, PID, RUN, age_s, is_ours, owner_is_alive, owner_is_here


@dataclass(frozen=True, slots=True)
class Found:
    """One thing of ours in the engine."""

    what: str
    """`container`, `volume` or `network`."""
    id: str
    name: str
    labels: Mapping[str, str]

    def __str__(self) -> str:
        kind, owner, host = (self.labels.get(label, "?") for label in (KIND, PID, HOST))
        return f"{self.what} {self.name} ({kind} of pid {owner} on {host}, {age_s(self.labels):.0f} s old)"


@dataclass(frozen=True, slots=True)
class ReapReport:
    """What was done; each line names one thing."""

    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Ours, and left: the owner lives, or cannot be looked up from here and is younger than the age asked for."""
    problems: tuple[str, ...] = ()
    """Ours, and not removable; with the engine's words."""


async def reap(engine: Engine, *, everything: bool = False, older_than_s: float | None = None, dry_run: bool = False) -> ReapReport:
    """Remove containers, then networks and volumes, that carry our labels and whose owner is dead. Idempotent.

    `older_than_s` adds what is older and whose owner cannot be looked up from here (another machine, boot or pid namespace);
    without it that is kept. `everything` takes all that is ours, living owners' too. A `dry_run`
    removes nothing and reports what would go as removed.

    Raises:
        EngineUnavailable: the engine could not even list what it has.
    """
    removed, kept, problems = [], [], []
    for found in [*await _containers(engine), *await _networks(engine), *await _volumes(engine)]:
        if not (everything or is_orphan(found.labels, older_than_s)):
            kept.append(str(found))
            continue
        try:
            if not dry_run:
                await _remove(engine, found)
        except EngineUnavailable as error:
            problems.append(f"{found}: {error.detail}")
        else:
            removed.append(str(found))
    return ReapReport(tuple(removed), tuple(kept), tuple(problems))


def is_orphan(labels: Mapping[str, str], older_than_s: float | None = None) -> bool:
    """Whether a thing with these labels has no owner any more; see `reap` for owners that are elsewhere."""
    if owner_is_here(labels):
        return not owner_is_alive(labels)
    return older_than_s is not None and age_s(labels) > older_than_s


async def _containers(engine: Engine) -> list[Found]:
    rows = await engine.run("list containers", lambda api: api.containers(all=True, filters={"label": RUN}))
    found = [
        Found("container", row["Id"], row["Names"][0].lstrip("/") if row["Names"] else row["Id"][:12], row["Labels"] or {}) for row in rows
    ]
    return [one for one in found if is_ours(one.labels)]


async def _networks(engine: Engine) -> list[Found]:
    rows = await engine.run("list networks", lambda api: api.networks(filters={"label": RUN}))
    found = [Found("network", row["Id"], row["Name"], row["Labels"] or {}) for row in rows]
    return [one for one in found if is_ours(one.labels)]


async def _volumes(engine: Engine) -> list[Found]:
    answer = await engine.run("list volumes", lambda api: api.volumes(filters={"label": RUN}))
    found = [Found("volume", row["Name"], row["Name"], row["Labels"] or {}) for row in answer["Volumes"] or ()]
    return [one for one in found if is_ours(one.labels)]


async def _remove(engine: Engine, found: Found) -> None:
    if found.what == "container":
        await engine.remove(found.id)
        return
    removers: dict[str, Callable[[APIClient], object]] = {
        "network": lambda api: api.remove_network(found.id),
        "volume": lambda api: api.remove_volume(found.id, force=True),
    }

    def call(api: APIClient) -> None:
        try:
            removers[found.what](api)
        except NotFound:
            return  # another reaper was faster

    await engine.run(f"remove {found.what}", call)
