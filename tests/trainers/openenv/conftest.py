"""A server, and OpenEnv's own clients to it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..serving import FAULTY, asked, served

TOKEN = "a-token-of-some-length"
SESSIONS = 4
STEP_S = 1.0


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with served(FAULTY, "--sessions", str(SESSIONS), "--step-s", str(STEP_S), "--drain-s", "1") as url:
        yield url


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One that asks for a token, and whose tools fail by a profile."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.touch(0o600)
    file.write_text(TOKEN)
    with served(FAULTY, "--faults", "harsh", "--token-file", str(file), "--drain-s", "1") as url:
        yield url


Ask = Callable[..., Any]


@pytest.fixture
def ask() -> Ask:
    return asked


@pytest.fixture
def counted(url: str) -> Iterator[Callable[[], dict[str, Any]]]:
    """What the server counted since the test began. After the test all leases must be closed."""
    before = asked(f"{url}/counters")[1]

    def since() -> dict[str, Any]:
        now = asked(f"{url}/counters")[1]
        numbers = {name: now[name] - before[name] for name in ("sessions_opened", "sessions_closed", "resets", "steps")}
        calls = {name: count - before["calls"].get(name, 0) for name, count in now["calls"].items()}
        failed = {name: count - before["failed"].get(name, 0) for name, count in now["failed"].items()}
        return {
            **numbers,
            "calls": {name: count for name, count in calls.items() if count},
            "failed": {name: count for name, count in failed.items() if count},
        }

    yield since
    until = time.monotonic() + 5
    while asked(f"{url}/counters")[1]["sessions_open"] and time.monotonic() < until:
        time.sleep(0.02)
    assert asked(f"{url}/counters")[1]["sessions_open"] == 0


@pytest.fixture
def package() -> Path:
    """The package that is shipped as an example."""
    return Path(__file__).parents[3] / "examples" / "openenv"
