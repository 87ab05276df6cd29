"""Somebody's SQLite database as a template: taken whole with its logs, described, kept atomically, or refused with the reason."""

import gzip
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import pytest
from sqlalchemy import text

from wardian.sandbox.database.base import WorldDatabase
from wardian.sandbox.database.choice import DatabaseChoice, DatabaseEngine, open_template
from wardian.sandbox.database.imports import ImportedDatabase, import_database, imported_names, open_import, remove_import
from wardian.sandbox.database.imports.report import Column, Table
from wardian.sandbox.errors import DatabaseProblem, ImportRefused, TemplateBroken

SHOP = """
CREATE TABLE Item (ItemId INTEGER PRIMARY KEY AUTOINCREMENT, Name NVARCHAR(40) NOT NULL COLLATE NOCASE, Price NUMERIC(10,2),
                   Sold BOOLEAN, Added DATETIME DEFAULT CURRENT_TIMESTAMP, Weight REAL, Photo BLOB, Loose);
CREATE TABLE Tag (ItemId INTEGER NOT NULL REFERENCES Item, Word TEXT NOT NULL, PRIMARY KEY (ItemId, Word));
CREATE INDEX ByWord ON Tag (Word);
CREATE VIEW Cheap AS SELECT ItemId, Name FROM Item WHERE Price < 2;
CREATE TRIGGER Tagged AFTER INSERT ON Tag BEGIN UPDATE Item SET Weight = Weight + 1 WHERE ItemId = NEW.ItemId; END;
INSERT INTO Item VALUES (1, 'nail', 0.99, 1, '2026-03-01 09:00:00', 0.5, x'00ff', 1),
  (7, 'saw', 12, NULL, '2026-03-02 10:30:00', 2, NULL, 'x');
INSERT INTO Tag VALUES (1, 'iron'), (7, 'iron');
PRAGMA user_version = 4;
"""


def shop(path: Path, mode: str = "DELETE") -> sqlite3.Connection:
    """The shop in a file; with WAL the connection must stay open, or SQLite empties the log."""
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute(f"PRAGMA journal_mode = {mode}")
    raw.executescript(SHOP)
    return raw


def take(source: str, name: str, *, replace: bool = False, directory: Path) -> ImportedDatabase:
    return anyio.run(partial(import_database, source, name, replace=replace, directory=directory))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "imports"


@pytest.fixture
def kept(tmp_path: Path, store: Path) -> ImportedDatabase:
    shop(tmp_path / "shop.sqlite").close()
    return take(str(tmp_path / "shop.sqlite"), "shop", directory=store)


def column(kept: ImportedDatabase, table: str, name: str) -> Column:
    return next(one for one in table_of(kept, table).columns if one.name == name)


def table_of(kept: ImportedDatabase, name: str) -> Table:
    return next(one for one in kept.report.tables if one.name == name)


def test_what_came_is_in_the_report(kept: ImportedDatabase) -> None:
    report = kept.report
    assert [(one.name, one.rows, one.key) for one in report.tables] == [("Item", 2, ("ItemId",)), ("Tag", 2, ("ItemId", "Word"))]
    assert (report.views, report.indexes, report.triggers, report.sequences) == (("Cheap",), ("ByWord",), ("Tagged",), ("Item",))
    assert [left.name for left in report.left_out] == ["user_version 4"]


def test_columns_that_cannot_agree_are_named(kept: ImportedDatabase) -> None:
    reasons = {one.name: one.cannot_agree for one in table_of(kept, "Item").columns}
    assert {name for name, reason in reasons.items() if reason} == {"Price", "Sold", "Loose"}
    assert table_of(kept, "Tag").can_agree
    assert not table_of(kept, "Item").can_agree
    notes = {note.where: note.text for note in kept.report.notes}
    assert "CURRENT_TIMESTAMP" in notes["Item.Added"]
    assert any("NOCASE" in note.text for note in kept.report.notes)


@pytest.mark.anyio
async def test_clones_are_the_database_with_its_views_and_triggers(kept: ImportedDatabase, store: Path) -> None:
    async with open_template(open_import("shop", store), DatabaseChoice()) as template:
        clone = template.clone()
        assert clone.query("SELECT * FROM Cheap").rows == ((1, "nail"),)
        with clone.transaction() as session:
            session.execute(text("INSERT INTO Tag VALUES (1, 'new')"))
        assert {change.table for change in clone.take_changes()} == {"Item", "Tag"}
        assert clone.fingerprint() == clone.recompute()
        clone.close()


