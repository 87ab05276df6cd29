"""A foreign image as it is: its settings, and which of a few paths it has. Nothing of it is run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import ImageNotFound, NotFound

from wardian.sandbox.adoption.adopted import facts_of
from wardian.sandbox.errors import ImageUnfit
from wardian.sandbox.labels import labels_for

STUBS = {
    "/etc/passwd": b"root:x:0:0:root:/:/sbin/nologin\n",
    "/etc/group": b"root:x:0:\n",
    "/tmp": None,
}
"""What a cell needs and a `scratch` image lacks; `None` is a directory that everybody may write in."""
SHELLS = ("/bin/bash", "/bin/sh")
PRELOADED = "/etc/ld.so.preload"
LARGEST_ENVIRONMENT = 16 * 1024

PINNED = frozenset(
    {
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "TZ",
        "TERM",
        "PAGER",
        "GIT_PAGER",
        "MANPAGER",
        "SYSTEMD_PAGER",
        "GIT_EDITOR",
        "EDITOR",
        "GIT_TERMINAL_PROMPT",
        "DEBIAN_FRONTEND",
        "PYTHONHASHSEED",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONUNBUFFERED",
    }
)
"""Variables that are the same in every cell, whatever the image says. Its PATH is taken over."""


OURS = ("wardian-agent", "wardian-base", "wardian-postgres")


@dataclass(frozen=True, slots=True)
class SourceImage:
    name: str
    """As it was asked for."""
    id: str
    settings: Mapping[str, Any]
    """The image's own configuration, as the engine shows it."""
    lacking: tuple[str, ...]
    """Those of `STUBS` that it does not have."""
    shells: tuple[str, ...]
    """Those of `SHELLS` that it has, the best first; whether one works, a trial finds out."""

    @property
    def environment(self) -> tuple[tuple[str, str], ...]:
        """The image's variables that commands get."""
        return tuple((name, value) for name, value in self._variables() if name not in PINNED)

    @property
    def loader_variables(self) -> tuple[str, ...]:
        """Variables that would bring libraries of the image into PID 1."""
        return tuple(name for name, _ in self._variables() if name.startswith(("LD_", "GLIBC_", "MALLOC_")))

    @property
    def must_be_flattened(self) -> str:
        """What can only be taken off by making one layer of the image; empty for nothing."""
        return ", ".join(name for name, key in (("VOLUME", "Volumes"), ("ONBUILD", "OnBuild")) if self.settings.get(key))

    def not_taken_over(self) -> dict[str, str]:
        """By instruction: what the image says, and what holds in a cell instead."""
        said = {
            "USER": (self.settings.get("User"), "an agent has a uid of its cell's own"),
            "WORKDIR": (self.settings.get("WorkingDir"), "commands begin in /workspace, which is the agent's"),
            "ENTRYPOINT": (self.settings.get("Entrypoint"), "the supervisor is PID 1"),
            "CMD": (self.settings.get("Cmd"), "nothing runs but what an agent starts"),
            "VOLUME": (sorted(self.settings.get("Volumes") or ()), "these are plain folders, gone with the episode"),
            "ONBUILD": (self.settings.get("OnBuild"), "not run"),
            "EXPOSE": (sorted(self.settings.get("ExposedPorts") or ()), "a cell has no network but its loopback"),
            "HEALTHCHECK": (" ".join((self.settings.get("Healthcheck") or {}).get("Test") or ()), "not run"),
            "ENV": (sorted(name for name, _ in self._variables() if name in PINNED), "pinned, the same in every cell"),
        }
        return {name: f"{_text(value)}: {instead}" for name, (value, instead) in said.items() if value and value != "/"}

    def _variables(self) -> Iterator[tuple[str, str]]:
        for entry in self.settings.get("Env") or ():
            name, _, value = entry.partition("=")
            yield name, value


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def look_at(client: docker.DockerClient, name: str, machine: str) -> SourceImage:
    """Look at the image `name`, which must be one for Linux on `machine` (the engine's word for a processor).

    Raises:
        ImageUnfit: there is none, or it can be no cell; says why.
    """
    try:
        found, facts = client.images.get(name).attrs, facts_of(client, name)
    except ImageNotFound:
        raise ImageUnfit(f"image: the engine holds no {name!r}; pull or build it first") from None
    settings = found.get("Config") or {}
    if facts is not None:
        raise ImageUnfit(f"image: {name} was adopted already, from {facts.source}; adopt that one")
    if any(tag.split(":")[0] in OURS for tag in found.get("RepoTags") or ()):
        raise ImageUnfit(f"image: {name} is ours, and cells run it as it is; leave --image out, or adopt one of your own")
    if (found["Os"], found["Architecture"]) != ("linux", machine):
        raise ImageUnfit(f"image: {name} is for {found['Os']} on {found['Architecture']}; cells here are linux on {machine}")
    if sum(map(len, settings.get("Env") or ())) > LARGEST_ENVIRONMENT:
        raise ImageUnfit(f"image: {name} has variables of more than {LARGEST_ENVIRONMENT} characters, which every command would carry")
    with _unstarted(client, found["Id"]) as container:
        if _has(client, container, PRELOADED):
            raise ImageUnfit(f"image: {name} loads libraries into every program ({PRELOADED}), and so into PID 1; remove that file first")
        lacking = tuple(path for path in STUBS if not _has(client, container, path))
        shells = tuple(path for path in SHELLS if _has(client, container, path))
    return SourceImage(name, found["Id"], settings, lacking, shells)


@contextmanager
def _unstarted(client: docker.DockerClient, image: str) -> Iterator[str]:
    """A container of `image` that is never started; gone at the end, with the volumes that the engine gave it."""
    container: str = client.api.create_container(image, command=["none"], entrypoint=["none"], labels=labels_for("adoption"))["Id"]
    try:
        yield container
    finally:
        client.api.remove_container(container, v=True, force=True)


def _has(client: docker.DockerClient, container: str, path: str) -> bool:
    try:
        stream, _ = client.api.get_archive(container, path)
    except NotFound:
        return False
    stream.close()
    return True


@contextmanager
def exported(client: docker.DockerClient, image: str) -> Iterator[Iterator[bytes]]:
    """The image's whole file tree as a tar stream."""
    with _unstarted(client, image) as container:
        yield client.api.export(container)
