"""Tasks that run beside a block and end with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def beside() -> AsyncIterator[TaskGroup]:
    """A task group that is cancelled when the block ends. What the block raises comes out as it is, not in a group of errors."""
    failure: BaseException | None = None
    async with anyio.create_task_group() as group:
        try:
            yield group
        except BaseException as error:  # noqa: BLE001 - the block's own, whatever it is; raised again below, once nothing runs any more
            failure = error
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
