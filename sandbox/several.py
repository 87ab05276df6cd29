"""Several cells of one pool at once, or none: what a fork needs."""

import anyio

from wardian.sandbox.errors import PoolTimeout
from wardian.sandbox.lease import Lease
from wardian.sandbox.pool import CellPool


async def acquire_several(cells: CellPool, count: int, *, held: int, within_s: float) -> tuple[Lease, ...]:
    """Borrow `count` cells, by a caller that has `held` of the pool already and keeps them. Safe to cancel.

    Raises:
        PoolTimeout: the pool can never give so many beside those, or they did not become free in time.
        PoolClosed, CellUnavailable: as `CellPool.acquire`.
    """
    if count + held > cells.size:
        raise PoolTimeout(f"{count} cells are wanted beside {held} in use, and the pool has {cells.size}: make it of size {count + held}")
    leases: list[Lease] = []
    try:
        with anyio.fail_after(within_s):
            while len(leases) < count:
                leases.append(await cells.acquire())
    except BaseException as error:
        for lease in leases:
            cells.release(lease)
        if isinstance(error, TimeoutError):
            raise PoolTimeout(f"only {len(leases)} of {count} cells became free within {within_s:g} s: {cells!r}") from None
        raise
    return tuple(leases)
