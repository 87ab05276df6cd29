"""Templates: built from named inputs, sealed last, never half used, and never taken from what is no database."""

import json
import multiprocessing
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, ForeignKey, Integer, MetaData, Table, text
from sqlalchemy.orm import Session

from wardian.sandbox.database.base import TemplateSource
from wardian.sandbox.database.sqlite import SqliteTemplate
from wardian.sandbox.database.sqlite.template import default_directory
from wardian.sandbox.errors import DatabaseProblem, TemplateBroken

from .conftest import chinook_file, metadata, seed_rows


def files(directory: Path, suffix: str) -> list[Path]:
    return sorted(directory.glob(f"*{suffix}"))


def test_the_second_build_reads_what_the_first_kept(shop_source: TemplateSource, tmp_path: Path) -> None:
    first = SqliteTemplate.build(shop_source, tmp_path)
    image = files(tmp_path, ".sqlite")[0]
    before = image.stat().st_mtime_ns
    second = SqliteTemplate.build(shop_source, tmp_path)
    assert (second.key, second.fingerprint, second.size_bytes) == (first.key, first.fingerprint, first.size_bytes)
    assert image.stat().st_mtime_ns == before
    assert second.clone().recompute() == first.fingerprint


def test_two_builds_are_equal_bytes(shop_source: TemplateSource, tmp_path: Path) -> None:
    for name in "ab":
        SqliteTemplate.build(shop_source, tmp_path / name)
    one, two = (files(tmp_path / name, ".sqlite")[0].read_bytes() for name in "ab")
    assert one == two


def test_every_named_input_is_part_of_the_key(shop_source: TemplateSource, tmp_path: Path) -> None:
    def other_rows(session: Session, seed: int) -> None:
        return None

    smaller = MetaData()
    Table("t", smaller, Column("id", Integer, primary_key=True))
    sources = (
        shop_source,
        replace(shop_source, name="other"),
        replace(shop_source, seed=8),
        replace(shop_source, parameters=(("size", 2),)),
        replace(shop_source, builder_modules=("wardian.sandbox.clock",)),
        replace(shop_source, seed_rows=other_rows),
        replace(shop_source, metadata=smaller, seed_rows=other_rows),
    )
    assert len({SqliteTemplate.build(source, tmp_path).key for source in sources}) == len(sources)


@pytest.mark.parametrize("missing", [".json", ".sqlite"])
def test_a_half_built_template_is_built_again(shop_source: TemplateSource, tmp_path: Path, missing: str) -> None:
    first = SqliteTemplate.build(shop_source, tmp_path)
    files(tmp_path, missing)[0].unlink()
    assert SqliteTemplate.build(shop_source, tmp_path).fingerprint == first.fingerprint
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".sqlite", ".lock"}


def test_a_build_that_fails_leaves_nothing_to_trip_over(tmp_path: Path, shop_source: TemplateSource) -> None:
    def broken(session: Session, seed: int) -> None:
        seed_rows(session, seed)
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        SqliteTemplate.build(replace(shop_source, seed_rows=broken), tmp_path)
    assert files(tmp_path, ".json") == files(tmp_path, ".sqlite") == []
    assert SqliteTemplate.build(shop_source, tmp_path).clone().query("SELECT count(*) FROM orders").rows == ((7,),)


def _flip(image: Path) -> None:
    data = bytearray(image.read_bytes())
    data[-100] ^= 1
    image.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [_flip, lambda image: image.write_bytes(b""), lambda image: image.with_suffix(".json").write_text("{")])
