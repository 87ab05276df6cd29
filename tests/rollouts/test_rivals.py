"""The probe that looks for leaks in the benchmark beside others: that it sees what was left, and nothing where nothing was."""

import importlib.util
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import MetaData

from wardian.rollouts.bench import episodes
from wardian.rollouts.ground import Ground
from wardian.sandbox.cell import Cell, Command

UP = "for i in $(seq 1 2000); do [ -e /tmp/is-up ] && break; sleep 0.002; done"
LISTENS = "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 8123)); s.listen(); open('/tmp/is-up', 'w'); time.sleep(1000)"
PLANTED = f"""
{UP}
echo x > /workspace/new; echo x > /dev/shm/new; chmod 700 /workspace; ln -s / $'/workspace/odd\\nname'
python3 -c "
import ctypes
libc = ctypes.CDLL(None)
libc.shmget(0x5eed, 4096, 0o1666)
libc.mq_open(b'/left-0', 0o102, 0o666, None)"
"""
SEEN = {
    *("file:/workspace/new", "file:/dev/shm/new", "file:/workspace", "file:/workspace/odd\nname", "file:/tmp/is-up"),
    *("shm:0x5eed", "queue:/left-0", "process:python3", "socket:tcp 0100007F:1FBB"),
}


@pytest.fixture
def leftovers() -> Any:
    path = Path(__file__).parents[2] / "bench" / "beside" / "leftovers.py"
    spec = importlib.util.spec_from_file_location("leftovers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def looked(cell: Cell, leftovers: Any) -> Any:
    command = Command(argv=("python3", "-I", "-B", "-c", leftovers.PROBE, leftovers.BEGAN), output_cap_bytes=8 << 20)
    done = await cell.exec(command)
    return leftovers.read(done.stdout.data.decode() or done.stderr.text())


@pytest.mark.anyio
async def test_the_probe_finds_what_was_planted_in_a_cell_and_nothing_in_a_clean_one(ground: Ground, leftovers: Any) -> None:
    assert ground.cells is not None
    async with ground.cells.lease() as lease:
        clean, uid = await looked(lease.cell, leftovers), lease.cell.agent_uid
        async with anyio.create_task_group() as running:
            planted = episodes.Episode(f'python3 -c "{LISTENS}"', (PLANTED,))
            await episodes.live(planted, lease.cell, None, MetaData(), running)
            found = leftovers.left_over([clean], await looked(lease.cell, leftovers))
            running.cancel_scope.cancel()
    assert set(found) >= SEEN
    assert found["file:/workspace/new"] == "new"
    assert found["file:/workspace"] == "changed"
    async with ground.cells.lease(uid) as lease:
        assert leftovers.left_over([clean], await looked(lease.cell, leftovers)) == {}


def test_what_differs_between_clean_sandboxes_is_no_leak_unless_it_differs_otherwise(leftovers: Any) -> None:
    one = {"setting:host": ["a"], "file:/etc": ["m", 1], "gone": [1]}
    other = {"setting:host": ["b"], "file:/etc": ["m", 2], "gone": [1]}
    after = {"setting:host": ["c"], "file:/etc": ["M", 3], "new": [1]}
    assert leftovers.left_over([one, other], after) == {"file:/etc": "changed", "gone": "gone", "new": "new"}
    assert leftovers.left_over([one, other], other | {"file:/etc": ["m", 3]}) == {}
    assert leftovers.left_over([one], one | {"file:/etc": ["m", 3]}) == {"file:/etc": "time"}


@pytest.mark.parametrize("printed", ["", "Traceback: no", "bm8="])
def test_a_probe_that_did_not_end_is_no_clean_sandbox(leftovers: Any, printed: str) -> None:
    with pytest.raises(ValueError, match="did not come to its end"):
        leftovers.read(printed)
