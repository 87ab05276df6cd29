"""SQL scripts as sources: cut as psql and sqlite3 cut them, told apart by dialect, run for SQLite in memory, refused by line."""

import bz2
import gzip
import lzma
from functools import partial
from pathlib import Path

import anyio
import pytest

from wardian.sandbox.database.imports import ImportedDatabase, import_database, sqlite_script
from wardian.sandbox.database.imports.script import Command, Copy, Statement, parts_of
from wardian.sandbox.database.imports.script_text import decoded, dialect_of
from wardian.sandbox.errors import ImportRefused

DUMP = """PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT); -- a; comment
INSERT INTO item VALUES(1,'it''s; /* no */ -- comment');
INSERT INTO item VALUES(9,'ü');
CREATE TABLE "odd;name" (id INTEGER PRIMARY KEY, [x;y] INT, `z;` INT);
CREATE TRIGGER after_item AFTER INSERT ON item BEGIN
  UPDATE item SET name = CASE WHEN NEW.id > 5 THEN 'big;' ELSE 'small' END WHERE id = NEW.id;
  DELETE FROM "odd;name";
END;
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('item',12);
COMMIT;
"""


def texts(script: str, dialect: str) -> list[str]:
    found = []
    for part in parts_of(script, dialect):
        statement = part.statement if isinstance(part, Copy) else part
        found.append(statement.text if isinstance(statement, Statement) else f"{statement.name} {statement.argument}".strip())
    return found


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';';", ["SELECT ';'"]),
        (r"SELECT E'\';', 'a\'; SELECT 2;", [r"SELECT E'\';', 'a\'", "SELECT 2"]),
        ('SELECT ";"";";', ['SELECT ";"";"']),
        ("/* ; /* ; */ ; */ SELECT 1 -- ;\n;", ["SELECT 1 -- ;"]),
        ("SELECT 1 /* ; /* ' */ */ ;", ["SELECT 1 /* ; /* ' */ */"]),
        ("DO $$ BEGIN; $x$ ; $x$ END $$; SELECT $a$;$b$;$a$;", ["DO $$ BEGIN; $x$ ; $x$ END $$", "SELECT $a$;$b$;$a$"]),
        ("SELECT a$1$ FROM b$1$;", ["SELECT a$1$ FROM b$1$"]),
        ("CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2);", ["CREATE RULE r AS ON INSERT TO t DO ALSO (SELECT 1; SELECT 2)"]),
        (
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 1 END; END; SELECT 2;",
            ["CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 1 END; END", "SELECT 2"],
        ),
        ("BEGIN; SELECT 1; END;", ["BEGIN", "SELECT 1", "END"]),
        ("\\connect a b\nSELECT 1 \\g\n\\restrict x\n;;", ["\\connect a b", "SELECT 1", "\\restrict x"]),
        ("COPY t FROM stdin;\n1\t;\n\\N\t'\n\\.\nSELECT 2;", ["COPY t FROM stdin", "SELECT 2"]),
        ("\\copy t (a) FROM STDIN\n1\n\\.\nSELECT 2;", ["COPY t (a) FROM STDIN", "SELECT 2"]),
        ("GO\nSELECT 1;\ngo\n", ["GO", "SELECT 1", "GO"]),
    ],
)
def test_a_script_is_cut_as_psql_cuts_it(script: str, parts: list[str]) -> None:
    assert texts(script, "postgres") == parts


def test_a_script_is_cut_as_sqlite3_cuts_it() -> None:
    found = texts(".mode list\n" + DUMP, "sqlite")
    assert found[0] == ".mode list"
    assert [text.split()[0] for text in found[1:]] == [
        "PRAGMA", "BEGIN", "CREATE", "INSERT", "INSERT", "CREATE", "CREATE", "DELETE", "INSERT", "COMMIT",
    ]  # fmt: skip


def test_lines_are_those_of_the_file() -> None:
    parts = list(parts_of("-- one\n\nSELECT 1,\n2;\nCOPY t FROM stdin;\nx\n\\.\n\\q\nSELECT\n3;", "postgres"))
    lines = [part.statement.line if isinstance(part, Copy) else part.line for part in parts]
    assert lines == [3, 5, 8, 9]
    assert isinstance(parts[1], Copy)
    assert parts[1].data == "x\n"
    assert isinstance(parts[2], Command)


