"""Fault profiles of one's own: what a file may say, what it extends, and how its mistakes are told."""

import json
from pathlib import Path

import pytest

from wardian.tools.contract import Arguments, Tool, ToolContext
from wardian.tools.errors import ToolMisdeclared
from wardian.tools.faults import HARSH, MILD, NONE, PROFILES, REALISTIC, Fault, FaultProfile, load_profile
from wardian.tools.packs.shell import SHELL


async def refund(context: ToolContext, arguments: Arguments) -> None:
    pass


class Keyed(Arguments):
    key: str | None = None


TOOLS = (Tool("issue_refund", "Pay back.", Keyed, refund, mutates=True, idempotent=False, idempotency_key="key"), SHELL)
GOOD = """
extends = "realistic"   # the rest
slow = 0.05
max_total = 20

[tools.issue_refund]
timeout_after = 0.2
duplicate = 0.1

[tools.shell]
slow = 0
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_file_says_what_differs(tmp_path: Path) -> None:
    found = load_profile(write(tmp_path, GOOD), TOOLS)
    assert (found.name, found.slow, found.max_total, found.stale) == ("mine", 0.05, 20, REALISTIC.stale)
    assert (found.rate(Fault.TIMEOUT_AFTER, "issue_refund"), found.rate(Fault.TIMEOUT_AFTER, "shell")) == (0.2, REALISTIC.timeout_after)
    assert (found.rate(Fault.SLOW, "shell"), found.rate(Fault.SLOW, "issue_refund"), found.rate(Fault.SLOW)) == (0.0, 0.05, 0.05)


def test_without_extends_everything_begins_at_none(tmp_path: Path) -> None:
    found = load_profile(write(tmp_path, 'name = "x"\nstale = 1'))
    assert found == FaultProfile(name="x", stale=1.0)
    assert load_profile(write(tmp_path, "")) == NONE.model_copy(update={"name": "mine"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("slow = 2", ":1: slow: must be at most 1, got 2"),
        ('\nslow = "often"', ":2: slow: must be a number, got 'often'"),
        ("\n\nslwo = 0.1", ":3: slwo: there is no such field; did you mean slow?"),
        ('extends = "hrash"', ":1: extends: there is no profile 'hrash' to extend; there are none, mild, realistic, harsh"),
        ("[tools.shell]\nslow = 0.1\nslw = 1", ":3: tools.shell.slw: there is no such fault; did you mean slow?"),
        ("[tools.shell]\n'slow' = 1.5", ":2: tools.shell.slow: must be at most 1, got 1.5"),
        ("tools.shell.slow = -1", ":1: tools.shell.slow: must be at least 0, got -1"),
        ("[tools]\n[ tools . shel ] # x\nslow = 1", ":2: tools.shel: the world has no tool 'shel'; did you mean shell?"),
        ("[tools]\nshell = { slow = 7 }", ":2: tools.shell.slow: must be at most 1, got 7"),
        (
            "slow = 0.6\nstale = 0.6",
            ":2: rates: the chances of the profile 'mine' are of one draw, so their sum must be at most 1, got 1.2 (stale 0.6, slow 0.6)",
        ),
        (
            "slow = 0.6\n[tools.shell]\nunavailable = 0.6",
            ":2: tools.shell: the chances of the tool 'shell' in the profile 'mine' are of one draw, so their sum must be at most 1",
        ),
        ("slow = 0.6\ntools.shell.unavailable = 0.6", ":2: tools.shell: the chances of the tool 'shell' in the profile 'mine'"),
        (
            'slow = 0.1\nname = "harsh"',
            ":2: name: 'harsh' is the name of a shipped profile; write another one, such as name = \"my-harsh\"",
        ),
        ("[tools.shell]\nstale = 0.1", ":2: tools.shell.stale: this fault can never hit shell, by the tool's contract; those that can: un"),
        ("[tools.issue_refund]\nempty = 0.1", ":2: tools.issue_refund.empty: this fault can never hit issue_refund"),
        ("[tools.issue_refund]\nlagging = 0.1", ":2: tools.issue_refund.lagging: this fault can never hit issue_refund"),
        ("lag_min_ms = 90000", ":1: lag_min_ms: 90000 is above lag_max_ms, 60000"),
        ("max_consecutive = 9", ":1: max_consecutive: must be at most 5, got 9"),
        ("slow = ", "mine.toml is no TOML: Invalid value (at end of document)"),
        ("slow = 1\nslow = 1", "mine.toml is no TOML: Cannot overwrite a value (at "),
        ("tools = 3", ":1: tools: must be a table, got 3"),
    ],
)
def test_a_mistake_is_told_with_line_and_field(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ToolMisdeclared) as caught:
        load_profile(write(tmp_path, text), TOOLS)
    assert told in str(caught.value)


def test_a_file_called_as_a_shipped_profile_needs_another_name(tmp_path: Path) -> None:
    path = tmp_path / "mild.toml"
    path.write_text("slow = 0.1")
    with pytest.raises(ToolMisdeclared, match=r"mild.toml: name: 'mild', as the file is called, is the name of a shipped profile"):
        load_profile(path, TOOLS)
    path.write_text('name = "calm"')
    assert load_profile(path, TOOLS).name == "calm"


def test_a_fault_that_cannot_hit_a_tool_may_have_the_chance_0(tmp_path: Path) -> None:
    assert load_profile(write(tmp_path, "[tools.shell]\nstale = 0"), TOOLS).tools == {"shell": {"stale": 0.0}}


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ToolMisdeclared) as caught:
        load_profile(write(tmp_path, "slow = 2\nstale = 3"))
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == ["stale", "slow"]
    with pytest.raises(ToolMisdeclared) as caught:
        load_profile(write(tmp_path, 'extends = "hrash"\nslow = 2\nslwo = 1\n[tools.shell]\nslw = 3\nstale = 7'), TOOLS)
    told = [line.split(": ")[1] for line in str(caught.value).splitlines()]
    assert told == ["extends", "tools.shell.slw", "tools.shell.stale", "slwo", "slow"], "each once"


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolMisdeclared, match=r"nowhere.toml cannot be read: No such file"):
        load_profile(tmp_path / "nowhere.toml")


def test_a_profile_goes_whole_through_a_record(tmp_path: Path) -> None:
    found = load_profile(write(tmp_path, GOOD))
    again = FaultProfile.model_validate(json.loads(json.dumps(found.model_dump())))
    assert (again, again.hash) == (found, found.hash)
    assert len({profile.hash for profile in (*PROFILES.values(), found)}) == 5


def test_a_profile_with_chances_for_one_tool_only_has_faults() -> None:
    found = FaultProfile(name="x", tools={"shell": {"slow": 0.5}})
    assert (found.ever(), found.ever(Fault.SLOW), found.ever(Fault.STALE), NONE.ever(), MILD.ever()) == (True, True, False, False, True)


def test_the_place_of_a_draw_is_the_tools_own() -> None:
    found = FaultProfile(name="x", unavailable=0.5, tools={"shell": {"unavailable": 0.0, "slow": 0.5}})
    assert (found.draw(0.4), found.draw(0.4, "shell"), found.draw(0.6, "shell")) == (Fault.UNAVAILABLE, Fault.SLOW, None)
    assert HARSH.draw(0.0, "shell") is Fault.UNAVAILABLE
