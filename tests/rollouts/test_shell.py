"""`wardian shell` and `wardian diff`, as a person and as a script use them."""

import os
import pty
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wardian.cli import build_app
from wardian.cli.console import visible
from wardian.cli.prompts import statements
from wardian.sandbox.database.postgres.managed import Lasting

WARDIAN = (sys.executable, "-c", "from wardian.cli import main; main()")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shell") / "run"
    done = wardian("run", "billing", "--policy", "expert", "--episodes", "1", "--out", out, "--no-progress")
    assert done.exit_code == 0, done.output
    return out


def wardian(*arguments: object, stdin: str = "", url: str | None = None) -> Any:
    return CliRunner(env={"WARDIAN_DB_URL": url}).invoke(build_app(), list(map(str, arguments)), input=stdin)


@pytest.mark.parametrize("tier", ["chamber", "fresh"])
def test_what_is_piped_in_runs_as_one_script_in_the_world_of_that_step(played: Path, tier: str) -> None:
    done = wardian("shell", played, 0, "--step", 1, "--tier", tier, stdin="cd tickets\nwho=$(id -un)\necho $who; ls | wc -l\nexit 4\n")
    assert (done.exit_code, done.stdout) == (4, "agent\n1\n")
    assert "step 1 of 12, after" in done.stderr
    assert f"tier {tier}" in done.stderr
    assert "processes of that time are not alive" in done.stderr


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_sql_reads_the_database_of_that_step(played: Path, engine: str, lasting: Lasting) -> None:
    count = "SELECT count(*) AS n FROM refunds WHERE id > 7;"
    found = [wardian("shell", played, 0, *step, "--sql", "--db", engine, stdin=count, url=lasting.url) for step in (["--step", 0], [])]
    assert [(done.exit_code, done.stdout) for done in found] == [(0, "n\n0\n"), (0, "n\n1\n")]


def test_sql_writes_nothing_and_goes_on(played: Path) -> None:
    done = wardian("shell", played, 0, "--sql", stdin=".tables\nDELETE FROM refunds;\nSELECT 'a\tb', NULL;")
    assert done.exit_code == 1
    assert "refunds\tid, payment_id" in done.stdout
    assert done.stdout.endswith("a\\tb\tNULL\n")
    assert "only reading is allowed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["shell", "0", "--step", "16"], 2, "--step: "),
        (["shell", "9"], 2, "none is named '9'"),
        (["diff", "0", "--to", "16"], 2, "give 0 (its start) to 12 (its end)"),
        (["replay", "0", "--to-step", "400"], 2, "to_step: no episode here has so many steps; give at most 12"),
        (["diff", "0", "--tier", "none"], 2, "tier: no 'none'"),
    ],
)
def test_what_there_is_not_is_named(played: Path, arguments: list[str], code: int, said: str) -> None:
    done = wardian(arguments[0], played, *arguments[1:])
    assert done.exit_code == code
    assert said in done.stderr


def test_a_diff_reads_as_lines_and_as_json(played: Path) -> None:
    text, data = wardian("diff", played, 0, "--from", 5), wardian("diff", played, 0, "--from", 5, "--json")
    assert "row tickets[100001] changed: status 'open' -> 'resolved'" in text.stdout
    assert '"same": false' in data.stdout


class Terminal:
    """A process on a terminal, and what it said."""

    def __init__(self, *arguments: object) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execv(sys.executable, [*WARDIAN, *map(str, arguments)])

    def until(self, mark: str) -> str:
        seen = b""
        while mark.encode() not in seen:
            seen += os.read(self.descriptor, 4096)
        return seen.decode()

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def terminal(*arguments: object) -> Iterator[Terminal]:
    opened = Terminal(*arguments)
    try:
        yield opened
    finally:
        os.close(opened.descriptor)


def test_a_person_types_interrupts_and_leaves(played: Path) -> None:
    with terminal("shell", played, 0, "--step", 2) as one:
        one.until("workspace$ ")
        one.type("cd /tmp; word=kept\n")
        one.until("step 2:/tmp$ ")
        one.type("for i in 1 2\n")
        one.until("> ")
        one.type("do echo $word$i; done\n")
        assert "kept1\r\nkept2\r\n" in one.until("tmp$ ")
        one.type("printf '\\033]0;mine\\007\\n'; sleep 1000\n")
        one.until("sleep 1000")
        one.type("\x03")
        one.until("tmp$ ")
        one.type("printf '\\033]0;mine\\007\\n'; pgrep -c sleep\n")
        said = one.until("tmp$ ")
        assert "\\x1b]0;mine\\x07\r\n0\r\n" in said
        one.type("\x04")
        assert one.code() == 1


def test_a_signal_leaves_by_way_of_the_teardown(played: Path) -> None:
    with terminal("shell", played, 0) as one:
        one.until("workspace$ ")
        os.kill(one.pid, signal.SIGTERM)
        assert one.code() == 143


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1; SELECT ';';\n", ["SELECT 1;", "SELECT ';';"]),
        ("SELECT\n 1 -- a; b\n;", ["SELECT\n 1 -- a; b\n;"]),
        (".tables\nSELECT 2", [".tables", "SELECT 2"]),
        (" ; \n", []),
    ],
)
def test_statements_end_where_sql_says(text: str, found: list[str]) -> None:
    assert statements(text) == found


def test_nothing_that_an_agent_wrote_commands_a_terminal() -> None:
    assert visible("a\tb\n\x1b[2J\u202e\x9bé") == "a\tb\n\\x1b[2J\\u202e\\x9bé"
