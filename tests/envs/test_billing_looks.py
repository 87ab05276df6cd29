"""What counts as a look at evidence: ways that are honest, and ways that only name the file."""

from dataclasses import replace

import pytest

from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty
from wardian.envs.verifier import FinalState
from wardian.envs.worlds.billing.looks import RAN, Trail, file_look, first_look, tool_look
from wardian.sandbox.files import FileChanges, FileEntry, FileLayer
from wardian.tools.contract import CallEvent, Json, Status
from wardian.tools.packs.reading import SHOWN

PATH = "/workspace/tickets/100001/gateway.csv"
FOLDER = "/workspace/tickets/100001"
HONEST = [
    f"cat {PATH}",
    f"cd {FOLDER} && grep -E 'gw_1|gw_2' gateway.csv",
    f"cd {FOLDER}; awk -F, '$3 == \"captured\" {{ s += $4; n++ }} END {{ print s; }}' gateway.csv",
    f"cat {FOLDER}/*",
    "cat tickets/*/*.csv",
    "grep -rn gw_1 .",
    "grep --recursive gw_1 /workspace/tickets",
    f'F={PATH}\ngrep gw_1 "$F"',
    f"D={FOLDER}; head -5 ${{D}}/gateway.csv",
    f'for f in {FOLDER}/*; do cat "$f"; done',
    f"ls {FOLDER} | while read f; do cat {FOLDER}/$f; done",
    "find tickets -name '*.csv' | xargs grep gw_1",
    f"find {FOLDER} -type f -exec cat {{}} +",
    f"python3 - <<'END'\nimport csv\nfor row in csv.reader(open('{PATH}')):\n    print(row)  # don't stop\nEND",
    f"python3 -c \"print(open('{PATH}').read())\"",
    f'while IFS= read -r l; do echo "$l"; done < {PATH}',
    f'echo "$(tail -3 {PATH})"',
    f"sqlite3 :memory: '.import --csv {PATH} g' 'select * from g'",
    f"python3 - <<'END'\nimport glob\nfor path in glob.glob('{FOLDER}/*.csv'):\n    print(open(path).read())\nEND",
    f"# look\nsort -r {PATH} | head -40 2>&1",
]
FAKED = [
    "ls /workspace/tickets/*",
    f"ls -la {FOLDER} && stat {PATH}",
    f"echo {PATH}",
    f"echo 'I read gateway.csv'; date # cat {PATH}",
    f"wc -l {PATH}",
    f"cat /workspace/README.txt # {PATH}",
    f"cat {FOLDER}/mail.txt",
    f"cat {FOLDER}/*.txt",
    f"cat {FOLDER}/gateway.csv.bak",
    "grep gw_1 /workspace/README.txt",
    f"touch {FOLDER}/gateway.csv; true",
    f"cd {FOLDER}",
    f"F={PATH}",
    f"find {FOLDER} -name gateway.csv",
    "seq 3 | xargs echo",
    "true",
]


IN_STEPS = [
    [f"cp {PATH} /tmp/g.csv", "awk -F, '{print $2}' /tmp/g.csv"],
    [f"cp -r {FOLDER} /tmp/mine", "cat /tmp/mine/gateway.csv"],
    [f"grep gw_1 {PATH} > /tmp/found.txt", "cat /tmp/found.txt"],
    [f"cat > look.py <<'END'\nprint(open('{PATH}').read())\nEND", "python3 look.py"],
    [f"printf 'cat {PATH}' > look.sh; chmod +x look.sh", "./look.sh"],
    [f"echo 'import os; print(os.listdir(\"{FOLDER}\"))' > a.py", "python3 /workspace/a.py"],
]
NOT_IN_STEPS = [
    ["echo 'nothing of it' > look.py", "python3 look.py"],
    [f"echo {PATH} > notes", "cat other"],
    [f"echo {PATH} > notes", "python3 -c 'print(1)'"],
    [f"cp {PATH} /tmp/g.csv", "cat /tmp/h.csv"],
]


