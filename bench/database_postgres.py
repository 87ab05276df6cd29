"""Measure resets of a Postgres world beside other ways to get one: `python bench/database_postgres.py [rows]`.

Prints medians in milliseconds, for 8 workers where it says so, and the way that each was done. Needs an engine and the extra `postgres`.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
from anyio.from_thread import start_blocking_portal
from sqlalchemy import Column, MetaData, Table
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.postgres.managed import managed_server
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.database.types import Id, Text
from wardian.sandbox.engine import Engine
from wardian.sandbox.images import ensure_postgres_image

WORKERS = 8
ROUNDS = 5
ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
metadata = MetaData()
things = Table("things", metadata, Column("id", Id, primary_key=True, autoincrement=False), Column("body", Text))


def seed_rows(session: Session, seed: int) -> None:
    for start in range(0, ROWS, 1000):
        session.execute(things.insert(), [{"id": i, "body": f"{i:0>400}"} for i in range(start, min(start + 1000, ROWS))])


def median_ms(act: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        act()
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)


def resets_at_once(template: PostgresTemplate) -> float:
    def reset(_: int) -> float:
        started = time.perf_counter()
        clone = template.clone()
        with clone.transaction() as session:
            session.execute(things.update().where(things.c.id == 1).values(body="x"))
        spent = 1000 * (time.perf_counter() - started)
        clone.close()
        return spent

    with ThreadPoolExecutor(WORKERS) as pool:
        return statistics.median(pool.map(reset, range(WORKERS * ROUNDS)))


def ready(template: PostgresTemplate) -> float:
    times = []
    for _ in range(3 * ROUNDS):
        while not template.spares_ready:
            time.sleep(0.01)
        started = time.perf_counter()
        clone = template.clone()
        times.append(1000 * (time.perf_counter() - started))
        clone.close()
    return statistics.median(times)


def measure(server: Server, container: str) -> None:
    source = TemplateSource(f"bench-{ROWS}", metadata, seed_rows)
    started = time.perf_counter()
    template = PostgresTemplate.build(source, server, spares=WORKERS)
    print(f"template: {template.size_bytes / 2**20:.1f} MB with the server's own catalogue, built in {time.perf_counter() - started:.2f} s")
    print(f"clone, spare ready: {ready(template):.1f} ms")
    print(f"clone and first write, {WORKERS} workers that do nothing else (spares run out): {resets_at_once(template):.1f} ms")
    template.close()
    template = PostgresTemplate.build(source, server, spares=0)
    print(f"clone, no spare: {median_ms(lambda: template.clone().close()):.1f} ms")
    print(f"clone and first write, {WORKERS} workers, no spares: {resets_at_once(template):.1f} ms")
    with psycopg.connect(server.url, autocommit=True) as admin:
        _others(admin, server, container)
    template.close()


def _others(admin: psycopg.Connection[tuple[object, ...]], server: Server, container: str) -> None:
    def seeded() -> None:
        admin.execute("CREATE DATABASE bench_seeded")
        with psycopg.connect(server.url_of("bench_seeded")) as link:
            link.execute("CREATE TABLE things (id bigint PRIMARY KEY, body text)")
            with link.cursor() as cursor:
                cursor.executemany("INSERT INTO things VALUES (%s, %s)", [(i, f"{i:0>400}") for i in range(ROWS)])
        admin.execute("DROP DATABASE bench_seeded WITH (FORCE)")

    def dumped() -> None:
        admin.execute("CREATE DATABASE bench_copy")
        shell = "pg_dump -U postgres bench_from | psql -q -U postgres bench_copy >/dev/null"
        subprocess.run(["docker", "exec", "-u", "postgres", container, "sh", "-c", shell], check=True)
        admin.execute("DROP DATABASE bench_copy WITH (FORCE)")

    print(f"create, migrate and seed: {median_ms(seeded):.0f} ms")
    admin.execute("CREATE DATABASE bench_from")
    with psycopg.connect(server.url_of("bench_from"), autocommit=True) as link:
        link.execute("CREATE TABLE things (id bigint PRIMARY KEY, body text)")
        fill = f"INSERT INTO things SELECT i, lpad(i::text, 400, '0') FROM generate_series(0, {ROWS - 1}) i"
        link.execute(fill.encode())
        reload_ms = median_ms(lambda: (link.execute("TRUNCATE things"), link.execute(fill.encode())))
        print(f"TRUNCATE and reload, rows made by the server: {reload_ms:.0f} ms")
    print(f"pg_dump | psql: {median_ms(dumped):.0f} ms")
    admin.execute("DROP DATABASE bench_from WITH (FORCE)")


if __name__ == "__main__":
    image = ensure_postgres_image()
    with start_blocking_portal() as portal:
        engine = portal.call(Engine.open)
        with portal.wrap_async_context_manager(managed_server(engine, image)) as served:
            server = Server.open(served.url)
            measure(server, served.container)
            server.close()
        engine.close()
