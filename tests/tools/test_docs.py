from pathlib import Path

from pydantic import Field

from wardian.tools.contract import Arguments, Json, Source, Tool, ToolContext
from wardian.tools.encoding import RESULT_CAP_CHARS
from wardian.tools.faults import PROFILES, Fault
from wardian.tools.loading import Kind
from wardian.tools.packs.files import file_tools
from wardian.tools.packs.shell import SHELL
from wardian.tools.packs.waiting import WAIT
from wardian.tools.packs.writing import execute_tool
from wardian.tools.registry import describe
from wardian.tools.schemas import mcp_schema

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()


class Look(Arguments):
    item: int | None = Field(default=None, description="One | of them")


async def look(context: ToolContext, arguments: Look) -> Json:
    """Give nothing."""


def test_the_page_names_every_fault_profile_and_refusal() -> None:
    words = [fault.value for fault in Fault] + list(PROFILES) + [kind.value for kind in Kind if kind is not Kind.NO_TOOL_CALL]
    assert [word for word in words if f"`{word}`" not in PAGE] == []
    assert f"{RESULT_CAP_CHARS:,} characters" in PAGE


def test_the_page_names_every_tool_of_the_packs() -> None:
    assert [tool.name for tool in (*file_tools(), SHELL, WAIT, execute_tool()) if f"`{tool.name}`" not in PAGE] == []


def test_documentation_comes_from_the_contract() -> None:
    text = describe([Tool("look", "Look.", Look, look, source=Source.REPLICA, empty_page=[])])
    row = (
        "| `look` v1 | Look. | replica | no | none | not_found | empty, rate_limited, slow, stale, timeout_before, unavailable | 20-80 ms |"
    )
    assert row in text.splitlines()
    assert "| `item` | integer or null | no | One \\| of them |" in text.splitlines()


def test_notices_name_only_tools_that_are_there() -> None:
    without = [mcp_schema(tool)["description"] for tool in file_tools(with_shell=False)]
    assert not any("shell" in text for text in without)