def test_defaults_and_triggers_have_the_worlds_time(tmp_path: Path, store: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as raw:
        raw.executescript(TIMED)
    clone = take(str(tmp_path / "mine.sqlite"), "mine", directory=store).sqlite_template().clone()
    with pytest.raises(DatabaseProblem, match="the date functions need a time"), clone.transaction() as session:
        session.execute(text("INSERT INTO t (id) VALUES (1)"))
    clone.time = lambda: datetime(2031, 5, 6, 12, 0, 0, 250_000, tzinfo=UTC)
    with clone.transaction() as session:
        session.execute(text("INSERT INTO t (id) VALUES (1)"))
    assert clone.query("SELECT * FROM t").rows == ((1, "2031-05-06 12:00:00", "2031-05-07", "2031-05-06 12:00:00"),)
    assert clone.query("SELECT * FROM ages").rows == ((0,),)
    assert clone.query("SELECT CURRENT_TIME, unixepoch('now') - unixepoch(CURRENT_TIMESTAMP)").rows == (("12:00:00", 0),)
    assert clone.fingerprint() == clone.recompute()
    clone.close()


TIMED = """
CREATE TABLE t (id INTEGER PRIMARY KEY, made DATETIME DEFAULT CURRENT_TIMESTAMP,
                due DATE DEFAULT (date('now', 'localtime', '+1 day')), seen);
CREATE TRIGGER touched AFTER INSERT ON t BEGIN UPDATE t SET seen = datetime('now') WHERE id = NEW.id; END;
CREATE VIEW ages AS SELECT CAST(julianday('now') - julianday(made) AS INTEGER) FROM t;
"""


CIRCLE = """
CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT UNIQUE, made DATETIME, n INT DEFAULT 0);
CREATE TABLE u (id INTEGER PRIMARY KEY, t INT);
CREATE TRIGGER stamp AFTER UPDATE ON t BEGIN UPDATE "t" SET made = CURRENT_TIMESTAMP, n = n + 1 WHERE id = NEW.id; END;
CREATE TRIGGER there AFTER INSERT ON u BEGIN UPDATE t SET word = word || '!' WHERE id = NEW.t; END;
INSERT INTO t (id, word) VALUES (1, 'a'), (2, 'b');
"""


@pytest.mark.parametrize("default", ["hex(randomblob(4))", "random()", "(abs(random()) % 100)"])
def test_a_default_that_asks_for_chance_is_refused_whoever_writes(default: str, tmp_path: Path, store: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "r.db")) as raw:
        raw.execute(f"CREATE TABLE r (id INTEGER PRIMARY KEY, t DEFAULT ({default}))")
        raw.execute("INSERT INTO r VALUES (1, 'x')")
        raw.commit()
    kept = take(str(tmp_path / "r.db"), "r", directory=store)
    with closing(kept.sqlite_template().clone()) as clone:
        with pytest.raises(DatabaseProblem, match=r"random.* is not available; it has no fixed result"), clone.transaction() as session:
            clone.execute(session, "INSERT INTO r (id) VALUES (2)")
        with pytest.raises(DatabaseProblem, match=r"random.* is not available; it has no fixed result"), clone.transaction() as session:
            session.execute(text("INSERT INTO r (id) VALUES (2)"))
        with clone.transaction() as session:
            session.execute(text("INSERT INTO r VALUES (2, 'given')"))
        assert clone.recompute() == clone.fingerprint()


