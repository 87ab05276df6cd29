"""What Inspect's self-check does not ask of a cell."""

from typing import Any

import anyio
import pytest
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironment, SandboxUnavailableError
from inspect_ai.util._sandbox.limits import override_max_exec_output_size

from wardian.sandbox.cell import Tier
from wardian.sandbox.errors import CellDied, CellUnavailable, DeathCause
from wardian.trainers.inspect import CellConfig, CellSandbox

pytestmark = pytest.mark.anyio


async def test_a_cell_that_the_agent_ended_is_a_tools_error_that_the_model_reads(sandbox_env: SandboxEnvironment, monkeypatch: Any) -> None:
    cell = sandbox_env.as_type(CellSandbox)._lease.cell

    async def dies(command: object) -> None:
        raise CellDied(cell.id, DeathCause.POLICY, "the agent ended it")

    with monkeypatch.context() as patch:
        patch.setattr(cell, "exec", dies)
        with pytest.raises(SandboxUnavailableError, match="the agent ended it"):
            await sandbox_env.exec(["true"])
    with pytest.raises(SandboxUnavailableError):
        await sandbox_env.exec(["true"])


async def test_large_output_is_an_error_with_both_ends(sandbox_env: SandboxEnvironment) -> None:
    with override_max_exec_output_size(1000), pytest.raises(OutputLimitExceededError) as caught:
        await sandbox_env.exec(["sh", "-c", "echo first; seq 100000; echo last"])
    assert caught.value.truncated_output.startswith("first\n")
    assert caught.value.truncated_output.endswith("last\n")


async def test_several_large_outputs_at_once_pass(sandbox_env: SandboxEnvironment) -> None:
    sizes = []

    async def one() -> None:
        sizes.append(len((await sandbox_env.exec(["head", "-c", "10000000", "/dev/zero"])).stdout))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(one)
    assert sizes == [10_000_000] * 4


async def test_what_a_timeout_ended_says_what_it_had_printed(sandbox_env: SandboxEnvironment) -> None:
    with pytest.raises(TimeoutError) as caught:
        await sandbox_env.exec(["sh", "-c", "echo begun; sleep 60"], timeout=1)
    assert caught.value.truncated_output == "begun\n"  # type: ignore[attr-defined]


async def test_nothing_that_a_command_started_outlives_it(sandbox_env: SandboxEnvironment) -> None:
    await sandbox_env.exec(["sh", "-c", "setsid sleep 77 & echo"])
    assert "sleep 77" not in (await sandbox_env.exec(["ps", "-eo", "args"])).stdout


async def test_a_file_that_is_written_again_keeps_its_mode(sandbox_env: SandboxEnvironment) -> None:
    await sandbox_env.write_file("run.sh", "#!/bin/sh\necho one\n")
    await sandbox_env.exec(["chmod", "755", "run.sh"])
    await sandbox_env.write_file("run.sh", "#!/bin/sh\necho two\n")
    assert (await sandbox_env.exec(["./run.sh"])).stdout == "two\n"


async def test_what_cannot_start_says_so(sandbox_env: SandboxEnvironment) -> None:
    missing = await sandbox_env.exec(["no-such-program"])
    assert (missing.success, missing.returncode, "no-such-program" in missing.stderr) == (False, 127, True)
    nowhere = await sandbox_env.exec(["true"], cwd="no/such/place")
    assert (nowhere.success, nowhere.stderr) == (False, "no/such/place: No such file or directory\n")


async def test_a_text_that_is_none_is_told_by_its_error(sandbox_env: SandboxEnvironment) -> None:
    await sandbox_env.write_file("bytes", b"\xff\x00")
    with pytest.raises(UnicodeDecodeError):
        await sandbox_env.read_file("bytes")


async def test_a_chamber_gives_no_connection(sandbox_env: SandboxEnvironment) -> None:
    with pytest.raises(NotImplementedError, match="fresh"):
        await sandbox_env.connection()


async def test_a_connection_shows_what_the_sample_sees() -> None:
    config = CellConfig(cells=1, tier=Tier.FRESH)
    await CellSandbox.task_init("startup", config)
    try:
        environments = await CellSandbox.sample_init("test", config, {})
        await environments["default"].write_file("here.txt", "")
        found = await environments["default"].connection()
        command = found.command.replace(" -it ", " ").split()
        shown = await anyio.run_process([*command[:-1], "sh", "-c", "ls; id -u"], check=True)
        assert shown.stdout.decode().split() == ["here.txt", str(environments["default"].as_type(CellSandbox)._lease.cell.agent_uid)]
        await CellSandbox.sample_cleanup("test", config, environments, False)
    finally:
        await CellSandbox.task_cleanup("shutdown", config, True)


async def test_cleaning_removes_no_cell_of_a_living_run(sandbox_env: SandboxEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    await CellSandbox.cli_cleanup(None)
    assert "owner" in capsys.readouterr().out
    assert (await sandbox_env.exec(["true"])).success
    with pytest.raises(CellUnavailable, match="no-such-cell"):
        await CellSandbox.cli_cleanup("no-such-cell")
