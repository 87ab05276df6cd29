"""Servers and cells that somebody else started: our images by testcontainers, beside the servers that we manage.

Its own reaper is off, since it needs an image of its own; the containers carry our labels instead, so that `wardian reap` finds them.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio.to_thread
import psycopg
import pytest
from sqlalchemy import text
from testcontainers.community.postgres import PostgresContainer
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from wardian.rollouts.ground import Ground
from wardian.rollouts.trajectory import TrajectoryLog
from wardian.sandbox.database.postgres.managed import lasting_server
from wardian.sandbox.database.postgres.roles import GROUPS
from wardian.sandbox.database.postgres.server import Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.engine import Engine
from wardian.sandbox.images import ensure_postgres_image, require_agent_image
from wardian.sandbox.labels import labels_for

from .conftest import Player
from .test_runner import Saboteur

FEW = 24
"""Connections of the server: enough for four clones at a time."""
THEIRS = b"CREATE TABLE theirs (id int PRIMARY KEY); INSERT INTO theirs VALUES (7); CREATE ROLE someone LOGIN;"


@pytest.fixture(scope="session")
def foreign() -> Iterator[str]:
    """The URL of a server that is not ours, with something on it."""
    testcontainers_config.ryuk_disabled = True
    container = PostgresContainer(ensure_postgres_image(), username="boss", password="pass/word", dbname="shop", driver=None)
    container.with_command(f"-c max_connections={FEW} -c fsync=off").with_kwargs(labels=labels_for("test"))
    container.with_copy_into_container(THEIRS, "/docker-entrypoint-initdb.d/theirs.sql")
    with container as started:
        yield started.get_connection_url()


@pytest.fixture
def template(foreign: str, ground: Ground) -> Iterator[PostgresTemplate]:
    server = Server.open(foreign)
    made = PostgresTemplate.build(ground.world.template, server, spares=2)
    yield made
    made.close()
    server.close()


def things_on(url: str) -> tuple[set[str], set[str]]:
    """Names of databases and roles."""
    with psycopg.connect(url) as link:
        databases = {row[0] for row in link.execute("SELECT datname FROM pg_database")}
        return databases, {row[0] for row in link.execute("SELECT rolname FROM pg_roles")} - set(GROUPS)


def test_a_run_on_a_server_of_others_replays_and_leaves_it_as_it_was(wardian: Any, foreign: str, tmp_path: Path) -> None:
    before = things_on(foreign)
    with psycopg.connect(foreign) as link:
        assert link.execute("SELECT id FROM theirs").fetchall() == [(7,)], "over TCP only a server that is filled answers"
    played = wardian(
        *("run", "toy", "--policy", "expert", "--episodes", 3, "--no-progress", "--out", tmp_path / "run"),
        *("--db", "postgres", "--db-url", foreign),
    )
    assert played.returncode == 0, played.stderr
    assert things_on(foreign) == before
    assert "pass/word" not in (tmp_path / "run" / "trajectories.jsonl").read_text()
    replayed = wardian("replay", tmp_path / "run", "--db", "sqlite", "--no-progress")
    assert (replayed.returncode, "identical 3/3" in replayed.stdout) == (0, True), replayed.stdout
    with psycopg.connect(foreign) as link:
        assert link.execute("SELECT id FROM theirs").fetchall() == [(7,)]


def test_more_episodes_than_connections_wait_for_each_other(template: PostgresTemplate, foreign: str) -> None:
    most, failures = [0], list[BaseException]()

    def live() -> None:
        try:
            clone = template.clone()
            frozen = [clone.freeze()]
            with clone.transaction() as session:
                session.execute(text("UPDATE members SET name = name || '!'"))
            frozen.append(clone.freeze())
            for one in frozen:
                with one.session() as session:
                    session.execute(text("SELECT count(*) FROM members"))
            with template._server.admin() as admin:
                row = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'").fetchone()
            most[0] = max(most[0], row[0] if row else 0)
            for one in frozen:
                one.close()
            clone.close()
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    living = [threading.Thread(target=live) for _ in range(10)]
    for one in living:
        one.start()
    for one in living:
        one.join()
    assert failures == []
    assert 4 <= most[0] <= FEW


def crash(url: str, who: str = "$PPID") -> None:
    """Kill one of a server's processes: it ends all others, and starts again. Kill all (`-1`): it is gone."""
    with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as link:
        link.execute(f"COPY (SELECT 1) TO PROGRAM 'kill -KILL {who}'".encode())


@dataclass(frozen=True, slots=True)
class Restart:
    """A run whose server ends in the middle of it."""

    player: Player
    out: Path

    async def costs_only_the_affected(self, template: PostgresTemplate, deed: Callable[[], None]) -> None:
        player = Player(replace(self.player.ground, template=template))
        tally = await player.play(self.out, Saboteur(deed), episodes=4)
        log = TrajectoryLog.open(self.out)
        lost = [one.end for name in log.episodes for one in log.attempts(name) if one.end and one.end.mask == 0]
        assert (tally.whole.episodes, tally.whole.judged, dict(tally.masked)) == (4, 4, {})
        assert 1 <= len(lost) == tally.retried
        assert all(end.retried and end.reward is None and "database server" in str(end) for end in lost)


@pytest.fixture
def restart(player: Player, tmp_path: Path) -> Restart:
    return Restart(player, tmp_path)


@pytest.mark.anyio
async def test_a_server_of_others_that_restarts_costs_only_the_affected_episodes(
    restart: Restart, template: PostgresTemplate, foreign: str
) -> None:
    await restart.costs_only_the_affected(template, lambda: crash(foreign))


@pytest.mark.anyio
async def test_a_managed_server_that_ends_costs_only_the_affected_episodes(restart: Restart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wardian.sandbox.database.postgres.managed.LOOK_S", 0.1)
    engine = await Engine.open()
    async with lasting_server(engine, await anyio.to_thread.run_sync(ensure_postgres_image)) as lasting:
        server = await anyio.to_thread.run_sync(Server.open, lasting.url)
        lasting.moved = server.moved
        template = await anyio.to_thread.run_sync(PostgresTemplate.build, restart.player.ground.world.template, server, 2)
        await restart.costs_only_the_affected(template, lambda: crash(lasting.url, "-1"))
        await anyio.to_thread.run_sync(template.close)
        await anyio.to_thread.run_sync(server.close)
    engine.close()


def test_the_cells_image_has_what_an_agent_may_have_and_no_more() -> None:
    testcontainers_config.ryuk_disabled = True
    cell = DockerContainer(require_agent_image(), entrypoint="sleep", network_mode="none", labels=labels_for("test"), user="1000:1000")
    with cell.with_command("60") as started:
        for command, wanted in (
            ("python3 -c 'print(6 * 7)'", "42"),
            ("find / -xdev -type f -perm /6000 2>/dev/null", ""),
            ("find / -xdev -writable -type f -not -path '/proc/*' 2>/dev/null", ""),
            ("command -v docker", ""),
        ):
            said = started.exec(["bash", "-c", command]).output
            assert isinstance(said, bytes)
            assert said.decode().strip() == wanted, command
    assert os.environ.get("RYUK_CONTAINER_IMAGE") is None