@pytest.mark.parametrize(
    "script",
    ["SELECT 1", "SELECT 'a;", 'SELECT "a;', "SELECT $$a;", "SELECT /* a;", "COPY t FROM stdin;\n1\n", "COPY t FROM stdin;", "SELECT (1;"],
)
def test_a_script_that_is_cut_short_says_where(script: str) -> None:
    with pytest.raises(ImportRefused, match="line 2: cut short"):
        list(parts_of(f"SELECT 0;\n{script}", "postgres"))


@pytest.mark.parametrize(
    ("script", "dialect"),
    [
        (DUMP, "sqlite"),
        ("CREATE TABLE [a] (x INT);", "sqlite"),
        ("CREATE TABLE a (id SERIAL PRIMARY KEY);", "postgres"),
        ("\\c x\nCREATE TABLE a (x int);", "postgres"),
        ("CREATE TABLE a (x int);\nCOPY a FROM stdin;\n\\.\n", "postgres"),
        ("CREATE TABLE a (x int) PARTITION BY LIST (x);", "postgres"),
        ("SET DateStyle = 'SQL, DMY';\nCREATE TABLE a (x date);", "postgres"),
        ("CREATE TABLE a (x text DEFAULT 'PRAGMA AUTOINCREMENT WITHOUT ROWID', y timestamptz);", "postgres"),
    ],
)
def test_the_dialect_shows(script: str, dialect: str) -> None:
    assert dialect_of(script, "x.sql") == dialect


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("CREATE TABLE a (x int);", "--engine sqlite or --engine postgres"),
        ("CREATE TABLE `a` (x int NOT NULL AUTO_INCREMENT) ENGINE=InnoDB;", "for MySQL"),
        ("CREATE TABLE `a` (x int);\nLOCK TABLES `a` WRITE;", "for MySQL"),
        ("CREATE TABLE a (x NUMBER PRIMARY KEY, y DATE DEFAULT SYSDATE);", "for Oracle"),
        ("CREATE TABLE [dbo].[a] (x int IDENTITY(1,1));\nGO\nSET ANSI_NULLS ON\n", "for SQL Server"),
        ("CREATE TABLE a (x VARCHAR2(10), y NUMBER(10), z VARCHAR2(9));", "for Oracle"),
        ("Dear reader, this is no database at all.", "nor a SQL script"),
        ("SELECT 1;", "nor a SQL script"),
    ],
)
def test_a_script_for_another_database_or_none_is_refused(script: str, reason: str) -> None:
    with pytest.raises(ImportRefused, match=reason):
        dialect_of(script, "x.sql")


def take(path: Path, store: Path, engine: str | None = None) -> ImportedDatabase:
    return anyio.run(partial(import_database, str(path), "mine", engine=engine, directory=store))


def test_a_dump_of_sqlite3_comes_whole(tmp_path: Path) -> None:
    (tmp_path / "dump.sql").write_text("GO\nUSE shop;\n" + DUMP)
    kept = take(tmp_path / "dump.sql", tmp_path / "store")
    assert [(table.name, table.rows) for table in kept.report.tables] == [("item", 2), ("odd;name", 0)]
    assert (kept.report.triggers, kept.report.sequences) == (("after_item",), ("item",))
    assert {(left.what, left.name, left.line) for left in kept.report.left_out} == {("command", "GO", 1), ("statement", "USE SHOP", 2)}
    clone = kept.sqlite_template().clone()
    assert clone.query("SELECT * FROM item").rows == ((1, "it's; /* no */ -- comment"), (9, "ü"))
    clone.close()


@pytest.mark.parametrize(
    "encoded",
    [
        DUMP.encode(),
        b"\xef\xbb\xbf" + DUMP.encode(),
        DUMP.encode("utf-16"),
        b"\xfe\xff" + DUMP.encode("utf-16-be"),
        DUMP.replace("\n", "\r\n").encode(),
        gzip.compress(DUMP.encode()),
        bz2.compress(DUMP.encode()),
        lzma.compress(DUMP.encode()),
    ],
    ids=["utf-8", "utf-8 with BOM", "utf-16", "utf-16 BE", "CRLF", "gz", "bz2", "xz"],
)
def test_encodings_and_packings_make_no_difference(encoded: bytes, tmp_path: Path) -> None:
    (tmp_path / "dump.sql").write_bytes(encoded)
    clone = take(tmp_path / "dump.sql", tmp_path / "store").sqlite_template().clone()
    assert clone.query("SELECT name FROM item").rows == (("it's; /* no */ -- comment",), ("ü",))
    clone.close()


