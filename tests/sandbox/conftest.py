"""What tests of the sandbox share: the agent image, built where it is missing, and one engine."""

from collections.abc import AsyncIterator

import pytest

from wardian.sandbox.engine import Engine
from wardian.sandbox.images import ensure_images


@pytest.fixture(scope="session")
def image() -> str:
    return ensure_images()[-1]


@pytest.fixture(scope="session")
async def engine(anyio_backend: str) -> AsyncIterator[Engine]:
    engine = await Engine.open()
    yield engine
    engine.close()
