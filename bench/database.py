"""Median costs of a world database by the size of its image: `python bench/database.py`. Prints a table; judges nothing."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from sqlalchemy import text

from wardian.rollouts.bench.worlds import sized_template
from wardian.sandbox.database import SqliteTemplate
from wardian.sandbox.database.base import WorldDatabase

SIZES_MB = (0.2, 2, 20)


def once(work: Callable[[], object], times: int) -> float:
    """Median of so many runs, in milliseconds."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - started))
    return median(taken)


def clone_and_close(template: SqliteTemplate) -> None:
    template.clone().close()


def update(database: WorldDatabase) -> None:
    with database.transaction() as session:
        session.execute(text("UPDATE records SET kind = kind || '.' WHERE id = 7"))


def update_and_fingerprint(database: WorldDatabase) -> None:
    update(database)
    database.fingerprint()


def freeze_read(database: WorldDatabase) -> None:
    """A copy, opened and read, of a state of its own."""
    update(database)
    frozen = database.freeze()
    with frozen.session() as session:
        session.execute(text("SELECT kind FROM records WHERE id = 7")).all()
    frozen.close()


def costs(template: SqliteTemplate) -> list[tuple[str, float]]:
    """Each operation with its median in milliseconds."""
    database = template.clone()
    found = [
        ("clone and close", once(lambda: clone_and_close(template), 200)),
        ("transaction, one update", once(lambda: update(database), 200)),
        ("the same, and fingerprint", once(lambda: update_and_fingerprint(database), 200)),
        ("the same, and a frozen copy read", once(lambda: freeze_read(database), 50)),
        ("query, one row", once(lambda: database.query("SELECT kind FROM records WHERE id = 7"), 200)),
        ("recompute", once(database.recompute, 5)),
    ]
    database.close()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        templates = [sized_template(size, Path(directory)) for size in SIZES_MB]
        columns = [costs(template) for template in templates]
    print(f"{'median, ms':34}" + "".join(f"{template.size_bytes / 1e6:>9.1f} MB" for template in templates))
    for row in zip(*columns, strict=True):
        print(f"{row[0][0]:34}" + "".join(f"{value:12.3f}" for _, value in row))


if __name__ == "__main__":
    main()
