"""Each adapter's folder of tests runs in that trainer's environment only (see `test_environments.py`)."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
HERE_RUNS = Path(sys.prefix).name
"""An environment is named as its folder."""

collect_ignore = [folder.name for folder in HERE.iterdir() if folder.is_dir() and folder.name != HERE_RUNS]
