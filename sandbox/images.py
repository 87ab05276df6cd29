"""The images that cells run, named by the content they are built from.

A tag is a hash of every input (Dockerfiles, bootstrap options, supervisor), so the sources say which image they need
without asking an engine, an old image is never taken for a new one, and two checkouts share what is equal. The build
context is a tar stream made here, with fixed owners, modes and times: a checkout's umask or a symbolic link cannot change
an image. The engine's own builder is used through its API, which needs no buildx and puts a tag on a finished image only.
"""

import fcntl
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any

import docker
from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from wardian.sandbox.engine import ADVICE
from wardian.sandbox.errors import CellUnavailable, EngineUnavailable

PACKAGE = Path(__file__).parent.parent
"""The package `wardian`, which holds the sources of every image, in a checkout and in an installed wheel alike."""
SUITE = "bookworm"
OFFICIAL_ROOT = "debian:bookworm-slim"
LABEL = "io.wardian.image"
"""On every image of ours: `base`, `agent` or `adopted`."""
PULL_ANSWER_S = 15
"""How long a registry may stay silent before the root is made here instead."""
PULL_S = 120
"""How long a whole pull may take."""
BUILD_SILENCE_S = 600
"""A build that prints nothing for so long is given up."""
HINT = "run `make build-images` (or `wardian build-images`)"

Progress = Callable[[str], None]


def base_image(package: Path = PACKAGE) -> str:
    """Reference of the base image for the sources in `package`; no engine is asked.

    Raises:
        CellUnavailable: a source is missing.
    """
    return f"wardian-base:{digest_of(_base_inputs(package))}"


def agent_image(package: Path = PACKAGE) -> str:
    """Reference of the agent image for the sources in `package`; no engine is asked.

    Raises:
        CellUnavailable: a source is missing.
    """
    return f"wardian-agent:{digest_of({**_base_inputs(package), **_agent_inputs(package)})}"


def postgres_image(package: Path = PACKAGE) -> str:
    """Reference of the image of a database server for the sources in `package`; no engine is asked.

    Raises:
        CellUnavailable: a source is missing.
    """
    return f"wardian-postgres:{digest_of({**_base_inputs(package), **_postgres_inputs(package)})}"


def image_present(reference: str) -> bool:
    """Whether the engine holds `reference`.

    Raises:
        EngineUnavailable: the engine did not answer.
    """
    with engine_client("inspect image", timeout_s=30) as client:
        return present(client, reference)


def require_agent_image() -> str:
    """`agent_image()`, once the engine is known to hold it.

    Raises:
        CellUnavailable: it is not built; the message says how to.
        EngineUnavailable: the engine did not answer.
    """
    reference = agent_image()
    if not image_present(reference):
        raise CellUnavailable(f"image {reference} is not built: {HINT}")
    return reference


def ensure_images(progress: Progress = lambda line: None) -> tuple[str, ...]:
    """Build what the engine lacks and return all references, base first. Idempotent; parallel calls build once.

    Raises:
        EngineUnavailable: the engine did not answer or a build step failed; the end of its output is in the message.
        CellUnavailable: a source or a program for the build is missing.
    """
    base, agent = base_image(), agent_image()
    with engine_client("build images", timeout_s=BUILD_SILENCE_S) as client, build_lock():
        if not present(client, agent):
            if not present(client, base):
                root = _pulled_root(client, progress) or _bootstrapped_root(client, progress)
                build(client, base, _base_inputs(PACKAGE), {"ROOT": root}, progress)
            build(client, agent, _agent_inputs(PACKAGE), {"BASE": base}, progress)
    return base, agent


def ensure_postgres_image(progress: Progress = lambda line: None) -> str:
    """Build the image of a database server where the engine lacks it, and return its reference. Idempotent.

    Raises:
        EngineUnavailable, CellUnavailable: as `ensure_images`.
    """
    reference = postgres_image()
    if not image_present(reference):
        base, _ = ensure_images(progress)
        with engine_client("build images", timeout_s=BUILD_SILENCE_S) as client, build_lock():
            if not present(client, reference):
                build(client, reference, _postgres_inputs(PACKAGE), {"BASE": base}, progress)
    return reference


# Inputs and their digest


def _base_inputs(package: Path) -> dict[str, bytes]:
    return {name: source_of(package / "images" / name) for name in ("base/Dockerfile", "base/mmdebstrap.args")}


