"""A model behind an endpoint on this machine, for programs that are started."""

from collections.abc import Iterator
from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal

from wardian.rollouts.inference.fake import FakeEndpoint, Script


@contextmanager
def endpoint(script: Script) -> Iterator[str]:
    """The address of a model that follows `script`."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(FakeEndpoint(script).serve()) as fake:
        yield fake.base_url
