"""Inspect's own check of a sandbox provider, on ours."""

from types import SimpleNamespace

import anyio
import pytest
from inspect_ai.util import SandboxUserUnsupportedError
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

pytestmark = pytest.mark.anyio
CANNOT = {
    "test_exec_as_user": "a cell has one user and no root: what an agent runs can gain nothing, so it cannot add a user either",
}


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """It grants a provider 5 s to end what timed out. Here nothing of it is left when the call returns."""

    async def at_once(seconds: float) -> None:
        await anyio.lowlevel.checkpoint()

    monkeypatch.setattr(self_check, "anyio", SimpleNamespace(sleep=at_once))


@pytest.fixture(autouse=True)
def known(request: pytest.FixtureRequest) -> None:
    if reason := CANNOT.get(request.node.originalname):
        request.applymarker(pytest.mark.xfail(reason=reason, raises=SandboxUserUnsupportedError, strict=True))