def _agent_inputs(package: Path) -> dict[str, bytes]:
    return {
        "agent/Dockerfile": source_of(package / "images" / "agent" / "Dockerfile"),
        "agent/supervisor.py": source_of(package / "sandbox" / "supervisor.py"),
    }


def _postgres_inputs(package: Path) -> dict[str, bytes]:
    folder = package / "images" / "postgres"
    return {f"postgres/{name}": source_of(folder / name) for name in ("Dockerfile", "entrypoint.sh", "timezoneset")}


def source_of(path: Path) -> bytes:
    """Read what an image is built from.

    Raises:
        CellUnavailable: it is missing.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise CellUnavailable(f"{path}: no image without this source ({error.strerror}): install wardian again") from error


def digest_of(inputs: Mapping[str, bytes]) -> str:
    """Twelve hex digits over names, lengths and contents, whatever the order."""
    digest = hashlib.sha256()
    for name, content in sorted(inputs.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


# The engine


@contextmanager
def engine_client(step: str, timeout_s: int) -> Iterator[docker.DockerClient]:
    """A client for one piece of work; whatever the SDK raises in the body becomes `EngineUnavailable` for `step`."""
    try:
        client = docker.from_env(timeout=timeout_s)
    except (DockerException, RequestException) as error:
        raise EngineUnavailable(step, f"{error}; {ADVICE}") from error
    try:
        yield client
    except (DockerException, RequestException, HTTPError) as error:  # the last one: silence or a cut in a streamed answer
        raise EngineUnavailable(step, str(getattr(error, "explanation", None) or error)) from error
    finally:
        client.close()


def present(client: docker.DockerClient, reference: str) -> bool:
    try:
        client.images.get(reference)
    except ImageNotFound:
        return False
    return True


def build(
    client: docker.DockerClient,
    reference: str,
    inputs: Mapping[str, bytes],
    arguments: Mapping[str, str],
    progress: Progress,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Build `reference` from `inputs`; the engine tags it when, and only when, every step succeeded.

    The build uses the host's network and proxy settings, since it fetches from the machine's own package mirrors.

    Raises:
        EngineUnavailable: a step failed; the end of its output is in the message.
    """
    progress(f"building {reference}")
    output = client.api.build(
        fileobj=_context(inputs),
        custom_context=True,
        tag=reference,
        rm=True,
        forcerm=True,
        network_mode="host",
        buildargs={**arguments, **_proxy_settings()},
        labels={**labels, LABEL: reference.split(":")[0].removeprefix("wardian-")},
        decode=True,
        timeout=BUILD_SILENCE_S,
    )
    _follow(output, f"build of {reference}", progress)


def _context(inputs: Mapping[str, bytes]) -> io.BytesIO:
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name, content in sorted(inputs.items()):
            entry = tarfile.TarInfo(Path(name).name)
            entry.size, entry.mode = len(content), 0o444
            archive.addfile(entry, io.BytesIO(content))
    context.seek(0)
    return context


def _follow(output: Any, step: str, progress: Progress) -> None:
    """Read an engine's answer to its end, handing the names of build steps to `progress`.

    Raises:
        EngineUnavailable: the engine reports an error; the last lines come with it.
    """
    lines: list[str] = []
    for message in output:
        if "error" in message:
            raise EngineUnavailable(step, "\n".join([*lines[-15:], str(message["error"])]))
        text = str(message.get("stream") or message.get("status") or "").strip()
        if text:
            lines.append(text)
        if text.startswith("Step "):
            progress(" ".join(text.split())[:100])


# The root file system


def _pulled_root(client: docker.DockerClient, progress: Progress) -> str | None:
    """The official root, or `None` when no registry gives it; silence counts as no after `PULL_ANSWER_S`.

    The SDK gives a pull no deadline, so it runs in a thread that is left behind where it hangs.
    """
    if present(client, OFFICIAL_ROOT):
        return OFFICIAL_ROOT
    answered, ended = threading.Event(), SimpleQueue[str]()
    threading.Thread(target=_pull, args=(answered, ended), name="wardian-pull", daemon=True).start()
    try:
        problem = ended.get(timeout=PULL_S) if answered.wait(PULL_ANSWER_S) else f"no answer within {PULL_ANSWER_S} s"
    except Empty:
        problem = f"not finished within {PULL_S} s"
    if problem:
        progress(f"no registry gives {OFFICIAL_ROOT} ({problem}); making {SUITE} here with mmdebstrap")
    return None if problem else OFFICIAL_ROOT