def test_triggers_that_lead_back_to_themselves_fire_once_as_in_sqlite(tmp_path: Path, store: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as raw:
        raw.executescript(CIRCLE)
    kept = take(str(tmp_path / "mine.sqlite"), "mine", directory=store)
    clone = kept.sqlite_template().clone()
    clone.time = lambda: datetime(2031, 5, 6, tzinfo=UTC)
    with clone.transaction() as session:
        session.execute(text("UPDATE t SET word = 'c' WHERE id = 1"))
        session.execute(text("INSERT INTO u (t) VALUES (2)"))
    assert clone.query("SELECT word, n FROM t").rows == (("c", 1), ("b!", 1))
    assert clone.fingerprint() == clone.recompute()
    for attempt in ("INSERT OR REPLACE INTO t (id, word) VALUES (3, 'c')", "replace into t (id, word) values (3, 'c')"):
        with pytest.raises(DatabaseProblem, match="REPLACE is refused"), clone.transaction() as session:
            session.execute(text(attempt))
        with pytest.raises(DatabaseProblem, match="REPLACE is refused"), clone.transaction() as session:
            clone.execute(session, attempt)
    assert clone.query("SELECT name FROM sqlite_master WHERE name LIKE 'wardian%'").rows == ()
    assert clone.fingerprint() == clone.recompute()
    clone.close()


def test_a_circle_with_replace_in_it_is_refused(tmp_path: Path, store: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as raw:
        raw.executescript(CIRCLE + "CREATE TABLE w (id INTEGER PRIMARY KEY, x TEXT UNIQUE ON CONFLICT REPLACE);")
    with pytest.raises(ImportRefused, match="w uses REPLACE"):
        take(str(tmp_path / "mine.sqlite"), "mine", directory=store)


def test_tables_without_a_key_are_followed_row_by_row(tmp_path: Path, store: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as raw:
        raw.executescript(
            "CREATE TABLE log (word TEXT, rowid INT); INSERT INTO log VALUES ('a', 1), ('a', 1), ('b', 2);"
            "CREATE TABLE seen (a TEXT NOT NULL, b TEXT NOT NULL, c TEXT, UNIQUE (b, a)); INSERT INTO seen VALUES ('x', 'y', 'z');"
        )
    kept = take(str(tmp_path / "mine.sqlite"), "mine", directory=store)
    assert [(table.key, table.number, table.can_agree) for table in kept.report.tables] == [((), "_rowid_", False), (("b", "a"), "", True)]
    clone = kept.sqlite_template().clone()
    with clone.transaction() as session:
        session.execute(text("DELETE FROM log WHERE _rowid_ = 2"))
        session.execute(text("INSERT INTO log VALUES ('a', 1), ('a', 1)"))
        session.execute(text("UPDATE seen SET c = 'w'"))
    changes = clone.take_changes()
    assert [(change.table, change.key, change.before is None) for change in changes] == [
        ("log", (2,), False),
        ("log", (4,), True),
        ("log", (5,), True),
        ("seen", ("y", "x"), False),
    ]
    assert clone.fingerprint() == clone.recompute()
    clone.close()


def test_ids_that_sqlite_counts_are_part_of_the_fingerprint(kept: ImportedDatabase) -> None:
    left, right = (kept.sqlite_template().clone() for _ in range(2))
    with left.transaction() as session:
        session.execute(text("INSERT INTO Item (Name, Added) VALUES ('gone', '2026-03-03')"))
    with left.transaction() as session:
        session.execute(text("DELETE FROM Item WHERE Name = 'gone'"))
    assert left.fingerprint().differences(right.fingerprint()) == ("(ids): " + changed(left, right),)
    assert left.recompute() == left.fingerprint()
    with left.transaction() as session:
        assert left.allocate_id(session, "Item") == 9
    left.close()
    right.close()


def changed(left: WorldDatabase, right: WorldDatabase) -> str:
    return f"expected {right.fingerprint().leaves['(ids)']}, found {left.fingerprint().leaves['(ids)']}"


@pytest.mark.anyio
async def test_an_import_runs_on_its_own_engine_only(kept: ImportedDatabase) -> None:
    with pytest.raises(ImportRefused, match="sqlite and cannot run on postgres"):
        async with open_template(kept, DatabaseChoice(DatabaseEngine.POSTGRES)):
            pass


def stamped(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in folder.iterdir() if one.is_file()}


def test_what_is_committed_in_the_log_comes_and_nothing_of_the_source_changes(tmp_path: Path, store: Path) -> None:
    path = tmp_path / "shop.sqlite"
    with closing(shop(path, "WAL")) as writer:
        writer.execute("BEGIN")
        writer.execute("INSERT INTO Tag VALUES (7, 'not committed')")
        before = stamped(tmp_path)
        assert len(before["shop.sqlite-wal"][0]) > 0
        kept = take(str(path), "shop", directory=store)
        assert stamped(tmp_path) == before
    assert [table.rows for table in kept.report.tables] == [2, 2]


def test_a_file_whose_log_was_left_behind_is_refused_as_that(tmp_path: Path, store: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "whole.db")) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("CREATE TABLE t (a)")
        (tmp_path / "alone.db").write_bytes((tmp_path / "whole.db").read_bytes())
    with pytest.raises(ImportRefused, match=r"alone\.db: empty, and it had a log \(.*alone\.db-wal\), which is not beside it"):
        take(str(tmp_path / "alone.db"), "alone", directory=store)


def test_an_engine_that_the_source_is_not_of_is_refused(tmp_path: Path, store: Path) -> None:
    shop(tmp_path / "shop.db").close()
    with pytest.raises(ImportRefused, match=r"engine: .*shop\.db is of sqlite, and no script"):
        anyio.run(partial(import_database, str(tmp_path / "shop.db"), "shop", engine="postgres", directory=store))


def test_a_transaction_that_was_broken_off_does_not_come(tmp_path: Path, store: Path) -> None:
    path, torn = tmp_path / "shop.sqlite", tmp_path / "torn.sqlite"
    with closing(shop(path)) as writer:
        writer.execute("PRAGMA cache_spill = 1")
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("BEGIN")
        writer.execute(
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 500)"
            " INSERT INTO Tag SELECT 1, hex(x) || hex(zeroblob(99)) FROM c"
        )
        for ending in ("", "-journal"):
            Path(f"{torn}{ending}").write_bytes(Path(f"{path}{ending}").read_bytes())
    kept = take(str(torn), "shop", directory=store)
    assert [table.rows for table in kept.report.tables] == [2, 2]


def test_a_name_that_is_taken_needs_replace(kept: ImportedDatabase, tmp_path: Path, store: Path) -> None:
    source = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(source, isolation_level=None)) as raw:
        raw.execute("DELETE FROM Tag")
    with pytest.raises(ImportRefused, match="--replace"):
        take(str(source), "shop", directory=store)
    assert table_of(open_import("shop", store), "Tag").rows == 2
    take(str(source), "shop", replace=True, directory=store)
    assert table_of(open_import("shop", store), "Tag").rows == 0
    assert imported_names(store) == ("shop",)


