"""A run on Postgres is the run on SQLite: the same episodes, and each replays on the other engine."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wardian.cli import build_app
from wardian.rollouts.trajectory import FILE
from wardian.sandbox.database.postgres.managed import Lasting

RUN = ["run", "billing", "--policy", "vandal,expert,random", "--episodes", "9", "--faults", "harsh", "--no-progress"]


def wardian(*arguments: object, url: str | None) -> Any:
    return CliRunner(env={"WARDIAN_DB_URL": url}).invoke(build_app(), list(map(str, arguments)))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, lasting: Lasting) -> Path:
    out = tmp_path_factory.mktemp("postgres") / "run"
    done = wardian(*RUN, "--db", "postgres", "--out", out, url=lasting.url)
    assert done.exit_code == 0, done.output
    return out


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_run_on_postgres_replays_on(engine: str, played: Path, postgres_url: str) -> None:
    done = wardian("replay", played, "--db", engine, "--no-progress", url=postgres_url)
    assert done.exit_code == 0, done.output
    assert "identical 9/9" in done.output


def test_a_log_names_the_engine_and_no_password(played: Path) -> None:
    text = (played / FILE).read_text()
    assert '"database":"postgres"' in text.replace(": ", ":")
    assert "postgresql://" not in text


def test_an_engine_that_there_is_not_is_named() -> None:
    done = wardian(*RUN, "--db", "oracle", url=None)
    assert done.exit_code == 2
    assert "sqlite, postgres" in done.stderr


@pytest.mark.parametrize(
    ("engine", "url", "said"), [("sqlite", "postgresql://x", "has no server"), ("postgres", "rubbish", "cannot be read")]
)
def test_a_server_that_cannot_be_meant_is_refused(engine: str, url: str, said: str) -> None:
    done = wardian(*RUN, "--db", engine, "--db-url", url, url=None)
    assert (done.exit_code, done.stderr.count("\n"), "db_url: " in done.stderr, said in done.stderr) == (2, 1, True, True), done.output