def test_a_damaged_template_is_named_and_never_used(shop_source: TemplateSource, tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    SqliteTemplate.build(shop_source, tmp_path)
    damage(files(tmp_path, ".sqlite")[0])
    with pytest.raises(TemplateBroken, match=r"remove it and .*\.json to have it built again"):
        SqliteTemplate.build(shop_source, tmp_path)


def _build(directory: Path, keys: Any) -> None:
    keys.put(SqliteTemplate.build(TemplateSource("shop", metadata, seed_rows), directory).key)


def test_processes_build_once_between_them(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    keys = context.Queue()
    builders = [context.Process(target=_build, args=(tmp_path, keys)) for _ in range(4)]
    for builder in builders:
        builder.start()
    assert len({keys.get(timeout=60) for _ in builders}) == 1
    for builder in builders:
        builder.join(60)
    assert [builder.exitcode for builder in builders] == [0] * 4
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".sqlite", ".lock"}


def test_a_place_that_is_no_directory_is_named(shop_source: TemplateSource, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TemplateBroken, match="name another directory"):
        SqliteTemplate.build(shop_source, tmp_path / "file")


def test_the_default_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_directory() == Path("/somewhere/wardian/templates")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_directory() == Path.home() / ".cache/wardian/templates"


def test_seed_rows_cannot_ask_the_host(shop_source: TemplateSource, tmp_path: Path) -> None:
    def asking(session: Session, seed: int) -> None:
        session.execute(text("SELECT random()"))

    with pytest.raises(Exception, match="not authorized"):
        SqliteTemplate.build(replace(shop_source, seed_rows=asking), tmp_path)


def test_seed_rows_must_keep_the_references(tmp_path: Path) -> None:
    schema = MetaData()
    Table("a", schema, Column("id", Integer, primary_key=True))
    child = Table(
        "b", schema, Column("id", Integer, primary_key=True), Column("a", ForeignKey("a.id", deferrable=True, initially="DEFERRED"))
    )

    def orphan(session: Session, seed: int) -> None:
        session.execute(child.insert().values(id=1, a=5))

    with pytest.raises((TemplateBroken, sqlite3.IntegrityError)):
        SqliteTemplate.build(TemplateSource("x", schema, orphan), tmp_path)


@pytest.mark.parametrize(
    ("name", "keys", "others", "match"),
    [("t", 0, 1, "primary key"), ("wardian_t", 1, 0, "reserved"), ("t", 1, 100, "101 columns"), ("nothing", 1, 0, "CREATE TABLE nothing")],
)
def test_tables_that_cannot_be_captured_are_refused(tmp_path: Path, name: str, keys: int, others: int, match: str) -> None:
    schema = MetaData()
    columns = [Column(f"c{i}", Integer, primary_key=i < keys) for i in range(keys + others)]
    Table(name, schema, *columns)
    with pytest.raises(TemplateBroken, match=match):
        SqliteTemplate.build(TemplateSource("x", schema, lambda session, seed: None), tmp_path)


def made(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return path


FALSE_FILES = {
    "empty": b"",
    "short": b"SQLite",
    "prose": b"I'm sorry, but I cannot create a binary SQLite database.",
    "script": b"#!/usr/bin/env python3\nimport sqlite3\n",
    "dump": b"PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\nCREATE TABLE t(x);\nCOMMIT;\n",
    "spaces for NUL": b"SQLite format 3 " + b" " * 4096,
    "header only": b"SQLite format 3\x00",
    "header and prose": b"SQLite format 3\x00" + b"prose " * 2000,
}


@pytest.mark.parametrize("content", FALSE_FILES.values(), ids=FALSE_FILES.keys())
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.sqlite").write_bytes(content)
    with pytest.raises(TemplateBroken, match=r"x\.sqlite"):
        SqliteTemplate.from_file(tmp_path / "x.sqlite")


def test_a_missing_file_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(TemplateBroken, match="cannot be read"):
        SqliteTemplate.from_file(tmp_path / "x.sqlite")
    with pytest.raises(TemplateBroken, match="cannot be read"):
        SqliteTemplate.from_file(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statements", "match"),
    [
        (("PRAGMA user_version = 1",), "without tables"),
        (("CREATE TABLE t(rowid, _rowid_, oid)",), "primary key"),
        (("CREATE TABLE wardian_x(id INTEGER PRIMARY KEY)",), "reserved"),
        (("CREATE VIRTUAL TABLE t USING fts5(x)",), "virtual"),
        (
            ("CREATE TABLE a(id INTEGER PRIMARY KEY)", "CREATE TABLE b(id INTEGER PRIMARY KEY REFERENCES a)", "INSERT INTO b VALUES (1)"),
            "refers",
        ),
    ],
)
def test_a_database_that_is_no_world_is_refused(tmp_path: Path, statements: tuple[str, ...], match: str) -> None:
    with pytest.raises(TemplateBroken, match=match):
        SqliteTemplate.from_file(made(tmp_path / "x.sqlite", *statements))


def test_a_damaged_page_is_refused(tmp_path: Path) -> None:
    count = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 200)"
    fill = f"{count} INSERT INTO t SELECT x, hex(zeroblob(200)) FROM c"
    path = made(tmp_path / "x.sqlite", "CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT)", fill)
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 3 + 64] = b"\xff" * 64
    path.write_bytes(bytes(data))
    with pytest.raises(TemplateBroken):
        SqliteTemplate.from_file(path)


def test_what_stands_in_the_log_is_taken_along(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    for statement in ("PRAGMA journal_mode = WAL", "CREATE TABLE t(id INTEGER PRIMARY KEY, x)", "INSERT INTO t VALUES (1, 'logged')"):
        writer.execute(statement)
    assert (tmp_path / "x.sqlite-wal").stat().st_size > 0
    clone = SqliteTemplate.from_file(path).clone()
    writer.close()
    assert clone.query("SELECT * FROM t").rows == ((1, "logged"),)
    assert clone.query("PRAGMA table_info(t)").rows
    with clone.transaction() as session:
        session.execute(text("INSERT INTO t VALUES (2, 1.5)"))
    assert clone.recompute() == clone.fingerprint()
    assert clone.take_changes()[0].after == {"id": 2, "x": "1.5"}


@pytest.fixture
def chinook() -> SqliteTemplate:
    return SqliteTemplate.from_file(chinook_file("Chinook_Sqlite.sqlite"))


def test_a_real_database_of_others_works_as_a_world(chinook: SqliteTemplate) -> None:
    clone = chinook.clone()
    with clone.transaction() as session:
        session.execute(text("UPDATE Track SET UnitPrice = UnitPrice + 1 WHERE AlbumId = 1"))
        session.execute(text("DELETE FROM PlaylistTrack WHERE PlaylistId = 1 AND TrackId < 100"))
        assert clone.allocate_id(session, "Artist") == 276
    assert clone.fingerprint() == clone.recompute()
    assert {change.table for change in clone.take_changes()} == {"Track", "PlaylistTrack"}
    found = clone.query('SELECT "Name" FROM "Artist" a JOIN Album b USING (ArtistId) GROUP BY a.ArtistId ORDER BY count(*) DESC, 1 LIMIT 1')
    assert found.rows == (("Iron Maiden",),)
    with pytest.raises(DatabaseProblem), clone.transaction() as session:
        session.execute(text("UPDATE Album SET ArtistId = 9999"))
    clone.close()


def test_the_mark_says_what_was_sealed(shop_source: TemplateSource, tmp_path: Path) -> None:
    template = SqliteTemplate.build(shop_source, tmp_path)
    mark = json.loads(files(tmp_path, ".json")[0].read_bytes())
    assert mark["key"] == template.key
    assert {name: count for name, (count, _) in mark["tables"].items()} == {
        "customers": 3,
        "orders": 7,
        "lines": 10,
        "wardian_sequences": 2,
    }
