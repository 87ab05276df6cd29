"""Policies that hold something open, such as connections or a queue, for as long as episodes are played."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from wardian.rollouts.policies.base import Policy


@asynccontextmanager
async def opened(policies: Iterable[Policy]) -> AsyncIterator[None]:
    """Enter each of `policies` that is an asynchronous context, once, and leave them all when the block ends."""
    async with AsyncExitStack() as stack:
        for policy in {id(policy): policy for policy in policies}.values():
            if isinstance(policy, AbstractAsyncContextManager):
                await stack.enter_async_context(policy)
        yield
