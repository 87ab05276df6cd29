"""The page on OpenEnv: its files are written and its commands run, with openenv's own."""

import re
import sys
from pathlib import Path

from ..pages import walk
from ..serving import WARDIAN

BIN = Path(sys.executable).parent


def test_its_commands_run_as_they_stand(tmp_path: Path) -> None:
    said = walk("openenv.md", tmp_path, {"wardian": Path(WARDIAN), "python": BIN / "python", "openenv": BIN / "openenv"})
    assert re.search(r"^-?\d\.\d+ (accepted|steps) -?\d\.\d+$", said["python play.py"], re.MULTILINE)
    assert said["python tools.py"].startswith("['ask_model', 'escalate']\n{'status': 'ok'")
    for command in ("openenv validate --url http://127.0.0.1:8900", "openenv validate examples/openenv --level static"):
        assert said[command].splitlines()[-1] == "Verdict: PASS"
