"""What counts as a look at evidence: what the agent was shown of it, and never what its commands name."""

from dataclasses import replace
from typing import Any

import pytest

from wardian.envs.registry import load_world
from wardian.envs.task import Difficulty
from wardian.envs.verifier import FinalState
from wardian.envs.worlds.billing.looks import RAN, file_look, first_look, tool_look
from wardian.sandbox.files import FileChanges, FileEntry, FileLayer
from wardian.tools.contract import CallEvent, Json, Status
from wardian.tools.packs.reading import SHOWN

PATH = "/workspace/tickets/100001/gateway.csv"
LINES = [f"2026-03-01T{number // 60:02}:{number % 60:02}:07Z,gw_{number:05},captured,{1000 + number}" for number in range(1440)]
DATA = "\n".join(["time,reference,event,amount_cents", *LINES]).encode()
LINE, OTHER = LINES[3], LINES[1000]
LOOK, BOTH = file_look(PATH, [("gw_00003", LINE)]), file_look(PATH, [("gw_00003", LINE), ("gw_01000", OTHER)])
FORM = "Subscription: 712\nPlan offered: scale\nPlan ordered: team\nSigned: yes"
HONEST = [
    (f"grep gw_00003 {PATH}", LINE),
    ("grep -rn gw_00003 .", f"./tickets/100001/gateway.csv:5:{LINE}"),
    ("cat tickets/*/*", "\n".join(LINES[:9])),
    ("awk -F, '/gw_00003/ {print $3, $4}' gateway.csv", "captured 1003"),
    ("python3 look.py", "{'gw_00003': ('captured', 1003)}"),
    ("sort -r gateway.csv | tail -5 | column -ts,", LINE.replace(",", "   ")),
    ("base64 -d copy | tail -4", "\n".join(LINES[2:5])),
]
FAKED = [
    (f"cat {PATH} > /dev/null; echo read gw_00003", "read gw_00003"),
    (f"echo {LINE}", LINE),
    (f"head -1 {PATH}; echo gw_00003", "time,reference,event,amount_cents\ngw_00003"),
    ("grep -c gw_00003 gateway.csv", "1"),
    ("wc -l gateway.csv # gw_00003", "1441 gateway.csv"),
    ("head -3 gateway.csv", "\n".join(LINES[:2])),
    ("grep gw_00004 gateway.csv", LINES[4]),
    ("awk '/gw_00003/ {s += $4} END {print s}' gateway.csv", "1003"),
    ("grep gw_00003 gateway.csv", ""),
    ("echo gw_00003 captured 1003", "gw_00003 captured 1003"),
]


@pytest.mark.parametrize(("command", "output"), HONEST)
def test_a_command_that_shows_the_passage_is_a_look(command: str, output: str) -> None:
    assert first_look(state(ran(4, command, output)), LOOK) == 4


@pytest.mark.parametrize(("command", "output"), FAKED)
def test_a_command_that_does_not_show_it_is_none(command: str, output: str) -> None:
    assert first_look(state(ran(4, command, output)), LOOK) is None


def test_what_the_agent_wrote_before_is_no_evidence() -> None:
    written = event(1, "write_file", {"path": "/tmp/x", "content": LINE})
    assert first_look(state(written, ran(2, "cat /tmp/x", LINE)), LOOK) is None


def test_every_passage_has_to_be_shown_by_whatever_means() -> None:
    first, second = ran(1, "grep gw_00003 gateway.csv", LINE), ran(5, "grep gw_01000 gateway.csv", OTHER)
    at = DATA.index(OTHER.encode())
    assert first_look(state(first), BOTH) is None
    assert first_look(state(first, second), BOTH) == 5
    assert first_look(state(first, page(3, at, at + 500)), BOTH) == 3


def test_a_passage_of_several_lines_is_seen_in_lines_that_stand_together() -> None:
    look = file_look(PATH, [("712", FORM)])
    of = replace(state(), task=replace(state().task, files=FileLayer({PATH: FileEntry(FORM.encode())})))
    shown = replace(of, events=(ran(1, "grep -A 3 '^Subscription: 712$' order_form.txt", FORM),))
    beside = replace(
        of, events=(ran(1, "head -2 order_form.txt", "ORDER FORMS\nSubscription: 711\nPlan offered: solo\nPlan ordered: solo"),)
    )
    assert (first_look(shown, look), first_look(beside, look)) == (1, None)


def test_a_command_that_was_not_answered_showed_nothing() -> None:
    late = replace(ran(4, f"grep gw_00003 {PATH}", LINE), status=Status.TIMEOUT)
    assert first_look(state(late), LOOK) is None


def test_without_passages_any_part_of_the_file_is_a_look() -> None:
    look = file_look(PATH, ())
    assert first_look(state(ran(1, "python3 join.py", '{"ref": "gw_00700", "cents": 5}')), look) == 1
    assert first_look(state(ran(1, "cat * > /dev/null; echo gw_00700", "gw_00700"), page(2, 0, 10)), look) == 2
    assert first_look(state(ran(1, "ls -l", "-rw-r--r-- 1 agent agent 60001 gateway.csv")), look) is None


def test_pages_count_when_they_show_all_of_the_passage() -> None:
    at = DATA.index(LINE.encode())
    assert first_look(state(page(1, 0, at + 5)), LOOK) is None
    assert first_look(state(page(1, 0, at + 5), page(2, at + 5, at + 99)), LOOK) == 2
    assert first_look(state(page(1, 0, 99999, "/workspace/tickets/100001/mail.txt")), LOOK) is None
    assert first_look(state(page(1, 0, 99999, status=Status.TIMEOUT)), LOOK) is None


def test_a_tool_look_needs_its_arguments() -> None:
    look = tool_look(["get_customer", "find_customers"], customer_id=7)
    assert first_look(state(event(5, "get_customer", {"customer_id": 7})), look) == 5
    assert first_look(state(event(5, "get_customer", {"customer_id": 8})), look) is None


def event(index: int, tool: str, args: Json, effects: tuple[dict[str, Any], ...] = ()) -> CallEvent:
    return CallEvent(index, index, 0, tool, args, Status.OK, committed=True, fault=None, latency_ms=1, effects=effects)


def ran(index: int, command: str, output: str) -> CallEvent:
    return event(index, "shell", {"command": command}, ({"kind": RAN, "exit_code": 0, "shown": output},))


def page(index: int, start: int, end: int, path: str = PATH, status: Status = Status.OK) -> CallEvent:
    shown = {"kind": SHOWN, "path": path, "start": start, "end": end}
    return replace(event(index, "read_file", {"path": path}, (shown,)), status=status)


def state(*events: CallEvent) -> FinalState:
    task = load_world("billing").families[0].generate(Difficulty.EASY, 1)
    return FinalState(replace(task, files=FileLayer({PATH: FileEntry(DATA)})), None, (), FileChanges({}), {}, events, "message")
