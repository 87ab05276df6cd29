"""Commands: how they end, what they leave, and that one never touches another."""

import hashlib
import time

import anyio
import pytest

from wardian.sandbox.cell import Cell, Command, ExecOutcome
from wardian.sandbox.contract.base import CellSuite, alive, printed, run

ENDLESS = "sleep 7731"
"""Found again in the process list by its odd number."""
DAEMON = """python3 - <<'END'
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "7731"])
    os._exit(0)
END
"""


@pytest.mark.anyio
class CommandContract(CellSuite):
    @pytest.mark.parametrize(("asked", "code"), [(0, 0), (1, 1), (3, 3), (126, 126), (127, 127), (255, 255), (300, 44)])
    async def test_an_exit_code_is_the_commands_own(self, cell: Cell, asked: int, code: int) -> None:
        result = await run(cell, f"exit {asked}")
        assert (result.outcome, result.exit_code, result.signal) == (ExecOutcome.EXITED, code, None)

    async def test_a_program_is_found_by_its_name(self, cell: Cell) -> None:
        result = await cell.exec(Command(argv=("echo", "a  b", "$HOME")))
        assert (result.outcome, result.stdout.data) == (ExecOutcome.EXITED, b"a  b $HOME\n"), result.detail

    @pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "/etc/passwd", "/workspace/given"])
    async def test_what_cannot_start_says_so_and_has_no_code(self, cell: Cell, program: str) -> None:
        result = await cell.exec(Command(argv=(program,)))
        assert (result.outcome, result.exit_code) == (ExecOutcome.COULD_NOT_START, None)
        assert result.detail

    async def test_a_missing_working_directory_is_no_start(self, cell: Cell) -> None:
        result = await cell.exec(Command(argv=("true",), workdir="/no/such/place"))
        assert result.outcome is ExecOutcome.COULD_NOT_START

    async def test_a_missing_program_inside_of_a_script_is_the_scripts_127(self, cell: Cell) -> None:
        result = await run(cell, "no-such-program")
        assert (result.outcome, result.exit_code) == (ExecOutcome.EXITED, 127)

    async def test_arguments_beyond_all_bounds_are_refused_as_data(self, cell: Cell) -> None:
        result = await cell.exec(Command(argv=("echo", "x" * 3_000_000)))
        assert result.outcome is ExecOutcome.COULD_NOT_START
        assert await printed(cell, "echo on") == "on\n"

    @pytest.mark.parametrize(("name", "number"), [("KILL", 9), ("TERM", 15), ("SEGV", 11)])
    async def test_a_foreign_signal_is_told_apart(self, cell: Cell, name: str, number: int) -> None:
        result = await run(cell, f"kill -{name} $$")
        assert (result.outcome, result.signal, result.exit_code) == (ExecOutcome.KILLED, number, 128 + number)

    @pytest.mark.parametrize(
        "script",
        [
            ENDLESS,
            f"trap '' TERM INT HUP; while :; do {ENDLESS}; done",
            f"setsid {ENDLESS} & {ENDLESS}",
            f"nohup {ENDLESS} >/dev/null 2>&1 & wait",
            f"{DAEMON}{ENDLESS}",
            f"while :; do echo .; sleep 0.05; done; {ENDLESS}",
        ],
        ids=["plain", "ignores TERM", "setsid", "nohup", "double fork", "steady output"],
    )
    async def test_a_limit_ends_all_that_the_command_began(self, cell: Cell, script: str) -> None:
        began = time.monotonic()
        result = await run(cell, script, timeout_s=0.6)
        assert result.outcome is ExecOutcome.TIMED_OUT
        assert time.monotonic() - began < 0.6 + cell.spec.timeouts.exec_grace_s + 1
        assert not await alive(cell, ENDLESS)

    @pytest.mark.parametrize(
        "script",
        [f"({ENDLESS} &) ; exit 0", f"setsid {ENDLESS} & exit 0", DAEMON, f"{ENDLESS} >/dev/null 2>&1 & disown; exit 0"],
        ids=["holds stdout", "setsid", "double fork", "disowned"],
    )
    async def test_the_call_ends_with_its_child_and_leaves_nothing(self, cell: Cell, script: str) -> None:
        began = time.monotonic()
        result = await run(cell, script, timeout_s=15)
        assert (result.outcome, result.exit_code) == (ExecOutcome.EXITED, 0)
        assert time.monotonic() - began < 5
        assert result.left_behind >= 1
        assert not await alive(cell, ENDLESS)

    async def test_a_timed_out_command_ran_once(self, cell: Cell) -> None:
        await run(cell, "echo x >> n; sleep 999", timeout_s=0.5)
        assert await printed(cell, "wc -l < n") == "1\n"

    async def test_earlier_work_outlives_a_slow_command(self, cell: Cell) -> None:
        await run(cell, "echo a > /tmp/keep")
        await run(cell, "sleep 99", timeout_s=0.3)
        assert await printed(cell, "cat /tmp/keep") == "a\n"

    @pytest.mark.parametrize("program", ["cat", "python3", "bash", "read x || echo end"])
    async def test_stdin_is_at_its_end(self, cell: Cell, program: str) -> None:
        assert (await run(cell, program, timeout_s=5)).outcome is ExecOutcome.EXITED

    async def test_stdin_is_given_whole(self, cell: Cell) -> None:
        data = bytes(range(256)) * 8192
        result = await run(cell, "sha256sum", stdin=data)
        assert result.stdout.text().startswith(hashlib.sha256(data).hexdigest())

    async def test_a_command_that_ignores_its_stdin_ends(self, cell: Cell) -> None:
        assert (await run(cell, "exit 5", stdin=b"x" * 1_000_000)).exit_code == 5

    @pytest.mark.parametrize(
        ("first", "code"),
        [
            ("set -euo pipefail; false", 1),
            ("set -u; echo $NOPE", 127),
            ("shopt -s extdebug", 0),
            ("exec 1>&-", 0),
            ("exit 3", 3),
            ("exec sleep 0.1", 0),
            ("cd /; export X=1; alias echo=false; echo() { false; }", 0),
            ('echo "unclosed', 2),
            ("cat <<EOF\nhi\n EOF", 0),
            ("PS1='(x) $ '", 0),
        ],
    )
    async def test_no_command_changes_the_next_one(self, cell: Cell, first: str, code: int) -> None:
        assert (await run(cell, first, timeout_s=5)).exit_code == code
        assert await printed(cell, 'echo ok "${X-}" $PWD') == "ok  /workspace\n"

    async def test_two_at_once_do_not_end_each_other(self, cell: Cell) -> None:
        outputs: dict[str, object] = {}

        async def one(name: str, script: str, timeout_s: float) -> None:
            result = await run(cell, script, timeout_s=timeout_s)
            outputs[name] = (result.outcome, result.stdout.text())

        async with anyio.create_task_group() as both:
            both.start_soon(one, "short", "sleep 5", 0.4)
            both.start_soon(one, "long", "sleep 1.2; echo ok", 10)
        assert outputs == {"short": (ExecOutcome.TIMED_OUT, ""), "long": (ExecOutcome.EXITED, "ok\n")}

    async def test_sixteen_at_once_keep_their_outputs_apart(self, cell: Cell) -> None:
        outputs: dict[int, str] = {}

        async def one(number: int) -> None:
            outputs[number] = await printed(cell, f"for i in $(seq 200); do echo {number}; done")

        async with anyio.create_task_group() as group:
            for number in range(16):
                group.start_soon(one, number)
        assert outputs == {number: f"{number}\n" * 200 for number in range(16)}

    async def test_cancelling_ends_the_command(self, cell: Cell) -> None:
        with anyio.move_on_after(0.4) as scope:
            await run(cell, f"setsid {ENDLESS} & {ENDLESS}", timeout_s=60)
        assert scope.cancelled_caught
        with anyio.fail_after(5):
            while await alive(cell, ENDLESS):  # ending is asked for, and answered to nobody
                pass

    async def test_running_out_of_memory_is_told_apart_and_survived(self, cell: Cell) -> None:
        result = await run(cell, "exec python3 -c \"x = 'a' * 10**10\"", timeout_s=30)
        assert result.outcome is ExecOutcome.OUT_OF_MEMORY
        assert (await run(cell, "kill -9 $$")).outcome is ExecOutcome.KILLED
        assert await printed(cell, "echo on") == "on\n"

    async def test_a_fork_bomb_is_ended_and_survived(self, cell: Cell) -> None:
        result = await run(cell, "f() { f | f & }; f; sleep 30", timeout_s=1.5)
        assert result.outcome is not ExecOutcome.COULD_NOT_START
        assert await printed(cell, "echo on") == "on\n"

    async def test_the_time_is_the_commands_own(self, cell: Cell) -> None:
        assert 280 < (await run(cell, "sleep 0.3")).elapsed_ms < 900

    @pytest.mark.parametrize("script", ["read -p pw: x </dev/tty", "python3 -c 'import getpass; getpass.getpass()'", "stty -a"])
    async def test_there_is_no_terminal_to_wait_for(self, cell: Cell, script: str) -> None:
        result = await run(cell, script, timeout_s=5)
        assert result.outcome is ExecOutcome.EXITED
        assert result.exit_code != 0

    async def test_pagers_and_editors_do_not_wait(self, cell: Cell) -> None:
        script = """git init -q r && cd r && git config user.email a@b.c && git config user.name a
        for i in $(seq 60); do git commit -q --allow-empty -m "change $i"; done
        git commit --allow-empty; git log | grep -c ^commit"""
        assert (await run(cell, script)).stdout.text().endswith("60\n")

    async def test_the_environment_is_pinned_and_added_to(self, cell: Cell) -> None:
        result = await cell.exec(Command(argv=("env",), environment=(("ADDED", "a b"), ("TZ", "Asia/Tokyo"))))
        lines = set(result.stdout.text().splitlines())
        assert {"ADDED=a b", "TZ=Asia/Tokyo", "TERM=dumb", "PAGER=cat", "HOME=/workspace"} <= lines
        assert not any("WARDIAN" in line or "DOCKER" in line for line in lines)
