"""What a cell is to know of its image: which shell runs scripts, and which variables commands get.

For the agent image it is known; for an adopted one it stands in the labels that adoption wrote once it had been found out. An
image that was adopted with other sources than those here is refused, since its supervisor may speak otherwise.
"""

from dataclasses import dataclass

import docker
from docker.errors import ImageNotFound
from pydantic import BaseModel, ConfigDict

from wardian.sandbox.cell import BASH
from wardian.sandbox.errors import ImageUnfit
from wardian.sandbox.images import LABEL, PACKAGE, agent_image, digest_of, engine_client, require_agent_image, source_of

ADOPTED = "adopted"
FACTS = "io.wardian.adopted"
"""The label that holds `AdoptedFacts`, as JSON."""


@dataclass(frozen=True, slots=True)
class CellImage:
    reference: str
    """Changes with the content, whatever name was asked for."""
    shell: str = BASH
    """What runs scripts; empty for nothing."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the image that commands get."""


class AdoptedFacts(BaseModel):
    """What adoption found out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    """The image that it was made from, as it was asked for."""
    reference: str
    """The tag that says what it was made from."""
    recipe: str
    """Digest of all that was added."""
    shell: str
    environment: tuple[tuple[str, str], ...]


def recipe_inputs() -> dict[str, bytes]:
    """What adoption adds to an image, by name in the build's context.

    Raises:
        CellUnavailable: a source is missing.
    """
    return {
        "adopted/Dockerfile": source_of(PACKAGE / "images" / "adopted" / "Dockerfile"),
        "adopted/bundle.py": source_of(PACKAGE / "sandbox" / "adoption" / "bundle.py"),
        "adopted/supervisor.py": source_of(PACKAGE / "sandbox" / "supervisor.py"),
    }


def recipe() -> str:
    """Digest of the sources that adoption works from, the interpreter's image among them.

    Raises:
        CellUnavailable: a source is missing.
    """
    return digest_of({**recipe_inputs(), "agent": agent_image().encode()})


def cell_image(name: str | None = None) -> CellImage:
    """The image that cells run: the agent image, or the adopted one called `name`.

    Raises:
        ImageUnfit: there is no such image, it was not adopted, or with other sources; says how to.
        CellUnavailable: the agent image is not built.
        EngineUnavailable: the engine did not answer.
    """
    if name is None or name == agent_image():
        return CellImage(require_agent_image())
    with engine_client("inspect image", timeout_s=30) as client:
        try:
            facts = facts_of(client, name)
        except ImageNotFound:
            raise ImageUnfit(f"image: the engine holds no {name!r}; `wardian image adopt IMAGE` makes one that cells can run") from None
    if facts is None:
        raise ImageUnfit(f"image: {name} has no supervisor of ours; run `wardian image adopt {name}` and name the tag that it gives")
    if facts.recipe != recipe():
        raise ImageUnfit(f"image: {name} was adopted by another version; run `wardian image adopt {facts.source}` again")
    return CellImage(facts.reference, facts.shell, facts.environment)


def facts_of(client: docker.DockerClient, name: str) -> AdoptedFacts | None:
    """What adoption wrote on the image `name`; `None` where it did not.

    An image that was built on top of an adopted one has its labels too, and is none: its id is not that of the tag in them.

    Raises:
        ImageNotFound: there is no such image.
    """
    image = client.images.get(name)
    if image.labels.get(LABEL) != ADOPTED or FACTS not in image.labels:
        return None
    facts = AdoptedFacts.model_validate_json(image.labels[FACTS])
    try:
        return facts if client.images.get(facts.reference).id == image.id else None
    except ImageNotFound:
        return None
