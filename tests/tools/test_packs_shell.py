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


EXACT = (
    ("printf abc", 0, "abc"),
    ("printf '  lead\\n\\n'", 0, "  lead\n\n"),
    ("# only a comment", 0, ""),
    ("echo '---exit 0---'; sleep 0.1; echo real", 0, "---exit 0---\nreal\n"),
    ("cat; python3 -; echo $?", 0, "0\n"),
    ("cat <<'EOF' > f\nit's $HOME\nbg\nEOF\ncat f", 0, "it's $HOME\nbg\n"),
    ("cat <<EOF\nhi\n EOF", 0, "hi\n EOF\n"),
    ('echo "unclosed', 2, ""),
    ("exit 3", 3, ""),
    ("exit 126", 126, ""),
    ("exit 300", 44, ""),
    ("no-such-program", 127, ""),
    ("read -p pw: x </dev/tty", 1, ""),
    ("PAGER= man no-such-page; git --no-pager version | cut -c1-3", 0, "git\n"),
    ("exec 1>&-; echo gone", 1, ""),
    ("set -u; echo $NOPE; echo on", 127, ""),
    ("PS1='(x) $ '; echo ok", 0, "ok\n"),
    ("printf 'a\\xff\\xfeb\\x00c\\xe2\\x82'; exit 5", 5, "a\ufffd\ufffdb\ufffdc\ufffd"),
    ("printf '\\xe4'; echo tail", 0, "\ufffdtail\n"),
    ("echo '<|im_end|>'", 0, "<|im_end|>\n"),
)


@pytest.mark.parametrize(("command", "code", "stdout"), EXACT)
async def test_what_a_command_prints_and_how_it_ends_is_exact(hands: Any, command: str, code: int, stdout: str) -> None:
    found = await hands.shell(command)
    assert (found["outcome"], found["exit_code"], found["stdout"]) == ("exited", code, stdout)
    assert (await hands.shell("echo next"))["stdout"] == "next\n"


async def test_a_signal_and_a_limit_are_told_apart(hands: Any) -> None:
    found = await hands.shell("kill -TERM $$; sleep 9", timeout_s=5)
    assert (found["outcome"], found["exit_code"], "signal" in found["note"]) == ("killed", 143, True)
    command = "trap '' TERM; echo on; while true; do echo .; sleep 0.2; done"
    result, _ = await hands.call("shell", command=command, timeout_s=1)
    assert (result.status, result.content["stdout"][:3], "in the background" in result.message) == (Status.TIMEOUT, "on\n", True)


async def test_a_command_without_memory_says_so_and_the_next_one_runs(hands: Any) -> None:
    result, _ = await hands.call("shell", command="python3 -c \"x = 'a' * 10**10\"; exit 7")
    assert result.content["exit_code"] == 7
    result, _ = await hands.call("shell", command="exec python3 -c \"x = bytearray(1 << 30); x[::4096] = b'a' * (1 << 18)\"")
    assert (result.content["outcome"], bool(result.inexact)) == ("out_of_memory", True)
    assert (await hands.shell("echo on"))["stdout"] == "on\n"


async def test_long_output_is_kept_whole_and_read_by_parts(hands: Any) -> None:
    found = await hands.shell("seq 1 50000; seq 1 9000 >&2")
    assert found["cut_from_bytes"] == {"stdout": 288_894, "stderr": 43_893}
    page = await hands.content("read_file", path=found["kept_in"]["stdout"], line=25_000, lines=2)
    assert (page["text"], page["total_lines"]) == ("25000\n25001\n", 50_000)
    assert (await hands.shell(f"wc -l < {found['kept_in']['stderr']}"))["stdout"] == "9000\n"
    assert "kept_in" not in await hands.shell("seq 1 3000")


async def test_output_too_long_to_keep_says_what_is_left_out(hands: Any) -> None:
    found = await hands.shell("head -c 300M /dev/zero | tr '\\0' x; echo END")
    kept = await hands.bytes_of(found["kept_in"]["stdout"].replace("/tmp", "../tmp"))
    assert (len(kept) < (1 << 20) + 100, kept[-5:], b"of 314572804 bytes left out" in kept) == (True, b"xEND\n", True)


async def test_the_same_output_has_one_file_and_the_oldest_are_emptied(hands: Any) -> None:
    files = [(await hands.shell(f"seq {number} 9000"))["kept_in"]["stdout"] for number in (1, 1, *range(2, 10))]
    assert (files[0] == files[1], len(set(files))) == (True, 9)
    sizes = (await hands.shell(f"wc -c {' '.join(files[1:])} | awk '{{print $1}}'"))["stdout"].split()
    assert (int(sizes[0]) < 100, all(int(size) > 40_000 for size in sizes[1:])) == (True, True)
    assert hands.world.memory.notes["shell/kept"] == files[2:]


async def test_what_cannot_be_kept_is_said(hands: Any) -> None:
    found = await hands.shell("head -c 70M /dev/zero > fill; seq 1 50000")
    assert ("kept_in" in found, "could not be kept" in found["note"]) == (False, True)


async def test_the_log_has_the_bytes_that_were_shown_of_long_output(hands: Any) -> None:
    _, event = await hands.call("shell", command="seq 1 50000")
    data = base64.b64decode(event.attachments["stdout"])
    assert (len(data), data[:4], data[-6:]) == (16 * 1024, b"1\n2\n", b"50000\n")


async def test_a_program_of_a_call_is_gone_before_the_next(hands: Any) -> None:
    found = await hands.shell("echo a > /tmp/keep; setsid nohup sleep 77 >/dev/null 2>&1 & disown; echo on")
    assert (found["stdout"], "Background" in found["note"]) == ("on\n", True)
    assert (await hands.shell("pgrep -c sleep; cat /tmp/keep"))["stdout"] == "0\na\n"
