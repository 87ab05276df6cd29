"""Output: exact bytes, cut at the source, counted whole."""

import pytest

from wardian.sandbox.cell import Cell, Command, ExecOutcome
from wardian.sandbox.contract.base import CellSuite, peak_memory_mib, printed, run


@pytest.mark.anyio
class OutputContract(CellSuite):
    @pytest.mark.parametrize(
        ("script", "expected"),
        [
            (r"printf 'a\xff\xfeb\x00c\xe2\x82'", b"a\xff\xfeb\x00c\xe2\x82"),
            (r"printf '\xe4'; echo tail", b"\xe4tail\n"),
            ("printf abc", b"abc"),
            ("printf '  lead'", b"  lead"),
            ("# only a comment", b""),
            ("", b""),
            ("printf 'a 1%%\\ra 99%%\\r\\x1b[?25l\\x1b[2Kdone\\n'", b"a 1%\ra 99%\r\x1b[?25l\x1b[2Kdone\n"),
            ("printf '\\r\\n\\r'", b"\r\n\r"),
        ],
    )
    async def test_bytes_arrive_as_they_are(self, cell: Cell, script: str, expected: bytes) -> None:
        result = await run(cell, script)
        assert (result.stdout.data, result.stdout.total_bytes) == (expected, len(expected))

    async def test_the_two_streams_are_apart(self, cell: Cell) -> None:
        result = await run(cell, "echo out; echo err >&2")
        assert (result.stdout.data, result.stderr.data) == (b"out\n", b"err\n")

    async def test_silence_is_empty_and_not_nothing(self, cell: Cell) -> None:
        result = await run(cell, "true")
        assert (result.stdout.data, result.stderr.data, result.stdout.truncated) == (b"", b"", False)

    async def test_a_script_is_data(self, cell: Cell) -> None:
        script = "cat <<'EOF' > f\nit's $HOME\nbg\nEOF\ncat f"
        assert await printed(cell, script) == "it's $HOME\nbg\n"
        assert await printed(cell, "cat f; echo '} ; ) \" `x`'") == "it's $HOME\nbg\n} ; ) \" `x`\n"

    async def test_a_long_script_is_data_as_well(self, cell: Cell) -> None:
        body = "".join(f"# line {number} of a comment that is there to be long\n" for number in range(20_000))
        assert await printed(cell, f"{body}echo end; cat; echo $#") == "end\n0\n"

    async def test_both_ends_are_kept_and_the_true_size(self, cell: Cell) -> None:
        whole = "".join(f"{number}\n" for number in range(1, 100_001)).encode()
        result = await cell.exec(Command(argv=("seq", "100000"), output_cap_bytes=1000))
        assert result.stdout.truncated
        assert result.stdout.total_bytes == len(whole)
        assert (result.stdout.head, result.stdout.tail) == (whole[:500], whole[-500:])

    async def test_output_at_the_cap_is_whole(self, cell: Cell) -> None:
        result = await cell.exec(Command(script="head -c 1000 /dev/zero", output_cap_bytes=1000))
        assert (result.stdout.data, result.stdout.truncated) == (bytes(1000), False)

    async def test_a_flood_leaves_the_host_alone(self, cell: Cell) -> None:
        before = peak_memory_mib()
        result = await run(cell, "yes | head -c 300000000; yes | head -c 10000000 >&2", timeout_s=60)
        assert (result.outcome, result.exit_code) == (ExecOutcome.EXITED, 0)
        assert (result.stdout.total_bytes, result.stderr.total_bytes) == (300_000_000, 10_000_000)
        assert peak_memory_mib() - before < 32

    async def test_what_was_said_before_the_limit_is_kept(self, cell: Cell) -> None:
        result = await run(cell, "echo early; sleep 60", timeout_s=0.5)
        assert (result.outcome, result.stdout.data) == (ExecOutcome.TIMED_OUT, b"early\n")
