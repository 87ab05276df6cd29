"""`wardian image adopt`: look, derive, try, keep."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import anyio.to_thread

from wardian.sandbox.adoption import build
from wardian.sandbox.adoption.adopted import AdoptedFacts, CellImage, recipe
from wardian.sandbox.adoption.history import History, histories, repositories
from wardian.sandbox.adoption.source import SourceImage, exported, look_at
from wardian.sandbox.adoption.trial import TierTrial, try_image
from wardian.sandbox.cell import BASH
from wardian.sandbox.engine import Engine
from wardian.sandbox.images import BUILD_SILENCE_S, Progress, build_lock, engine_client, ensure_images, present


@dataclass(frozen=True, slots=True)
class Adoption:
    """What came of it."""

    image: CellImage
    source: SourceImage
    trials: tuple[TierTrial, ...]
    tag: str = ""
    """A second name, where one was asked for."""
    histories: tuple[History, ...] = ()
    """Of the git repositories in it; none where no tier works."""
    history_allowed: bool = False
    """Whether it was asked for with whatever git holds."""

    @property
    def works(self) -> bool:
        """Whether it is a cell in some tier."""
        return any(trial.works for trial in self.trials)

    @property
    def usable(self) -> bool:
        """Whether some tier works, and git gives nothing away that nobody allowed; only then the image has its tag."""
        return self.works and (self.history_allowed or all(history.clean for history in self.histories))

    def as_json(self) -> Mapping[str, Any]:
        """One object: the image, what holds in it, and each tier's findings."""
        return {
            "usable": self.usable,
            "image": self.image.reference if self.usable else None,
            "tag": (self.tag or None) if self.usable else None,
            "source": self.source.name,
            "source_id": self.source.id,
            "shell": self.image.shell or None,
            "environment": dict(self.image.environment),
            "added": list(self.source.lacking),
            "not_taken_over": self.source.not_taken_over(),
            "git": [asdict(history) | {"clean": history.clean} for history in self.histories],
            "tiers": {
                trial.tier.value: {"works": trial.works, "checks": [asdict(finding) for finding in trial.findings]} for trial in self.trials
            },
        }


async def adopt(name: str, tag: str = "", progress: Progress = lambda line: None, *, allow_history: bool = False) -> Adoption:
    """Derive an image from the local image `name`, and try it as a cell of each tier. One that is there is tried again, not built.

    One whose git repositories hold more than HEAD and its past is kept only with `allow_history`.

    Raises:
        ImageUnfit: there is no such image, it can be no cell, or `tag` is another image's.
        EngineUnavailable: the engine failed; the step is named.
        CellUnavailable: a source of our images is missing.
    """
    source = await anyio.to_thread.run_sync(_prepare, name, tag, progress)
    reference = build.reference_of(source)
    with ExitStack() as held:
        await anyio.to_thread.run_sync(held.enter_context, build_lock())
        held.callback(_tidy, reference)
        tried = await anyio.to_thread.run_sync(_build, source, reference, progress)
        progress(f"trying {tried} as a cell")
        trials, found_in_git = await _tried(tried, source, progress)
        shell = next((trial.shell for trial in trials if trial.works), "")
        variables = source.environment if shell in (BASH, "") else (*source.environment, ("SHELL", shell))
        found = Adoption(CellImage(reference, shell, variables), source, trials, tag, found_in_git, allow_history)
        if found.usable:
            await anyio.to_thread.run_sync(_keep, found, tried, progress)
    return found


async def _tried(image: str, source: SourceImage, progress: Progress) -> tuple[tuple[TierTrial, ...], tuple[History, ...]]:
    engine = await Engine.open()
    try:
        trials = await try_image(engine, image, source.shells)
        tier = next((trial.tier for trial in trials if trial.works), None)
        folders = await anyio.to_thread.run_sync(_repositories, image) if tier else ()
        if tier is None or not folders:
            return trials, ()
        progress(f"looking at {len(folders)} git repositories in it")
        return trials, await histories(engine, image, tier, folders)
    finally:
        engine.close()


def _repositories(image: str) -> tuple[str, ...]:
    with engine_client("look at image", timeout_s=BUILD_SILENCE_S) as client, exported(client, image) as chunks:
        return repositories(chunks)


def _prepare(name: str, tag: str, progress: Progress) -> SourceImage:
    ensure_images(progress)
    with engine_client("look at image", timeout_s=BUILD_SILENCE_S) as client:
        if tag:
            build.check_tag(client, tag)
        return look_at(client, name, client.api.version()["Arch"])


def _build(source: SourceImage, reference: str, progress: Progress) -> str:
    """The reference to try: the adopted image where it is there, else a new candidate."""
    with engine_client("adopt image", timeout_s=BUILD_SILENCE_S) as client:
        return reference if present(client, reference) else build.build_candidate(client, source, progress)


def _keep(found: Adoption, tried: str, progress: Progress) -> None:
    """Give what works its tags."""
    image = found.image
    with engine_client("adopt image", timeout_s=BUILD_SILENCE_S) as client:
        if tried != image.reference:
            facts = AdoptedFacts(
                source=found.source.name, reference=image.reference, recipe=recipe(), shell=image.shell, environment=image.environment
            )
            build.keep(client, tried, facts, progress)
        if found.tag:
            build.put_tag(client, image.reference, found.tag)


def _tidy(reference: str) -> None:
    """Leave no candidate, whatever came of it."""
    with engine_client("adopt image", timeout_s=BUILD_SILENCE_S) as client:
        build.discard_candidate(client, reference)