def test_utf_16_is_told() -> None:
    assert "UTF-16" in decoded(DUMP.encode("utf-16"), "x")[1]


HOSTILE = {
    "cut in a statement": (DUMP.encode()[:-30], "cut short"),
    "cut in its transaction": (DUMP.encode().removesuffix(b"COMMIT;\n"), "inside a transaction"),
    "cut gzip": (gzip.compress(DUMP.encode())[:-20], "cut short"),
    "half a UTF-16": (DUMP.encode("utf-16")[:-1], "UTF-16"),
    "UTF-16 without a mark": (DUMP.encode("utf-16-le"), "iconv|no database"),
    "Latin-1": (DUMP.encode("latin-1"), "line 5: no UTF-8"),
    "a zip": (b"PK\x03\x04" + DUMP.encode(), "zip"),
    "a dump of MySQL": (b"-- MySQL dump 10.13\n" + DUMP.encode(), "MySQL"),
    "ATTACH": (DUMP.encode() + b"ATTACH '/tmp/stolen.db' AS s;", "line 14: ATTACH"),
    "VACUUM INTO": (DUMP.encode() + b"VACUUM INTO '/tmp/stolen.db';", "line 14: ATTACH"),
    "writable_schema": (b"PRAGMA writable_schema=ON;\n" + DUMP.encode(), "line 1: PRAGMA writable_schema"),
    "a virtual table": (DUMP.encode() + b"CREATE VIRTUAL TABLE v USING fts5(x);", "line 14: CREATE VIRTUAL"),
    "load_extension": (DUMP.encode() + b"SELECT load_extension('x');", "line 14: (load_extension|not authorized)"),
    "another file": (DUMP.encode() + b".read more.sql\n", "line 14: .read"),
    "a failing statement": (DUMP.encode() + b"INSERT INTO absent VALUES (1);", "line 14: no such table"),
    "a broken key": (DUMP.encode() + b"CREATE TABLE b (id INTEGER PRIMARY KEY REFERENCES item);INSERT INTO b VALUES (77);", "refers"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_script_that_cannot_be_taken_is_refused_by_its_line(kind: str, tmp_path: Path) -> None:
    data, reason = HOSTILE[kind]
    (tmp_path / "dump.sql").write_bytes(data)
    with pytest.raises(ImportRefused, match=reason):
        take(tmp_path / "dump.sql", tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "making",
    [
        "CREATE TABLE big (x);",
        "CREATE TEMP TABLE big (x);",
        "PRAGMA main.page_size = 65536; CREATE TABLE big (x);",
        'PRAGMA "page_size" = 65536; CREATE TABLE big (x);',
        "PRAGMA main.page_size(65536); CREATE TABLE big (x);",
        "PRAGMA temp.page_size = 65536; CREATE TEMP TABLE big (x);",
    ],
)
def test_nothing_in_a_script_gets_around_the_bound_of_its_size(making: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_script, "MAX_BYTES", 1 << 20)
    (tmp_path / "dump.sql").write_text(f"{making}\nINSERT INTO big VALUES (zeroblob(1 << 21));\n")
    with pytest.raises(ImportRefused, match=r"line 2: .*full"):
        take(tmp_path / "dump.sql", tmp_path / "store", engine="sqlite")


@pytest.mark.parametrize("source", ["mysql://localhost/x", "https://example.org/x.sqlite"])
def test_a_url_of_something_else_is_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match="cannot be read"):
        anyio.run(partial(import_database, source, "mine", directory=tmp_path))


def test_a_url_of_sqlite_is_a_path(tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match=r"x\.sqlite: cannot be read"):
        anyio.run(partial(import_database, f"sqlite:///{tmp_path}/x.sqlite", "mine", directory=tmp_path))
