"""The page on MCP: its files are written and its commands run."""

import json
import re
import sys
from pathlib import Path

from typer.main import get_command

from wardian.cli import build_app
from wardian.rollouts.records import EpisodeEnd
from wardian.rollouts.trajectory import TrajectoryLog

from .pages import BLOCK, TOP, walk

BIN = Path(sys.executable).parent
PAGE = (TOP / "docs" / "trainers" / "mcp.md").read_text()


def test_its_commands_run_as_they_stand(tmp_path: Path) -> None:
    said = walk("mcp.md", tmp_path, {"wardian": BIN / "wardian", "python": BIN / "python"})
    assert "['ask_model', 'escalate', 'send_message', 'read_task']" in said["python agent.py"]
    assert re.search(r"The episode is over \((accepted|message)\)\. Stop\.\n$", said["python agent.py"])
    assert "identical 1/1" in said["wardian replay runs/agents"]
    log = TrajectoryLog.open(tmp_path / "runs" / "agents")
    (end,) = [log.last_end(name) for name in log.ends]
    assert isinstance(end, EpisodeEnd)
    assert end.policy == "mcp"
    assert re.fullmatch(r"(accepted True|steps False) -?\d\.\d+ None\n", said["python trainer.py"])


def test_it_names_options_that_there_are_and_all_of_them() -> None:
    (text,) = [text for kind, text in BLOCK.findall(PAGE) if kind == "json"]
    server = json.loads(text)["mcpServers"]["wardian"]
    known = {option for one in get_command(build_app()).commands["mcp"].params for option in one.opts if option.startswith("--")}  # type: ignore[attr-defined]
    used = {word for word in server["args"] if word.startswith("--")}
    assert (server["command"], server["args"][0], used - known) == ("wardian", "mcp", set())
    assert known - {"--db-url"} == used | {found for found in re.findall(r"`(--[a-z-]+)`", PAGE) if found in known}