def test_an_import_is_removed_whole(kept: ImportedDatabase, store: Path) -> None:
    remove_import("shop", store)
    assert imported_names(store) == ()
    with pytest.raises(ImportRefused, match="there is no template 'shop'"):
        open_import("shop", store)
    with pytest.raises(ImportRefused, match="there is no template"):
        remove_import("shop", store)


def test_a_file_that_changed_in_the_store_is_noticed(kept: ImportedDatabase) -> None:
    artifact = kept.artifact()
    artifact.write_bytes(artifact.read_bytes()[:-1] + b"x")
    with pytest.raises(TemplateBroken, match="import it again"):
        kept.sqlite_template()


def test_a_pipe_is_no_database(tmp_path: Path, store: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ImportRefused, match="neither a file nor a folder"):
        take(str(tmp_path / "pipe"), "shop", directory=store)


@pytest.mark.parametrize("name", ["", "../x", "A", "-x", "a/b", "x" * 64, "a b", "ä"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path, store: Path) -> None:
    shop(tmp_path / "shop.sqlite").close()
    with pytest.raises(ImportRefused, match="name"):
        take(str(tmp_path / "shop.sqlite"), name, directory=store)


def patched(data: bytes, *changes: tuple[int, bytes]) -> bytes:
    found = bytearray(data)
    for place, new in changes:
        found[place : place + len(new)] = new
    return bytes(found)


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "empty"),
    "zeros": (lambda data: bytes(8192), "zeros"),
    "git-lfs": (lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git lfs pull"),
    "git-annex": (lambda data: b"/annex/objects/SHA256E-s9--00\n", "git annex get"),
    "a header alone": (lambda data: data[:16], "cut short"),
    "half": (lambda data: data[: len(data) // 2], "cut short"),
    "all but a page": (lambda data: data[:-4096], "cut short"),
    "newer to read": (lambda data: patched(data, (19, b"\x03")), "newer format"),
    "newer to write": (lambda data: patched(data, (18, b"\x03")), "newer format"),
    "a newer schema": (lambda data: patched(data, (44, b"\x00\x00\x00\x05")), "newer format"),
    "a page of rubbish": (lambda data: patched(data, (4096, b"\xff" * 4096)), "damaged|malformed"),
    "a schema of rubbish": (lambda data: patched(data, (100, b"\xff" * 300)), "cannot read|malformed"),
    "zeros turned into spaces": (lambda data: data.replace(b"\x00", b" "), "copied as text"),
    "bytes taken for Latin-1": (lambda data: data.replace(b"\x20\x20", b"\xe2\x20\x20"), "damaged"),
    "packed twice": (lambda data: gzip.compress(gzip.compress(data)), "packed twice"),
    "UTF-16 without a mark": (lambda data: "CREATE TABLE t (x);".encode("utf-16-le"), "iconv"),
    "a picture": (lambda data: b"\x89PNG\r\n\x1a\n" + data, "no database"),
    "random bytes": (lambda data: os.urandom(8192), "no database"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_whole_database_is_refused_and_nothing_is_written(kind: str, tmp_path: Path, store: Path) -> None:
    make, reason = HOSTILE[kind]
    path = tmp_path / "shop.sqlite"
    shop(path).close()
    path.write_bytes(make(path.read_bytes()))
    with pytest.raises(ImportRefused, match=reason):
        take(str(path), "shop", directory=store)
    assert not store.exists()


def test_whatever_is_broken_in_a_file_it_is_refused_or_whole(tmp_path: Path, store: Path) -> None:
    path, chance = tmp_path / "shop.sqlite", random.Random(7)
    shop(path).close()
    data, taken = path.read_bytes(), 0
    for _ in range(60):
        places = [
            (chance.randrange(chance.choice((600, len(data)))), bytes([chance.randrange(256)])) for _ in range(chance.randrange(1, 5))
        ]
        path.write_bytes(patched(data, *places)[: chance.choice((len(data), len(data), chance.randrange(len(data))))])
        try:
            take(str(path), "shop", replace=True, directory=store).sqlite_template().clone().close()
            taken += 1
        except ImportRefused:
            continue
    assert 0 < taken < 60


def test_what_a_database_computes_comes_and_views_that_fail_are_noted(tmp_path: Path, store: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as raw:
        raw.executescript(
            "CREATE TABLE a (id INTEGER PRIMARY KEY, j TEXT CHECK (json_valid(j)), x AS (json_extract(j, '$.x')));"
            "CREATE INDEX by_x ON a (x); CREATE VIEW lost AS SELECT y FROM nowhere;"
            """INSERT INTO a VALUES (1, '{"x": 5}');"""
        )
    kept = take(str(tmp_path / "mine.sqlite"), "mine", directory=store)
    notes = {note.where: note.text for note in kept.report.notes}
    assert "cannot be read" in notes["view lost"]
    assert "follows from other columns" in notes["a.x"]
    with closing(kept.sqlite_template().clone()) as clone:
        assert clone.query("SELECT x FROM a").rows == ((5,),)


def test_names_do_not_reach_the_terminal_as_commands(tmp_path: Path, store: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as raw:
        raw.execute('CREATE TABLE "wardian_\x1b[2J" (id INTEGER PRIMARY KEY)')
    with pytest.raises(ImportRefused, match=r"wardian_\?\[2J"):
        take(str(tmp_path / "mine.sqlite"), "mine", directory=store)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("PRAGMA user_version = 1", "without tables"),
        ("CREATE VIRTUAL TABLE t USING fts5(x)", "virtual.*drop them"),
        ("CREATE TABLE wardian_x (id INTEGER PRIMARY KEY)", "reserved"),
        (
            "CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (id INTEGER PRIMARY KEY REFERENCES a); INSERT INTO b VALUES (1)",
            "mine.sqlite: .*refers",
        ),
        ("CREATE TABLE a (id INTEGER PRIMARY KEY REFERENCES nowhere)", "mine.sqlite: .*a refers to nowhere"),
    ],
)
def test_a_database_that_cannot_be_a_world_is_refused_by_its_own_name(script: str, reason: str, tmp_path: Path, store: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as raw:
        raw.executescript(script)
    with pytest.raises(ImportRefused, match=reason) as caught:
        take(str(tmp_path / "mine.sqlite"), "mine", directory=store)
    assert "wardian-import-" not in str(caught.value)
