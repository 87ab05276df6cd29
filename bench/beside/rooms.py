"""What the rivals need to run here: their packages, an interpreter for NitroBox, an image for SWE-ReX. All of it is gone afterwards.

Needed are a package index for pip and, for NitroBox where this machine has no Python 3.13, Debian's packages, root and `mmdebstrap`.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import docker
from beside.contestants import RivalFailed
from docker.errors import APIError, DockerException

from wardian.sandbox.adoption.source import exported
from wardian.sandbox.labels import KIND, RUN, labels_for, run_id
from wardian.sandbox.reap import is_orphan

NITROBOX = "nitrobox==0.1.0"
SWEREX = ("swe-rex==1.4.0", "aiohttp>=3.9,<4")
"""SWE-ReX imports aiohttp and does not ask for it."""
IMAGE_PYTHON = "3.11"
SUITE, PYTHON = "trixie", "3.13"
PACKAGES = "python3,util-linux,mount,coreutils,bash,grep,libc-bin,base-files"
HERE = Path(__file__).parent
KIND_OF_IMAGE = "rival"

ENTER = """
mount --bind "$1" "$1"; cd "$1"; shift
mount -t proc proc proc; mount --rbind /sys sys; mount --rbind /dev dev; mount -t tmpfs tmpfs tmp
pivot_root . old; umount -l /old
exec /usr/bin/env -i PATH=/usr/bin:/usr/sbin HOME=/tmp PYTHONPATH=/opt/site PYTHONDONTWRITEBYTECODE=1 python3 "$@"
"""
"""Into a root of its own, by `pivot_root`, since a kernel gives no new user namespace to what is under `chroot`."""
NAMESPACES = ("--mount", "--pid", "--ipc", "--net", "--uts")
ALONE = ("unshare", *NAMESPACES, "--fork", "--kill-child", "--propagation", "private", "sh", "-ec", ENTER, "sh")
"""With this process ends all that it started, and with its mount namespace every mount."""


def install(requirements: Sequence[str], folder: Path, python: str) -> None:
    """Packages for that version of Python into a folder, whichever version runs this.

    Raises:
        RivalFailed: no index gives them.
    """
    options = ["--ignore-requires-python", "--only-binary=:all:", "--python-version", python, "--root-user-action=ignore"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *options, "--target", str(folder), *requirements]
    _done(command, f"pip found no {', '.join(requirements)} for Python {python}")


def nitrobox_command(folder: Path, image: str, network: str) -> list[str]:
    """Start the agent in its root, which `nitrobox_root` made."""
    return [*ALONE, str(folder / "root"), "/opt/agent/nitrobox_agent.py", "/srv/image", network]


def nitrobox_root(folder: Path, image: str) -> None:
    """Debian's Python 3.13, NitroBox, the agent and the files of the image, in `folder`/root.

    Raises:
        RivalFailed: it cannot be made here; the message says what is missing.
    """
    root = folder / "root"
    if os.geteuid() != 0:
        raise RivalFailed(f"a root with Python {PYTHON} can be made by root alone")
    if not shutil.which("mmdebstrap"):
        raise RivalFailed("mmdebstrap is missing: install the package of that name")
    making = ["mmdebstrap", "--variant=extract", "--mode=root", f"--include={PACKAGES}", SUITE, str(root)]
    _done(making, f"no root with Python {PYTHON}")
    for name in ("old", "opt/site", "opt/agent", "srv/image"):
        (root / name).mkdir(parents=True, exist_ok=True)
    install([NITROBOX], root / "opt" / "site", PYTHON)
    for name in ("agent.py", "nitrobox_agent.py"):
        shutil.copy(HERE / name, root / "opt" / "agent" / name)
    _export(image, root / "srv" / "image")


def _export(image: str, folder: Path) -> None:
    client = docker.from_env()
    try:
        with exported(client, image) as chunks:
            tar = subprocess.Popen(["tar", "-x", "-C", str(folder)], stdin=subprocess.PIPE)
            assert tar.stdin is not None
            for chunk in chunks:
                tar.stdin.write(chunk)
            tar.stdin.close()
            if tar.wait():
                raise RivalFailed(f"tar could not unpack the image {image}")
    except DockerException as error:
        raise RivalFailed(f"the image could not be exported: {error}") from error
    finally:
        client.close()


def swerex_command(folder: Path, image: str) -> tuple[list[str], dict[str, str]]:
    """Start the agent beside us, in its environment; its containers carry our labels.

    Raises:
        RivalFailed: no index gives its packages for this version of Python.
    """
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "site" if here == IMAGE_PYTHON else folder / "site-here"
    if not site.exists():
        install(SWEREX, site, here)
    labels = [part for name, value in labels_for(KIND_OF_IMAGE).items() for part in ("--label", f"{name}={value}")]
    command = [sys.executable, str(HERE / "swerex_agent.py"), image, "--hostname", "world", *labels]
    return command, {**os.environ, "PYTHONPATH": str(site)}


@contextmanager
def swerex_image(folder: Path, image: str) -> Iterator[str]:
    """The agent image with `swerex-remote` in it, by id; it carries our labels and is removed at the end.

    Raises:
        RivalFailed: it cannot be built.
    """
    site = folder / "site"
    install(SWEREX, site, IMAGE_PYTHON)
    dockerfile = (
        f"FROM {image}\nCOPY site /opt/swerex\n"
        "RUN printf '#!/bin/sh\\nPYTHONPATH=/opt/swerex exec python3 -m swerex \"$@\"\\n' > /usr/local/bin/swerex-remote "
        "&& chmod 755 /usr/local/bin/swerex-remote && python3 -m compileall -q /opt/swerex\n"
        "WORKDIR /workspace\nENTRYPOINT []\n"
    )
    client = docker.from_env(timeout=300)
    try:
        remove_orphans(client)
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as tar:
            tar.add(site, "site")
            details = tarfile.TarInfo("Dockerfile")
            details.size = len(dockerfile.encode())
            tar.addfile(details, io.BytesIO(dockerfile.encode()))
        context.seek(0)
        built, _ = client.images.build(fileobj=context, custom_context=True, labels=labels_for(KIND_OF_IMAGE), rm=True, forcerm=True)
        try:
            yield str(built.id)
        finally:
            for container in client.containers.list(all=True, filters={"label": [f"{KIND}={KIND_OF_IMAGE}", f"{RUN}={run_id()}"]}):
                container.remove(force=True)  # an agent that was killed could not
            client.images.remove(built.id, force=True)
    except DockerException as error:
        raise RivalFailed(f"its image cannot be built: {error}") from error
    finally:
        client.close()


def remove_orphans(client: docker.DockerClient) -> None:
    """Images of this kind whose maker was killed."""
    for image in client.images.list(filters={"label": f"{KIND}={KIND_OF_IMAGE}"}):
        if is_orphan(image.labels):
            try:
                client.images.remove(image.id)
            except APIError:  # somebody made a container of it
                continue


def _done(command: Sequence[str], problem: str) -> None:
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    if ran.returncode:
        raise RivalFailed(f"{problem}: {' '.join(ran.stderr.splitlines()[-1:])}")