def _pull(answered: threading.Event, ended: "SimpleQueue[str]") -> None:
    """Pull the official root; put what went wrong into `ended`, the empty string when nothing did."""

    def heard(messages: Iterable[Any]) -> Iterator[Any]:
        for message in messages:
            answered.set()
            yield message

    repository, tag = OFFICIAL_ROOT.split(":")
    try:
        with engine_client("pull", timeout_s=BUILD_SILENCE_S) as client:
            _follow(heard(client.api.pull(repository, tag, stream=True, decode=True)), "pull", lambda line: None)
    except EngineUnavailable as error:
        ended.put("".join(error.detail.splitlines()[-1:]) or "failed")
    else:
        ended.put("")
    finally:
        answered.set()


def _bootstrapped_root(client: docker.DockerClient, progress: Progress) -> str:
    """Make the same release from the machine's own package sources; return the id of the imported image.

    The tar goes to a file first: an import that is fed directly would take a half-made tree for a whole one.
    """
    _require_mmdebstrap(progress)
    options = (PACKAGE / "images" / "base" / "mmdebstrap.args").read_text().split()
    with tempfile.TemporaryDirectory(prefix="wardian-root-") as folder:
        tree, sources = Path(folder) / "root.tar", Path(folder) / "machine.sources"
        sources.write_text(_debian_sources())
        os.chmod(folder, 0o755)  # apt reads the sources as a user of its own
        command = ["mmdebstrap", *options, *_apt_options(), SUITE, "-", *([str(sources)] if sources.stat().st_size else [])]
        with tree.open("wb") as stdout:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True, errors="replace")
        if done.returncode:
            raise EngineUnavailable("mmdebstrap", "\n".join(done.stderr.splitlines()[-15:]))
        answer = client.api.import_image_from_file(str(tree))
    found = re.search(r"sha256:[0-9a-f]{64}", str(answer))
    if found is None:
        raise EngineUnavailable("import root", str(answer).strip())
    return found.group()


def _require_mmdebstrap(progress: Progress) -> None:
    if shutil.which("mmdebstrap"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise CellUnavailable("mmdebstrap is missing: install the package `mmdebstrap`, or give this engine a registry to pull from")
    progress("installing the Debian package mmdebstrap")
    install = ["apt-get", "install", "-y", "--no-install-recommends", "mmdebstrap"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (install, ["apt-get", "update"], install):
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        if command is install and done.returncode == 0:
            return
    raise CellUnavailable("mmdebstrap could not be installed:\n" + "\n".join(done.stderr.splitlines()[-10:]))


def _debian_sources() -> str:
    """The machine's package sources for `SUITE`, as far as Debian's own keyring signs them; empty means none."""
    folder = Path("/etc/apt")
    named = [folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))]
    texts = {path: path.read_text(errors="replace") for path in named if path.is_file()}
    stanzas = [s for path, text in texts.items() if path.suffix == ".sources" for s in re.split(r"\n\s*\n", text)]
    lines = [line for path, text in texts.items() if path.suffix == ".list" for line in text.splitlines() if line.startswith("deb ")]
    kept = [stanza.strip() for stanza in stanzas if re.search(rf"^Suites:.*\b{SUITE}\b", stanza, re.M) and _signed_by_debian(stanza)]
    kept += [_as_stanza(line) for line in lines if re.search(rf"\s{SUITE}(-updates|-security)?\s", line) and _signed_by_debian(line)]
    return "\n\n".join(kept) + "\n" if kept else ""


def _signed_by_debian(entry: str) -> bool:
    keyring = re.search(r"signed-by\s*[:=]\s*(\S+)", entry, re.I)
    return keyring is None or Path(keyring.group(1).rstrip("]")).name.startswith("debian-archive-")


def _as_stanza(line: str) -> str:
    """A one-line package source in the stanza form, so that both kinds stand in one file."""
    uri, suite, *components = re.sub(r"^deb\s+(\[[^]]*\]\s*)?", "", line.split("#")[0]).split()
    return f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: {' '.join(components)}"


def _apt_options() -> list[str]:
    """How this machine reaches its package mirrors (proxy, tolerated dates), for the tree that is being made."""
    if not shutil.which("apt-config"):
        return []
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    wanted = re.findall(r'^Acquire::(?:https?::Proxy|Check-\S+|Retries) "[^"]+";$', dump, re.M)
    return [f"--aptopt={option}" for option in wanted]


# The machine


def _proxy_settings() -> dict[str, str]:
    names = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


@contextmanager
def build_lock() -> Iterator[None]:
    """One build at a time for this user; the kernel frees the lock when its holder dies."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wardian"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "images.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
