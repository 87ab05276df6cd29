"""`wardian template`: what it prints, and how it ends."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wardian.cli import build_app


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as raw:
        raw.executescript(
            "CREATE TABLE item (id INTEGER PRIMARY KEY, price NUMERIC, \"x\x1b[2J\" TEXT); INSERT INTO item VALUES (1, 0.5, 'a');"
            "CREATE TABLE kind (id INTEGER PRIMARY KEY, made DATETIME DEFAULT CURRENT_TIMESTAMP); PRAGMA user_version = 3;"
        )
    return tmp_path


def wardian(*arguments: object) -> Any:
    return CliRunner().invoke(build_app(), ["template", *map(str, arguments)])


def test_an_import_is_reported_listed_shown_and_removed(home: Path) -> None:
    done = wardian("import", home / "shop.sqlite", "--name", "shop")
    assert done.exit_code == 0, done.output
    for line in (
        "template shop is ready: 2 tables, 1 rows",
        "left out: setting user_version 3: agents cannot read it",
        "note: kind.made: default CURRENT_TIMESTAMP gives the world's time",
        "cannot agree with the other engine: item.price: NUMERIC is kept as a binary number",
        "can have equal fingerprints on both engines: kind",
    ):
        assert line in done.stdout
    assert wardian("show", "shop").stdout == done.stdout
    assert "shop" in wardian("list").stdout
    assert wardian("remove", "shop").stdout == "removed shop\n"
    assert "no templates yet" in wardian("list").stdout


def test_reports_come_as_json(home: Path) -> None:
    found = json.loads(wardian("import", home / "shop.sqlite", "--name", "shop", "--json").stdout)
    assert [table["name"] for table in found["report"]["tables"]] == ["item", "kind"]
    assert json.loads(wardian("show", "shop", "--json").stdout) == found
    assert json.loads(wardian("list", "--json").stdout)[0]["rows"] == 1
    assert [one["verdict"] for one in json.loads(wardian("compare", "shop", "shop", "--json").stdout)] == ["equal", "equal"]


def test_imports_that_differ_are_told_by_table(home: Path) -> None:
    wardian("import", home / "shop.sqlite", "--name", "one")
    with closing(sqlite3.connect(home / "shop.sqlite", isolation_level=None)) as raw:
        raw.execute("UPDATE item SET price = 0.75")
    wardian("import", home / "shop.sqlite", "--name", "two")
    done = wardian("compare", "one", "two")
    assert done.exit_code == 1
    assert "differs" in done.stdout
    assert "values of price" in done.stdout


@pytest.mark.parametrize(
    "arguments", [("show", "absent"), ("remove", "absent"), ("compare", "absent", "absent"), ("import", "absent", "--name", "x")]
)
def test_what_is_not_there_is_an_error(arguments: tuple[str, ...]) -> None:
    done = wardian(*arguments)
    assert done.exit_code == 2
    assert "absent" in done.stderr
    assert "Traceback" not in done.output
