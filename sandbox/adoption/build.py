"""Deriving an image: the supervisor and its interpreter on top of a foreign one, under a tag that says what is in it.

First a candidate is built, under a tag of its own, for the trial. Only what passed gets its real tag, with what was found out as
labels. An image that declares volumes is made one layer first, since nothing else takes a VOLUME off, and each cell would get
folders outside of its size-limited root.
"""

import io
import re
import tarfile
import tempfile
from contextlib import suppress

import docker
from docker.errors import APIError, ImageNotFound

from wardian.sandbox.adoption.adopted import ADOPTED, FACTS, AdoptedFacts, facts_of, recipe, recipe_inputs
from wardian.sandbox.adoption.source import STUBS, SourceImage, exported
from wardian.sandbox.errors import EngineUnavailable, ImageUnfit
from wardian.sandbox.images import LABEL, Progress, agent_image, build, digest_of, present

REPOSITORY = f"wardian-{ADOPTED}"
CANDIDATE = "-untried"
TAG = re.compile(r"[a-z0-9]+(?:[._/:-]+[a-z0-9]+)*(?::[\w][\w.-]{0,127})?")


def reference_of(source: SourceImage) -> str:
    """The tag of what is derived from `source` by the sources here."""
    return f"{REPOSITORY}:{digest_of({'source': source.id.encode(), 'recipe': recipe().encode()})}"


def build_candidate(client: docker.DockerClient, source: SourceImage, progress: Progress) -> str:
    """Derive the image for a trial; gives its reference.

    Raises:
        EngineUnavailable: a step failed; the end of its output is in the message.
    """
    candidate = reference_of(source) + CANDIDATE
    inputs = recipe_inputs()
    inputs["adopted/added.tar"] = _added(source, inputs["adopted/supervisor.py"])
    inputs["adopted/Dockerfile"] += _neutral(source).encode()
    base = _flattened(client, source, progress) if source.must_be_flattened else source.id
    try:
        build(client, candidate, inputs, {"AGENT": agent_image(), "SOURCE": base}, progress)
    finally:
        if base != source.id:
            _drop_tag(client, base)
    return candidate


def keep(client: docker.DockerClient, candidate: str, facts: AdoptedFacts, progress: Progress) -> None:
    """Give a candidate that passed its tag, and write down what was found.

    Raises:
        EngineUnavailable: the engine failed.
    """
    dockerfile = {"adopted/Dockerfile": f"FROM {candidate}\n".encode()}
    build(client, facts.reference, dockerfile, {}, progress, {FACTS: facts.model_dump_json()})


def discard_candidate(client: docker.DockerClient, reference: str) -> None:
    """Remove the candidate of `reference`, of which nothing stays but what was kept, and what builds left without a tag. Idempotent."""
    _drop_tag(client, reference + CANDIDATE)
    for image in client.api.images(filters={"dangling": True, "label": f"{LABEL}={ADOPTED}"}):
        if FACTS in image["Labels"]:
            continue  # made by somebody else on top of an adopted one
        with suppress(APIError):  # a cell of the trial still goes; the next adoption takes it
            client.api.remove_image(image["Id"])


def check_tag(client: docker.DockerClient, tag: str) -> None:
    """Accept a name for an adopted image that is free, or an adopted image's already.

    Raises:
        ImageUnfit: it is no name of an image, or another image's.
    """
    if not TAG.fullmatch(tag):
        raise ImageUnfit(f"tag: {tag!r} is no name of an image; small letters and digits, such as my-image:1")
    try:
        facts = facts_of(client, tag)
    except ImageNotFound:
        return
    if facts is None:
        raise ImageUnfit(f"tag: {tag} is another image, and is not taken from it; choose another name")


def put_tag(client: docker.DockerClient, reference: str, tag: str) -> None:
    repository, _, version = tag.rpartition(":") if ":" in tag.rpartition("/")[2] else (tag, "", "latest")
    client.api.tag(reference, repository, version, force=True)


def _drop_tag(client: docker.DockerClient, reference: str) -> None:
    """Layers stay where another image stands on them."""
    if present(client, reference):
        client.api.remove_image(reference, force=True, noprune=False)


def _added(source: SourceImage, supervisor: bytes) -> bytes:
    """A tar of the supervisor, and of what the image lacks. Owners, modes and times are fixed."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path, data, mode in (
            ("/opt/wardian/supervisor.py", supervisor, 0o444),
            *((path, STUBS[path], 0o644) for path in source.lacking),
        ):
            entry = tarfile.TarInfo(path.lstrip("/"))
            if data is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            else:
                entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data or b""))
    return target.getvalue()


def _neutral(source: SourceImage) -> str:
    """Instructions that keep the image's loader settings out of PID 1; commands get them all the same."""
    return "".join(f'ENV {name}=""\n' for name in source.loader_variables)


def _flattened(client: docker.DockerClient, source: SourceImage, progress: Progress) -> str:
    """The same file tree as an image of one layer without any settings; gives its reference.

    The tar goes to a file first: an import that is fed directly would take half a tree for a whole one.
    """
    progress(f"making one layer of {source.name}, to take off its {source.must_be_flattened}")
    with tempfile.TemporaryFile(prefix="wardian-") as tree, exported(client, source.id) as chunks:
        for chunk in chunks:
            tree.write(chunk)
        tree.seek(0)
        answer = client.api.import_image_from_data(tree, repository=REPOSITORY, tag=f"{source.id[-12:]}-flat")
    if "sha256:" not in str(answer):
        raise EngineUnavailable("import", str(answer).strip())
    return f"{REPOSITORY}:{source.id[-12:]}-flat"
