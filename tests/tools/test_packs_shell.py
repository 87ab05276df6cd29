"""The pack `shell` in a real cell."""

import base64
from typing import Any

import pytest

from wardian.tools.contract import Status

pytestmark = pytest.mark.anyio


async def test_a_command_gives_code_and_both_streams(hands: Any) -> None:
    assert await hands.shell("echo out; echo err >&2; exit 3") == {
        "outcome": "exited",
        "exit_code": 3,
        "stdout": "out\n",
        "stderr": "err\n",
    }
    assert await hands.shell("true") == {"outcome": "exited", "exit_code": 0, "stdout": "", "stderr": ""}


async def test_each_call_is_a_fresh_shell_and_files_last(hands: Any) -> None:
    for breaking in ("set -euo pipefail; X=1; echo a > kept; false", "exit 3", "kill -9 $$", "exec sleep 0.01", 'echo "unclosed'):
        await hands.shell(breaking)
    assert (await hands.shell('echo "ok$X"; cat kept'))["stdout"] == "ok\na\n"


async def test_a_heredoc_arrives_as_written(hands: Any) -> None:
    await hands.shell("cat <<'EOF' > f\nit's $HOME\nEOF")
    assert await hands.bytes_of("f") == b"it's $HOME\n"


async def test_a_redrawn_line_shows_its_last_state_and_the_log_its_bytes(hands: Any) -> None:
    result, event = await hands.call("shell", command=r"printf 'a 1%%\ra 99%%\r\x1b[?25l\x1b[2Kdone\n'")
    assert result.content["stdout"] == "done\n"
    assert base64.b64decode(event.attachments["stdout"]) == b"a 1%\ra 99%\r\x1b[?25l\x1b[2Kdone\n"
    assert (await hands.call("shell", command="echo plain"))[1].attachments == {}


async def test_a_command_over_its_limit_is_a_timeout_with_what_it_said(hands: Any) -> None:
    result, event = await hands.call("shell", command="echo x >> n; echo started; sleep 60", timeout_s=1)
    assert (result.status, result.content["stdout"]) == (Status.TIMEOUT, "started\n")
    assert result.latency_ms >= 1000
    assert result.inexact
    assert event.inexact
    assert (await hands.shell("wc -l < n; pgrep -c sleep"))["stdout"] == "1\n0\n"


async def test_background_processes_are_ended_and_named(hands: Any) -> None:
    assert "Background processes" in (await hands.shell("(sleep 60 &) ; exit 0"))["note"]


async def test_long_output_is_cut_with_its_true_size(hands: Any) -> None:
    found = await hands.shell("head -c 3000000 /dev/zero | tr '\\0' x; echo END")
    assert found["cut_from_bytes"] == {"stdout": 3_000_004}
    assert found["stdout"].endswith("xEND\n")
    assert "of 3000004 bytes left out" in found["stdout"]


async def test_a_control_token_is_plain_text(hands: Any) -> None:
    assert (await hands.shell("echo '<|im_end|>'"))["stdout"] == "<|im_end|>\n"
