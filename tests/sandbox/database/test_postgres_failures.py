"""What is left, and what goes on, when a builder, an owner or the server itself ends in the middle."""

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from threading import BoundedSemaphore
from typing import Any

import anyio
import anyio.to_thread
import docker
import psycopg
import pytest
from anyio.from_thread import start_blocking_portal
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import text
from sqlalchemy.orm import Session

from wardian.envs.registry import load_world
from wardian.sandbox.database.base import TemplateSource, WorldDatabase
from wardian.sandbox.database.choice import DatabaseChoice, DatabaseEngine, open_template
from wardian.sandbox.database.postgres.managed import lasting_server, managed_server
from wardian.sandbox.database.postgres.roles import GROUPS, TOOLS
from wardian.sandbox.database.postgres.server import PREFIX, Server, reap_server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import DatabaseLost, DatabaseProblem, DatabaseProblemKind, EngineUnavailable
from wardian.sandbox.images import ensure_postgres_image
from wardian.sandbox.labels import PID, RUN
from wardian.sandbox.timeouts import Timeouts

from .conftest import orders, seed_rows

OWN = """
import os, sys, time
from wardian.sandbox.database.postgres.managed import lasting_server, managed_server
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.envs.registry import load_world

template = PostgresTemplate.build(load_world("toy").template, Server.open(sys.argv[1]), spares=2)
clone = template.clone()
print("ready", flush=True)
time.sleep(600)
"""


HALF = """
import sys, time
from dataclasses import replace
from wardian.envs.registry import load_world
from wardian.sandbox.database.postgres import building
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate

def stop(*_):
    print("half", flush=True)
    time.sleep(600)

building.capture.install_triggers = stop
PostgresTemplate.build(replace(load_world("toy").template, name=sys.argv[2]), Server.open(sys.argv[1]), spares=0)
"""

UNLABELLED = """
import sys, time
from wardian.sandbox.database.postgres import server

def stop(what, name, labels):
    print(name, flush=True)
    time.sleep(600)

mine = server.Server.open(sys.argv[1])
server.labelling = stop
mine.create(server.Server.episode_name(server.PREFIX), "template0")
"""


def names(server: Server, kind: str = "DATABASE") -> set[str]:
    return {name for what, name in server.ours() if what == kind}


def gone(server: Server, left: set[tuple[str, str]]) -> bool:
    """Reap until nothing of `left` is there: what the server still does for a killed client, or another reaps, is not free at once."""
    for _ in range(100):
        reap_server(server)
        if not left & set(server.ours()):
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def source(shop_source: TemplateSource) -> TemplateSource:
    """One of its own, so that no other test's template is met."""
    return replace(shop_source, name=f"shop-{secrets.token_hex(4)}")


def test_what_a_killed_owner_left_is_dropped_at_the_next_start(postgres_url: str, server: Server) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWN, postgres_url], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    left = {key for key, labels in server.ours().items() if labels.get(PID) == str(owner.pid)}
    assert len(left) >= 3
    assert not left & {(what, name) for what, name in server.ours() if name in str(reap_server(server).removed)}
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    assert gone(server, left)


def test_a_builder_that_fails_leaves_nothing_and_the_next_one_builds(server: Server, source: TemplateSource) -> None:
    def broken(session: Session, seed: int) -> None:
        seed_rows(session, seed)
        raise ValueError("no luck")

    before = names(server)
    with pytest.raises(ValueError, match="no luck"):
        PostgresTemplate.build(replace(source, seed_rows=broken), server, spares=0)
    assert {name for name in names(server) - before if name.startswith(f"{PREFIX}b_")} == set()


