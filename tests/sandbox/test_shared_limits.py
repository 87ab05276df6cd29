"""Limits that the kernel counts per uid are not shared between cells."""

from wardian.sandbox.cell import CellSpec, Command
from wardian.sandbox.engine import Engine
from wardian.sandbox.pool import CellPool

EXHAUST = """
import ctypes, signal
libc = ctypes.CDLL(None)
while libc.inotify_init() >= 0:
    pass
open("full", "w").close()
signal.pause()
"""
ONE = "import ctypes; print(ctypes.CDLL(None).inotify_init() >= 0)"


async def test_inotify_exhausted_in_one_cell_works_in_another(engine: Engine, image: str) -> None:
    async with CellPool(CellSpec(image), 2, engine=engine) as pool, pool.lease() as one, pool.lease() as other:
        assert one.cell.agent_uid != other.cell.agent_uid
        script = f"python3 -c '{EXHAUST}' & until [ -e full ]; do sleep 0.02; done; python3 -c '{ONE}'"
        exhausted = await one.cell.exec(Command(script=script))
        assert exhausted.stdout.text().split()[-1] == "False"
        worked = await other.cell.exec(Command(argv=("python3", "-c", ONE)))
        assert worked.stdout.text() == "True\n"
