"""What every test run stands on: an engine, the agent image, and nothing of ours left behind at the end."""

import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from anyio.from_thread import start_blocking_portal

from wardian.sandbox.database.postgres.managed import Lasting, lasting_server
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import SandboxError
from wardian.sandbox.images import ensure_postgres_image, require_agent_image
from wardian.sandbox.labels import CREATED, PID, RUN, is_ours, owner_is_here
from wardian.sandbox.reap import is_orphan

MARK = "WARDIAN_TEST_RUN"
"""In the environment of this process's descendants, so that they are found whoever their parent is by now."""
GRACE_S = 10
"""What was just ended may take so long to be gone."""


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Stop the run with one clear line where it cannot work; fail it where a container or a process of it outlives it."""
    try:
        require_agent_image()
    except SandboxError as error:
        pytest.exit(f"tests need an engine and the agent image: {error}", returncode=3)
    mark, started = secrets.token_hex(8), time.time()
    os.environ[MARK] = mark
    yield
    deadline = time.monotonic() + GRACE_S
    while (left := things_of_ours(started) + descendants(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, "left behind by this test run: " + "; ".join(left)


@pytest.fixture(scope="session")
def lasting(pytestconfig: pytest.Config) -> Iterator[Lasting]:
    """A server in a container of its own, started by the first test that needs one, with a successor where something ends it."""
    image = ensure_postgres_image()
    with start_blocking_portal() as portal:
        engine = portal.call(Engine.open)
        with portal.wrap_async_context_manager(lasting_server(engine, image)) as lasting:
            yield lasting
        engine.close()
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    for end in lasting.ends:
        with capture.global_and_fixture_disabled():
            print(f"the tests' database server {end}", file=sys.__stderr__, flush=True)


@pytest.fixture
def postgres_url(lasting: Lasting) -> str:
    return lasting.url


@pytest.fixture(scope="session")
def server(lasting: Lasting) -> Iterator[Server]:
    """This process's login on it."""
    opened = Server.open(lasting.url)
    lasting.moved = opened.moved
    yield opened
    opened.close()


def things_of_ours(since: float) -> list[str]:
    """What this run's processes made in the engine and did not remove; another run's things have living owners and do not count.

    `since` is in seconds since the epoch, as the label is.
    """
    client = docker.from_env()
    rows = client.api.containers(all=True, filters={"label": RUN})
    rows += client.api.networks(filters={"label": RUN}) + (client.api.volumes(filters={"label": RUN})["Volumes"] or [])
    client.close()
    mine = [row for row in rows if is_ours(row["Labels"]) and float(row["Labels"][CREATED]) >= since and is_left(row["Labels"])]
    return [str(row.get("Names") or row.get("Name")) for row in mine]


def is_left(labels: dict[str, str]) -> bool:
    return is_orphan(labels) or (owner_is_here(labels) and labels[PID] == str(os.getpid()))


def descendants(mark: str) -> list[str]:
    """Living processes that were started by this run."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and folder.name != str(os.getpid()) and f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(f"process {folder.name}: {(folder / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()}")
        except OSError:
            continue  # it ended meanwhile, or is another user's
    return found
