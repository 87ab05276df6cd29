"""What the doctor says of Postgres. What is missing is a warning, as only `--db postgres` needs it; on a named server, a failure."""

import importlib.metadata

from wardian.sandbox.checks import Check, Status, expect
from wardian.sandbox.database.choice import EXTRA, DatabaseChoice, DatabaseEngine, driver_missing
from wardian.sandbox.errors import DatabaseLost, SandboxError
from wardian.sandbox.images import image_present, postgres_image

COMFORTABLE = 32
"""Connections of a server: eight cells, each with a copy or two for verifiers and stale reads, and spares."""


def postgres_checks(url: str | None, total_mib: int, free_mib: int | None) -> tuple[Check, ...]:
    """Look at the driver, and at image and room of a managed server; or at the server at `url`, where one is named.

    `total_mib` is the engine's memory, and `free_mib` what is free of this machine's; `None` where it cannot be read.
    Blocking. Changes nothing.
    """
    if driver_missing(DatabaseChoice(DatabaseEngine.POSTGRES)):
        missing = Status.WARNING if url is None else Status.FAILURE
        return (Check("postgres_driver", missing, None, "only --db postgres needs it", EXTRA),)
    driver = Check("postgres_driver", Status.OK, f"psycopg {importlib.metadata.version('psycopg')}")
    return (driver, *(_managed_checks(total_mib, free_mib) if url is None else _server_checks(url)))


def _managed_checks(total_mib: int, free_mib: int | None) -> tuple[Check, ...]:
    from wardian.sandbox.database.postgres.managed import DATA_MIB, MEMORY_MIB, WAL_MIB, room_mib

    need = DATA_MIB + WAL_MIB + MEMORY_MIB
    return (
        _image_check(),
        expect(
            "postgres_room_mib",
            room_mib(total_mib),
            free_mib is None or free_mib >= need,
            "end other programs, use fewer cells or a smaller template, or name a server that has a disk: --db-url",
            f"databases of a managed server lie in memory: {need} MiB free are comfortable"
            + ("" if free_mib is None else f", {free_mib} are free"),
        ),
    )


def _image_check() -> Check:
    todo = "run `wardian build-images --postgres`; else it is built on first use"
    try:
        reference = postgres_image()
        present = image_present(reference)
    except SandboxError as error:
        return Check("postgres_image", Status.WARNING, None, str(error), todo)
    return expect("postgres_image", reference, present, todo, "present" if present else "not built for these sources")


def _server_checks(url: str) -> tuple[Check, ...]:
    from wardian.sandbox.database.postgres.facts import ZONES, facts_of
    from wardian.sandbox.database.postgres.links import connected
    from wardian.sandbox.database.postgres.problems import shown

    try:
        with connected(url) as link:
            facts = facts_of(link)
    except DatabaseLost as error:
        return (
            Check("postgres_server", Status.FAILURE, shown(url), str(error), "start it, or mend host, port, user and password of --db-url"),
        )
    if problem := facts.problem():
        return (Check("postgres_server", Status.FAILURE, facts.version_text, f"at {shown(url)}", problem),)
    return (
        Check("postgres_server", Status.OK, facts.version_text, f"at {shown(url)}"),
        expect(
            "postgres_connections",
            facts.connections,
            facts.connections >= COMFORTABLE,
            "raise max_connections, or use fewer cells: each takes two or three",
            f"{COMFORTABLE} or more are comfortable",
        ),
        expect(
            "postgres_waits_for_disk",
            "yes" if facts.waits_for_disk else "no",
            not facts.waits_for_disk,
            "if nothing on it must outlive a crash: fsync = off, full_page_writes = off, synchronous_commit = off; clones are then faster",
        ),
        expect(
            "postgres_without_now",
            "yes" if facts.without_now else "no",
            facts.without_now,
            f"copy images/postgres/timezoneset to share/timezonesets/{ZONES} of the server, where `pg_config --sharedir` says",
            "" if facts.without_now else "an agent that puts the word 'now' together and casts it to a time is told the host's",
        ),
    )
