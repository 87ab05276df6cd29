"""What an episode leaves behind before it is reset: an ordinary one, and a vandal's.

A command's processes end with the command. So that there are some to end at the reset, one command is still running when the
episode is given up, as when a trainer stops waiting; it is cancelled at the last moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from anyio.abc import TaskGroup
from sqlalchemy import MetaData, Table, update

from wardian.rollouts.policies.dirt import ORDINARY
from wardian.sandbox.cell import Cell, Command
from wardian.sandbox.database.base import WorldDatabase
from wardian.sandbox.errors import CellDied, CellTimeout

ROWS = 10
SCRIPTS = 5
UP = "/tmp/holder-is-up"
RUNNING = f"for i in 1 2 3 4; do sleep 1000 & done; : > {UP}; wait"
"""Five processes: the shell and four more."""
STUBBORN = f"trap '' TERM INT HUP; for i in $(seq 1 20); do (while :; do sleep 1000; done) & done; : > {UP}; wait"
WAIT_UP = f"for i in $(seq 1 2000); do [ -e {UP} ] && break; sleep 0.002; done"
WORK = f"{WAIT_UP}; mkdir -p /workspace/out && cd /workspace/out && for i in $(seq 1 72); do echo $i > result-$i.txt; done"
"""With the folder, the marker and the like some 75 changed files."""
CALM = f"{WAIT_UP}; cd /workspace"


@dataclass(frozen=True, slots=True)
class Episode:
    """Dirt for one cell: a command that goes on running, and scripts that come to an end beside it."""

    running: str | None
    scripts: Sequence[str]
    rows: int = ROWS


def ordinary() -> Episode:
    """Five processes, about 75 changed files, ten changed rows."""
    return Episode(RUNNING, (WORK,))


def vandal(rng: Random) -> Episode:
    """Twenty stubborn processes, five of the vandal's scripts (`wardian.rollouts.policies.dirt`), ten changed rows."""
    names = rng.sample(sorted(ORDINARY), SCRIPTS)
    return Episode(STUBBORN, (CALM, *(ORDINARY[name] for name in names)))


def files(count: int) -> Episode:
    """So many new small files and nothing else."""
    if not count:
        return Episode(None, (), rows=0)
    script = f"import os\nos.makedirs('/workspace/many')\nfor i in range({count}):\n    open(f'/workspace/many/{{i}}', 'w').write('x')"
    return Episode(None, (f'python3 -c "{script}"',), rows=0)


async def live(episode: Episode, cell: Cell, database: WorldDatabase | None, metadata: MetaData, running: TaskGroup) -> None:
    """Do in a cell and a database what the episode does. What it starts goes on in `running`, until that is cancelled."""
    if database is not None and episode.rows:
        change_rows(database, metadata, episode.rows)
    if episode.running is not None:
        running.start_soon(_run, cell, episode.running)
    for script in episode.scripts:
        await _run(cell, script)


async def _run(cell: Cell, script: str) -> None:
    """One command, whatever becomes of it: a vandal may end itself, and the cell with it."""
    try:
        await cell.exec(Command(script=script, timeout_s=60))
    except (CellDied, CellTimeout):
        return  # its restore fails too, and the pool replaces it


def change_rows(database: WorldDatabase, metadata: MetaData, count: int) -> None:
    """Change one text in each of the first `count` rows of the first table that has an `id` and a text to change."""
    table, column = _changeable(metadata)
    with database.transaction() as session:
        session.execute(update(table).where(table.c.id <= count).values({column: "changed"}))


def _changeable(metadata: MetaData) -> tuple[Table, str]:
    for name in ("customers", "records"):
        if name in metadata.tables:
            return metadata.tables[name], {"customers": "name", "records": "body"}[name]
    raise LookupError("no table that this benchmark knows")