def test_a_database_whose_maker_was_killed_before_its_label_is_dropped(postgres_url: str, server: Server) -> None:
    maker = subprocess.Popen([sys.executable, "-c", UNLABELLED, postgres_url], stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    name = maker.stdout.readline().strip()
    assert server.comment_of(name) == {}
    assert name not in str(reap_server(server).removed)
    maker.kill()
    maker.communicate()
    assert gone(server, {("DATABASE", name)})


def test_groups_stay_until_everything_goes_and_are_never_taken_from_others() -> None:
    image = ensure_postgres_image()
    with start_blocking_portal() as portal:
        engine = portal.call(Engine.open)
        with portal.wrap_async_context_manager(managed_server(engine, image)) as served:
            mine = Server.open(served.url)
            mine.create(Server.episode_name(PREFIX), "template0")
            assert all(name in str(reap_server(mine).kept) for name in GROUPS)
            mine.close()
            looking = Server.open(served.url, prepare=False)
            assert reap_server(looking, everything=True).problems == ()
            assert looking.ours() == {}
            with looking.admin() as admin:
                admin.execute(f"CREATE ROLE {TOOLS} LOGIN".encode())
            with pytest.raises(DatabaseLost, match=f"has a role {TOOLS} that is not ours, and worlds need that name: rename it"):
                Server.open(served.url)
            looking.close()
        engine.close()


def test_who_only_looks_at_a_server_changes_nothing_on_it(postgres_url: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "prepare", lambda self: pytest.fail("it was prepared"))
    looking = Server.open(postgres_url, prepare=False)
    reap_server(looking, dry_run=True)
    assert not {looking.login, looking.worker} & names(server, "ROLE")
    looking.close()


def test_a_builder_that_is_killed_half_way_holds_nobody_up_and_leaves_nothing(postgres_url: str) -> None:
    source = replace(load_world("toy").template, name=f"toy-{secrets.token_hex(4)}")
    builder = subprocess.Popen([sys.executable, "-c", HALF, postgres_url, source.name], stdout=subprocess.PIPE, text=True)
    assert builder.stdout is not None
    assert builder.stdout.readline() == "half\n"
    builder.kill()
    builder.communicate()
    next_one = Server.open(postgres_url)
    template = PostgresTemplate.build(source, next_one, spares=0)
    clone = template.clone()
    assert clone.recompute() == template.fingerprint
    clone.close()
    template.close()
    assert not [name for name in names(next_one) if name.startswith(f"{PREFIX}b_")]
    next_one.close()


def test_who_waits_for_a_place_has_that_of_a_clone_that_ended_just_now(postgres_url: str, source: TemplateSource) -> None:
    mine = Server.open(postgres_url)
    mine.places = BoundedSemaphore(1)
    template = PostgresTemplate.build(source, mine, spares=0)
    ended = template.clone()
    link = ended.link
    ended.close()
    template.clone().close()
    assert link.closed
    template.close()
    mine.close()


def test_logins_that_a_successor_of_the_server_lacks_are_made_again(postgres_url: str, source: TemplateSource) -> None:
    mine = Server.open(postgres_url)
    template = PostgresTemplate.build(source, mine, spares=0)
    with mine.admin() as admin:
        admin.execute(f"DROP ROLE {mine.worker}, {mine.login}".encode())
    clone = template.clone()
    assert clone.recompute() == template.fingerprint
    clone.close()
    assert {mine.login, mine.worker} <= names(mine, "ROLE")
    template.close()
    mine.close()


def test_a_successor_of_the_server_has_our_roles_before_anything_is_built_there(source: TemplateSource) -> None:
    image = ensure_postgres_image()
    with start_blocking_portal() as portal:
        engine = portal.call(Engine.open)
        with (
            portal.wrap_async_context_manager(managed_server(engine, image)) as first,
            portal.wrap_async_context_manager(managed_server(engine, image)) as second,
        ):
            mine = Server.open(first.url)
            mine.moved(second.url)
            template = PostgresTemplate.build(source, mine, spares=0)
            clone = template.clone()
            assert clone.recompute() == template.fingerprint
            clone.close()
            template.close()
            mine.close()
        engine.close()


def test_a_template_without_its_mark_is_built_again(server: Server, source: TemplateSource) -> None:
    first = PostgresTemplate.build(source, server, spares=0)
    with server.admin() as admin:
        admin.execute(f"COMMENT ON DATABASE {PREFIX}t_{first.key} IS NULL".encode())
    second = PostgresTemplate.build(source, server, spares=0)
    clone = second.clone()
    assert second.fingerprint == first.fingerprint == clone.recompute()
    clone.close()
    first.close()
    second.close()
    assert f"{PREFIX}t_{first.key}" not in names(server)


@pytest.fixture
def template(server: Server, source: TemplateSource) -> Iterator[PostgresTemplate]:
    made = PostgresTemplate.build(source, server, spares=1)
    yield made
    made.close()


def test_a_template_that_is_gone_is_built_again(server: Server, template: PostgresTemplate) -> None:
    template.clone().close()
    server.drop(f"{PREFIX}t_{template.key}")
    for _ in range(3):
        clone = template.clone()
        assert clone.recompute() == template.fingerprint
        clone.close()


def test_a_lost_connection_is_the_infrastructures(server: Server, template: PostgresTemplate) -> None:
    clone = template.clone()
    name = clone._copy.name
    with server.admin() as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
    with pytest.raises(DatabaseLost), clone.transaction() as session:
        session.execute(orders.update().values(total=1))
    with pytest.raises(DatabaseLost):
        clone.query("SELECT 1")
    clone.close()
    fresh = template.clone()
    assert fresh.recompute() == template.fingerprint
    fresh.close()


def test_a_used_clone_is_never_handed_out_again_and_is_dropped(server: Server, template: PostgresTemplate) -> None:
    seen = set()
    for _ in range(4):
        clone = template.clone()
        assert clone.recompute() == template.fingerprint
        with clone.transaction() as session:
            session.execute(orders.delete())
        seen.add(clone._copy.name)
        clone.close()
    template.close()
    assert len(seen) == 4
    assert not seen & names(server)


def test_the_end_of_one_template_takes_no_clone_of_another(server: Server, source: TemplateSource, template: PostgresTemplate) -> None:
    other = PostgresTemplate.build(replace(source, seed=source.seed + 1), server, spares=0)
    kept, gone = template.clone(), other.clone()
    other.close()
    with pytest.raises(DatabaseLost), gone.transaction():
        pass
    with kept.transaction() as session:
        assert session.execute(orders.select()).first() is not None
    kept.close()
    gone.close()


def test_a_user_who_is_no_superuser_is_told_why(server: Server) -> None:
    with pytest.raises(DatabaseLost, match="superuser"):
        Server.open(server.url_of("postgres", as_login=True))


def test_a_server_that_is_not_there_is_named_without_the_password() -> None:
    with pytest.raises(DatabaseLost, match=r"127\.0\.0\.1:1") as caught:
        Server.open("postgresql://someone:secret@127.0.0.1:1/postgres")
    assert "secret" not in str(caught.value)


class Deaf(Engine):
    """An engine that now and then does not answer."""

    silent = False
    unheard = 0

    async def inspect(self, container_id: str) -> dict[str, Any]:
        if self.silent:
            self.unheard += 1
            raise EngineUnavailable("inspect", "no answer")
        return await super().inspect(container_id)


@pytest.mark.anyio
async def test_an_engine_that_does_not_answer_ends_no_server_and_an_end_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("wardian.sandbox.database.postgres.managed.LOOK_S", 0.02)
    engine = Deaf((await Engine.open())._api, Timeouts())
    moved = threading.Event()
    async with lasting_server(engine, await anyio.to_thread.run_sync(ensure_postgres_image)) as lasting:
        engine.silent, first = True, lasting.url
        while engine.unheard < 3:  # noqa: ASYNC110 - nothing tells when it was asked
            await anyio.sleep(0.01)
        engine.silent = False
        lasting.moved = lambda url: moved.set()
        with psycopg.connect(first, autocommit=True) as link:
            assert not moved.is_set()
            with pytest.raises(psycopg.OperationalError):
                link.execute("COPY (SELECT 1) TO PROGRAM 'kill -KILL -1'")
        assert await anyio.to_thread.run_sync(moved.wait, 60)
        assert lasting.url != first
    engine.close()
    assert "exit code 137" in caplog.text


@pytest.mark.anyio
async def test_a_managed_server_that_dies_has_a_successor(source: TemplateSource) -> None:
    async with open_template(source, DatabaseChoice(DatabaseEngine.POSTGRES), spares=1) as template:
        clone = await anyio.to_thread.run_sync(template.clone)
        client = docker.from_env()
        mine = [one for one in client.containers.list(filters={"label": RUN}) if one.name == container_of(template)]
        assert len(mine) == 1
        mine[0].kill()
        client.close()
        with pytest.raises(DatabaseLost):
            clone.query("SELECT 1")
        clone.close()
        fresh = await anyio.to_thread.run_sync(template.clone)
        assert fresh.recompute() == template.fingerprint
        fresh.close()


def container_of(template: object) -> str:
    """The name of the container whose published port the template's server has."""
    assert isinstance(template, PostgresTemplate)
    port = conninfo_to_dict(template._server.url)["port"]
    client = docker.from_env()
    found = [
        str(row["Names"][0]).lstrip("/")
        for row in client.api.containers(filters={"label": f"{PID}={os.getpid()}"})
        if any(str(one.get("PublicPort")) == port for one in row["Ports"])
    ]
    client.close()
    return found[0]


@pytest.fixture
def small(source: TemplateSource) -> Iterator[tuple[Server, PostgresTemplate]]:
    """A server of its own with little room, and a template on it."""
    image = ensure_postgres_image()
    with start_blocking_portal() as portal:
        engine = portal.call(Engine.open)
        with portal.wrap_async_context_manager(managed_server(engine, image, data_mib=160)) as served:
            server = Server.open(served.url)
            template = PostgresTemplate.build(source, server, spares=0)
            yield server, template
            template.close()
            server.close()
        engine.close()


def write(database: WorldDatabase, rows: int, start: int) -> None:
    """One call that writes `rows` lines of a kilobyte."""
    with database.transaction() as session:
        added = text("INSERT INTO lines SELECT 1, :start + i, repeat('x', 1000) FROM generate_series(1, :rows) i")
        session.execute(added, {"start": start, "rows": rows})


def write_until_full(database: WorldDatabase) -> None:
    for number in range(100):
        write(database, rows=5000, start=10000 * (number + 1))


def test_a_full_disk_is_the_doing_of_who_filled_it(small: tuple[Server, PostgresTemplate], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardian.sandbox.database.postgres.template.PATIENCE_S", 0)
    server, template = small
    modest, greedy = template.clone(), template.clone()
    with pytest.raises(DatabaseProblem, match="no room: this database has grown") as caught:
        write_until_full(greedy)
    assert caught.value.kind is DatabaseProblemKind.TOO_SLOW
    assert greedy.recompute() == greedy.fingerprint()
    with pytest.raises(DatabaseLost, match="give it more room"):
        write(modest, rows=20000, start=10000)
    with pytest.raises(DatabaseLost, match="give it more room"):
        template.clone()
    with server.admin() as admin:
        admin.execute("CHECKPOINT")  # the server itself goes on
    greedy.close()
    monkeypatch.undo()
    template.clone().close()  # waits until what was used is dropped
    with modest.transaction() as session:
        session.execute(orders.update().values(total=1))
    modest.close()