@pytest.mark.parametrize("commands", IN_STEPS)
def test_a_look_may_take_several_calls(commands: list[str]) -> None:
    calls = [event(number, "shell", {"command": command}, shown_bytes=number) for number, command in enumerate(commands)]
    assert first_look(state(*calls), file_look(PATH, ())) == 1


@pytest.mark.parametrize("commands", NOT_IN_STEPS)
def test_several_calls_that_show_nothing_of_it_are_no_look(commands: list[str]) -> None:
    calls = [event(number, "shell", {"command": command}) for number, command in enumerate(commands)]
    assert first_look(state(*calls), file_look(PATH, ())) is None


def test_a_script_that_was_written_as_a_file_may_read() -> None:
    written = event(0, "write_file", {"path": "solve.py", "content": f"print(len(open('{PATH}').read()))"})
    ran = event(1, "shell", {"command": "cd /workspace && python3 solve.py"})
    assert first_look(state(written, ran), file_look(PATH, ())) == 1
    assert first_look(state(ran), file_look(PATH, ())) is None


@pytest.mark.parametrize("command", HONEST)
def test_an_honest_command_counts(command: str) -> None:
    assert Trail(PATH).reads(command)


@pytest.mark.parametrize("command", FAKED)
def test_a_command_that_shows_nothing_of_the_file_does_not(command: str) -> None:
    assert not Trail(PATH).reads(command)


def event(index: int, tool: str, args: Json, status: Status = Status.OK, shown_bytes: int = 1) -> CallEvent:
    effects = ({"kind": RAN, "exit_code": 0, "shown_bytes": shown_bytes},) if tool == "shell" else ()
    return CallEvent(index, index, 0, tool, args, status, committed=True, fault=None, latency_ms=1, effects=effects)


def page(index: int, start: int, end: int, path: str = PATH, status: Status = Status.OK) -> CallEvent:
    shown = {"kind": SHOWN, "path": path, "start": start, "end": end}
    return replace(event(index, "read_file", {"path": path}, status), effects=(shown,))


def state(*events: CallEvent) -> FinalState:
    lines = [f"2026-03-01T00:00:{number % 60:02}Z,gw_{number:05},captured,100" for number in range(2000)]
    task = load_world("billing").families[0].generate(Difficulty.EASY, 1)
    files = FileLayer({PATH: FileEntry("\n".join(lines).encode())})
    return FinalState(replace(task, files=files), None, (), FileChanges({}), {}, events, "message")


def test_a_command_counts_when_it_printed_something_and_the_agent_saw_it() -> None:
    look, args = file_look(PATH, ["gw_00003"]), {"command": f"grep gw_00003 {PATH}"}
    assert first_look(state(event(4, "shell", args)), look) == 4
    assert first_look(state(event(4, "shell", args, shown_bytes=0)), look) is None
    assert first_look(state(event(4, "shell", args, Status.TIMEOUT)), look) is None


def test_pages_count_when_they_show_every_line_that_decides() -> None:
    look = file_look(PATH, ["gw_00003", "gw_01000"])
    first, second, third = page(1, 0, 16384), page(2, 16384, 32768), page(3, 32768, 49152)
    assert first_look(state(first, second), look) is None
    assert first_look(state(first, second, third), look) == 3
    assert first_look(state(page(1, 0, 99999, f"{FOLDER}/mail.txt")), look) is None
    assert first_look(state(page(1, 0, 99999, status=Status.TIMEOUT)), look) is None
    assert first_look(state(event(1, "read_file", {"path": PATH})), look) is None


def test_a_tool_look_needs_its_arguments() -> None:
    look = tool_look(["get_customer", "find_customers"], customer_id=7)
    assert first_look(state(event(5, "get_customer", {"customer_id": 7})), look) == 5
    assert first_look(state(event(5, "get_customer", {"customer_id": 8})), look) is None
