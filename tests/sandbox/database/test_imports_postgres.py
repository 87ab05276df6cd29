"""Somebody's Postgres database as a template: scripts run without power, archives, live URLs, and what of them does not come."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from wardian.sandbox.database.base import WorldDatabase
from wardian.sandbox.database.imports import ImportedDatabase, open_import, postgres_session
from wardian.sandbox.database.imports.compare import Verdict, compare
from wardian.sandbox.database.postgres import sealing
from wardian.sandbox.database.postgres.server import OWNER_RESTORES, Server
from wardian.sandbox.database.postgres.template import PostgresTemplate
from wardian.sandbox.errors import DatabaseProblem, ImportRefused

from .conftest import Importer, chinook_file

SCRIPT = r"""
-- a script as people have them
\set ON_ERROR_STOP on
DROP DATABASE IF EXISTS shop;
CREATE DATABASE shop OWNER joe;
\connect shop
SET transaction_timeout = 0;
SET no_such_setting = on;
CREATE ROLE joe LOGIN PASSWORD 'secret';
CREATE EXTENSION IF NOT EXISTS citext;
CREATE EXTENSION postgis;
CREATE SCHEMA audit;
CREATE TABLE audit.log (id int PRIMARY KEY);
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE DOMAIN price AS numeric(10,2) CHECK (VALUE >= 0);
CREATE TABLE item (
    item_id serial PRIMARY KEY, name citext NOT NULL, price price, sold boolean, added timestamp DEFAULT now(), seen timestamptz,
    weight double precision, photo bytea, mood mood, extra jsonb, tags text[],
    double double precision GENERATED ALWAYS AS (weight * 2) STORED
);
ALTER TABLE item OWNER TO joe;
CREATE TABLE tag (item_id int NOT NULL REFERENCES item, word varchar(20) NOT NULL, UNIQUE (item_id, word));
CREATE TABLE visit (id bigint GENERATED ALWAYS AS IDENTITY (INCREMENT 5) PRIMARY KEY, day date NOT NULL DEFAULT '2026-03-01');
CREATE TABLE sale (day date NOT NULL, number int NOT NULL, PRIMARY KEY (day, number)) PARTITION BY RANGE (day);
CREATE TABLE sale_2026 PARTITION OF sale FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE log (word text);
CREATE INDEX by_word ON tag (word);
CREATE VIEW cheap AS SELECT item_id, name FROM item WHERE price < 2;
CREATE MATERIALIZED VIEW dear AS SELECT item_id FROM item WHERE price > 2;
CREATE VIEW today AS SELECT CURRENT_DATE AS day, 'now()' AS said; -- don't look
CREATE VIEW columns_of AS SELECT column_name FROM information_schema.columns;
CREATE FUNCTION tagged() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
  UPDATE item SET weight = weight + 1, seen = CURRENT_TIMESTAMP /* it's now() */ WHERE item_id = NEW.item_id; -- a semicolon; and a 'quote
  RETURN NEW;
END $body$;
CREATE FUNCTION power(what text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN EXECUTE what; END $$;
GRANT SELECT ON item TO joe;
ALTER TABLE item ENABLE ROW LEVEL SECURITY;
COPY item (name, price, sold, added, seen, weight, photo, mood, extra, tags) FROM stdin;
nail	0.99	t	2026-03-01 09:00:00	2026-03-01 10:00:00+01	0.5	\\x00ff	good	{"b":1,"a":2}	{x,y}
saw; it's "new"	12.50	\N	2026-03-02 10:30:00	\N	2	\N	\N	\N	\N
\.
INSERT INTO tag VALUES (1, 'iron'), (2, E'it\'s; \\ iron');
CREATE TRIGGER tagged AFTER INSERT ON tag FOR EACH ROW EXECUTE FUNCTION tagged();
INSERT INTO visit DEFAULT VALUES;
INSERT INTO log VALUES ('a'), ('a'), ('b');
INSERT INTO sale VALUES ('2026-05-05', 1);
\! touch /tmp/escaped
GO
SELECT count(*) FROM generate_series(1, 1000);
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("imports")


def written(folder: Path, script: str) -> Path:
    path = folder / "shop.sql"
    path.write_text(script)
    return path


@pytest.fixture(scope="module")
def kept(importer: Importer, store: Path, tmp_path_factory: pytest.TempPathFactory) -> ImportedDatabase:
    return importer.take(written(tmp_path_factory.mktemp("source"), SCRIPT), "shop", store)


@pytest.fixture(scope="module")
def imported(kept: ImportedDatabase, store: Path, server: Server) -> Iterator[PostgresTemplate]:
    """On the server that a user would name: it has not seen the script before."""
    template = PostgresTemplate.build(open_import("shop", store).postgres_recipe(), server, spares=0)
    yield template
    template.close()


NOON = datetime(2031, 5, 6, 12, tzinfo=UTC)


@pytest.fixture
def clone(imported: PostgresTemplate) -> Iterator[WorldDatabase]:
    made = imported.clone()
    made.time = lambda: NOON
    yield made
    made.close()


def test_what_came_is_in_the_report(kept: ImportedDatabase) -> None:
    report = kept.report
    assert {table.name: (table.rows, table.key) for table in report.tables} == {
        "item": (2, ("item_id",)),
        "tag": (2, ("item_id", "word")),
        "visit": (1, ("id",)),
        "sale": (1, ("day", "number")),
        "log": (3, ()),
    }
    assert (report.views, report.functions, report.triggers) == (("cheap", "dear", "today"), ("power", "tagged"), ("tagged",))
    assert {"by_word", "item_pkey"} <= set(report.indexes)
    assert set(report.sequences) == {"item_item_id_seq", "visit_id_seq"}


def test_what_did_not_come_is_in_the_report(kept: ImportedDatabase) -> None:
    left = {(one.what, one.name): one.line for one in kept.report.left_out}
    whats = {what for what, _ in left}
    assert ("database", "drop database shop") in left
    assert {
        "database",
        "role",
        "grant",
        "owner",
        "row policy",
        "schema",
        "extension",
        "setting",
        "view",
        "psql command",
        "command",
    } <= whats
    assert {name for what, name in left if what == "extension"} == {"postgis"}
    assert {name for what, name in left if what == "psql command"} == {"\\set", "\\connect", "\\!"}
    assert left["setting", "no_such_setting"] == 8
    assert ("view", "columns_of") in left
    assert any(name.startswith("audit") for what, name in left if what == "schema")


def test_columns_that_cannot_agree_and_defaults_are_named(kept: ImportedDatabase) -> None:
    item = next(table for table in kept.report.tables if table.name == "item")
    reasons = {column.name for column in item.columns if column.cannot_agree}
    assert reasons == {"price", "sold", "seen", "mood", "extra", "tags"}
    notes = {note.where: note.text for note in kept.report.notes}
    assert "now()" in notes["item.added"]
    assert "materialized: it shows the rows of the import" in notes["view dear"]
    assert {"item.item_id", "visit.id", "item.double"} <= notes.keys()


def test_a_template_on_another_server_is_the_same(kept: ImportedDatabase, imported: PostgresTemplate) -> None:
    leaves = dict(imported.fingerprint.leaves)
    assert {table.name: table.fingerprint for table in kept.report.tables}.items() <= leaves.items()


def test_clones_have_views_triggers_and_partitions_and_are_followed(clone: WorldDatabase) -> None:
    assert clone.query("SELECT * FROM cheap").rows == ((1, "nail"),)
    assert clone.query("SELECT 1 FROM item WHERE name = 'NAIL'").rows == ((1,),)
    with clone.transaction() as session:
        session.execute(text("INSERT INTO tag VALUES (1, 'new')"))
        session.execute(text("INSERT INTO sale VALUES ('2026-06-06', 2)"))
    assert {(change.table, change.key) for change in clone.take_changes()} == {
        ("item", (1,)),
        ("tag", (1, "new")),
        ("sale", ("2026-06-06", 2)),
    }
    assert clone.fingerprint() == clone.recompute()


def test_a_changed_clone_is_sealed_and_restored(clone: WorldDatabase, imported: PostgresTemplate) -> None:
    with clone.transaction() as session:
        session.execute(text("INSERT INTO tag VALUES (1, 'new')"))
        session.execute(
            text("UPDATE item SET sold = false, extra = '{}', tags = '{}', photo = NULL, mood = 'bad', price = 3 WHERE item_id = 2")
        )
        session.execute(text("INSERT INTO item (name, added, seen) VALUES ('x', '2026-03-03', '2026-03-03 10:00:00.123456+00')"))
    again, _ = imported.restore(clone.seal())
    assert again.recompute() == clone.fingerprint()
    assert again.query("SELECT double FROM item WHERE item_id = 1").rows == clone.query("SELECT double FROM item WHERE item_id = 1").rows
    again.close()


def test_tables_without_a_key_are_followed_row_by_row(clone: WorldDatabase, kept: ImportedDatabase) -> None:
    assert {table.name: table.can_agree for table in kept.report.tables if table.number} == {"log": False}
    with clone.transaction() as session:
        session.execute(text("DELETE FROM log WHERE wardian_row = 2"))
        session.execute(text("INSERT INTO log VALUES ('a')"))
    assert [(change.table, change.key) for change in clone.take_changes()] == [("log", (2,)), ("log", (4,))]
    assert clone.fingerprint() == clone.recompute()


def test_ids_of_the_database_are_counted_by_the_world(clone: WorldDatabase) -> None:
    insert = "INSERT INTO item (name, added) VALUES ('x', '2026-03-03') RETURNING item_id"
    undone = text("INSERT INTO item (name, added, price) VALUES ('x', '2026-03-03', 1), ('x', '2026-03-03', -1)")
    with pytest.raises(DatabaseProblem, match="check"), clone.transaction() as session:
        session.execute(undone)
    with clone.transaction() as session:
        assert session.execute(text(insert)).scalar() == 3
        assert clone.allocate_id(session, "item") == 4
        assert session.execute(text("INSERT INTO visit DEFAULT VALUES RETURNING id")).scalar() == 6
    assert clone.fingerprint() == clone.recompute()


@pytest.mark.parametrize("statement", ["SELECT nextval('item_item_id_seq')", "SELECT now()", "SELECT gen_random_uuid()"])
def test_nothing_in_a_clone_has_the_hosts_time_or_counts_apart(statement: str, clone: WorldDatabase) -> None:
    with pytest.raises(DatabaseProblem, match="permission denied"), clone.transaction() as session:
        session.execute(text(statement))


def test_defaults_functions_and_views_have_the_worlds_time(clone: WorldDatabase) -> None:
    with clone.transaction() as session:
        session.execute(text("INSERT INTO item (name) VALUES ('x')"))
        session.execute(text("INSERT INTO tag VALUES (1, 'new')"))
    assert clone.query("SELECT added FROM item WHERE name = 'x'").rows == (("2031-05-06 12:00:00",),)
    assert clone.query("SELECT seen FROM item WHERE item_id = 1").rows == (("2031-05-06T12:00:00.000Z",),)
    assert clone.query("SELECT * FROM today").rows == (("2031-05-06", "now()"),)
    clone.time = lambda: NOON + timedelta(days=1)
    assert clone.query("SELECT day FROM today").rows == (("2031-05-07",),)
    assert clone.fingerprint() == clone.recompute()


def test_a_function_has_no_more_power_than_who_calls_it(clone: WorldDatabase) -> None:
    with pytest.raises(DatabaseProblem, match="permission denied for function power"):
        clone.query("SELECT power('SELECT 1')")
    with clone.transaction() as session:
        session.execute(text("SELECT power('DELETE FROM log')"))
    assert len(clone.take_changes()) == 3
    with pytest.raises(DatabaseProblem, match="permission denied for table wardian_journal"), clone.transaction() as session:
        session.execute(text("SELECT power('DELETE FROM wardian_journal')"))


def test_rows_are_written_through_a_view(clone: WorldDatabase) -> None:
    with clone.transaction() as session:
        session.execute(text("UPDATE cheap SET name = 'tack'"))
    assert [(change.table, change.key) for change in clone.take_changes()] == [("item", (1,))]
    assert clone.fingerprint() == clone.recompute()


def test_without_a_world_there_is_no_time(imported: PostgresTemplate) -> None:
    clone = imported.clone()
    with pytest.raises(DatabaseProblem, match="no time in this world"), clone.transaction() as session:
        session.execute(text("INSERT INTO item (name) VALUES ('x')"))
    clone.close()


def test_nothing_of_a_script_reaches_the_container(kept: ImportedDatabase, importer: Importer) -> None:
    with pytest.raises(ImportRefused):
        importer.program("test", "-e", "/tmp/escaped")


@pytest.fixture(scope="module")
def served(importer: Importer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a database of somebody's on the workshop's server."""
    database = "somebodys"
    with importer.workshop.server.admin() as admin:
        admin.execute(f"CREATE DATABASE {database}".encode())
        admin.execute("CREATE ROLE somebody")
    script = "CREATE TABLE t (id serial PRIMARY KEY, x text); ALTER TABLE t OWNER TO somebody; INSERT INTO t (x) VALUES ('a'), ('b');"
    importer.program("psql", "-h", "/var/run/postgresql", "-q", "-d", database, "-c", script)
    yield database
    with importer.workshop.server.admin() as admin:
        admin.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())
        admin.execute("DROP ROLE somebody")


def test_a_served_database_comes_by_its_url_and_is_only_read(importer: Importer, served: str, store: Path) -> None:
    kept = importer.take(url(importer, served), "live", store)
    assert [(table.name, table.rows) for table in kept.report.tables] == [("t", 2)]
    assert kept.manifest.source.kind == "Postgres database"
    assert "postgres:" not in kept.manifest.source.name
    assert {left.what for left in kept.report.left_out} == {"owner"}


def url(importer: Importer, database: str) -> str:
    return importer.workshop.server.url.removesuffix("/postgres") + f"/{database}"


def dumped(importer: Importer, served: str, form: str) -> bytes:
    return importer.program("pg_dump", "-h", "/var/run/postgresql", f"--format={form}", served)


def test_an_archive_in_tar_form_comes(importer: Importer, served: str, store: Path, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    dump.write_bytes(dumped(importer, served, "tar"))
    kept = importer.take(dump, "tar", store)
    assert [(table.name, table.rows) for table in kept.report.tables] == [("t", 2)]


@pytest.mark.parametrize("form", ["custom", "tar", "plain"])
def test_a_dump_that_is_cut_short_is_refused(form: str, importer: Importer, served: str, store: Path, tmp_path: Path) -> None:
    whole, cut = dumped(importer, served, form), tmp_path / "cut"
    cut.write_bytes(whole[: len(whole) * 3 // 5])
    with pytest.raises(ImportRefused, match="cut short"):
        importer.take(cut, "cut", store)
    assert not (store / "cut").exists()


def test_an_archive_of_a_newer_format_is_refused_with_the_way_out(importer: Importer, tmp_path: Path, store: Path) -> None:
    path = tmp_path / "dump"
    path.write_bytes(b"PGDMP\x01\x10\x00\x04\x08\x01" + bytes(range(200)))
    with pytest.raises(ImportRefused, match=r"1\.16 \(by pg_dump 17\).*pg_restore -f"):
        importer.take(path, "newer", store)


TABLE = "CREATE TABLE t (id serial PRIMARY KEY);\n"
GRAB = """
CREATE FUNCTION grab() RETURNS int LANGUAGE plpgsql AS $$
DECLARE power boolean := true;
BEGIN
  BEGIN SET LOCAL ROLE NONE; PERFORM pg_read_file('PG_VERSION'); EXCEPTION WHEN OTHERS THEN power := false; END;
  IF power THEN RAISE EXCEPTION 'power of a superuser'; END IF;
  RETURN 1;
END $$;
CREATE FUNCTION folded() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN public.grab(); END $$;
"""
"""Fails where it is called with a superuser's power."""
SHADOW = """
CREATE FUNCTION same(oid, regnamespace) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN oideq($1, $2::oid); END $$;
CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = regnamespace, FUNCTION = same);
"""
CAST = """
CREATE TYPE mood AS ENUM ('good');
CREATE FUNCTION told(mood) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$;
CREATE CAST (mood AS text) WITH FUNCTION told(mood);
"""


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (TABLE + "COPY t FROM '/etc/passwd';", "line 2: COPY from a file"),
        (TABLE + "COPY t FROM PROGRAM 'id';", "line 2: COPY from a file"),
        (TABLE + "\\i other.sql\n", r"line 2: \\i needs"),
        (TABLE + "\\copy t FROM 'x.csv'\n", r"line 2: \\copy needs"),
        (TABLE + "SELECT pg_read_file('/etc/passwd');", "line 2: permission denied"),
        (TABLE + "CREATE FUNCTION f() RETURNS int LANGUAGE c AS '/lib/x', 'y';", "line 2: permission denied"),
        (TABLE + "SELECT no_such_function();", "line 2: function no_such_function"),
        (TABLE + "BEGIN;\nINSERT INTO t VALUES (1);", "inside a transaction"),
        ("CREATE TEXT SEARCH CONFIGURATION c (PARSER = default);\nCREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY);", "--schema: s"),
        (TABLE + "CREATE TABLE u (x int) INHERITS (t);", "inherits"),
        (TABLE + "CREATE TABLE wardian_x (id int PRIMARY KEY);", "reserved"),
        (TABLE + "CREATE FUNCTION wardian_x() RETURNS int SECURITY DEFINER LANGUAGE sql AS 'SELECT 1';", "routine wardian_x: .*reserved"),
        (TABLE + "CREATE DOMAIN WARDIAN_x AS int;", "type wardian_x: .*reserved"),
        (TABLE + SHADOW, "operator public.=.oid,regnamespace.: .*mean"),
        (
            TABLE
            + "CREATE TABLE u (t int);\nINSERT INTO u VALUES (7);\nALTER TABLE u ADD CONSTRAINT k FOREIGN KEY (t) REFERENCES t NOT VALID;",
            r"table u: rows do not keep to its constraint k, which is NOT VALID: Key \(t\)=\(7\) is not present",
        ),
        (TABLE + CAST, "cast public.mood AS text: .*drop the cast"),
        (TABLE + "CREATE EXTENSION postgis;\nCREATE TABLE p (id int PRIMARY KEY, g geometry);", "line 3: .*may belong to postgis"),
        (
            "\\connect -reuse-previous=on \"dbname='a'\"\n" + TABLE + "\\connect b\nCREATE TABLE u (id serial PRIMARY KEY);",
            "two databases, a and b",
        ),
        (
            TABLE + "MERGE INTO t USING t AS u ON false WHEN NOT MATCHED THEN INSERT DEFAULT VALUES RETURNING t.id;",
            "line 2: .*Postgres 15 does not know it",
        ),
        (TABLE + "INSERT INTO t VALUES (1) ON CONFLICT DO SELECT pg_catalog.version() FROM t;", "line 2: .*syntax"),
    ],
)
def test_a_script_that_cannot_be_run_whole_is_refused_by_its_line(
    script: str, reason: str, importer: Importer, tmp_path: Path, store: Path
) -> None:
    with pytest.raises(ImportRefused, match=reason):
        importer.take(written(tmp_path, script), "refused", store)
    assert not (store / "refused").exists()


PARTS = r"""
SET standard_conforming_strings = off;
CREATE SCHEMA other;
CREATE TYPE other.mood AS ENUM ('good');
CREATE TABLE other.t (id int PRIMARY KEY);
CREATE TYPE span AS RANGE (subtype = float8);
CREATE TABLE t (id serial PRIMARY KEY, other_id int REFERENCES other.t, mood other.mood, said text, how_long span);
CREATE VIEW v AS SELECT id FROM other.t;
SET session_replication_role = replica;
INSERT INTO t (said, how_long) VALUES ('it\'s', '[1.5,2.5]');
SET standard_conforming_strings = on;
WITH two AS (SELECT 'a\' AS said) INSERT INTO t (said) SELECT said FROM two;
SELECT id INTO copy FROM t;
CREATE FUNCTION sets() RETURNS text LANGUAGE plpgsql AS $$ BEGIN SET DateStyle = 'German'; SET search_path = pg_temp; RETURN 'x'; END $$;
"""


def test_what_a_schema_takes_along_is_told_and_no_function_sets_how_values_are_written(
    importer: Importer, tmp_path: Path, store: Path, server: Server
) -> None:
    kept = importer.take(written(tmp_path, PARTS), "parts", store)
    left = {(one.what, one.name) for one in kept.report.left_out}
    assert left >= {
        ("column", "t.mood"),
        ("constraint", "t.t_other_id_fkey"),
        ("view", "v"),
        ("refused setting", "session_replication_role"),
    }
    with closing(PostgresTemplate.build(kept.postgres_recipe(), server, spares=0)) as template, closing(template.clone()) as clone:
        rows = clone.query("SELECT said, how_long FROM t ORDER BY id").rows
        assert rows == (("it's", "[1.5,2.5]"), ("a\\", None))
        with pytest.raises(DatabaseProblem, match="left search_path at"), clone.transaction() as session:
            clone.execute(session, "INSERT INTO t (said) SELECT sets()")
        assert clone.query("SELECT said, how_long FROM t ORDER BY id").rows == rows
        assert clone.fingerprint() == clone.recompute()


def test_another_schema_comes_when_it_is_named(importer: Importer, tmp_path: Path, store: Path) -> None:
    script = "CREATE SCHEMA s; SET search_path = s, public; CREATE TABLE t (id serial PRIMARY KEY); INSERT INTO t DEFAULT VALUES;"
    kept = importer.take(written(tmp_path, script), "other", store, schema="s")
    assert [(table.name, table.rows) for table in kept.report.tables] == [("t", 1)]


def test_chinook_is_the_same_on_both_engines_where_the_reports_say_so(importer: Importer, tmp_path: Path) -> None:
    lite = importer.take(chinook_file("Chinook_Sqlite.sqlite"), "lite", tmp_path).manifest
    post = importer.take(chinook_file("Chinook_PostgreSql_SerialPKs.sql"), "post", tmp_path).manifest
    found = {one.right: one.verdict for one in compare(lite, post)}
    able = {table.name for table in post.report.tables if table.can_agree}
    assert able == {"album", "artist", "employee", "genre", "media_type", "playlist", "playlist_track"}
    assert found == {name: Verdict.EQUAL if name in able else Verdict.SAME_VALUES for name in found}
    assert (len(found), lite.report.rows, post.report.rows) == (11, 15607, 15607)


@pytest.mark.parametrize("owner_restores", [OWNER_RESTORES, 10**9])
def test_no_code_of_an_import_has_the_power_of_a_superuser(
    owner_restores: int, importer: Importer, tmp_path: Path, store: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "OWNER_RESTORES", owner_restores)
    tables = "CREATE TABLE kind (id int PRIMARY KEY); CREATE TABLE item (id int PRIMARY KEY CHECK (grab() > 0), kind int REFERENCES kind);"
    script = GRAB + tables + "CREATE VIEW v AS SELECT folded() AS x; INSERT INTO item VALUES (1, NULL);"
    kept = importer.take(written(tmp_path, script), "hostile", store, replace=True)
    assert [note.text for note in kept.report.notes if note.where == "view v"] == []
    template = PostgresTemplate.build(kept.postgres_recipe(), server, spares=0)
    made = template.clone()
    with made.transaction() as session:
        session.execute(text("INSERT INTO kind VALUES (5)"))
        session.execute(text("INSERT INTO item VALUES (2, 5)"))
    restored, _ = template.restore(made.seal())
    assert restored.query("SELECT id, kind FROM item ORDER BY id").rows == ((1, None), (2, 5))
    with pytest.raises(DatabaseProblem, match="foreign key"), restored.transaction() as session:
        session.execute(text("INSERT INTO item VALUES (3, 6)"))
    for one in (made, restored, template):
        one.close()


def test_a_script_has_a_limit_in_all(importer: Importer, tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_session, "TOTAL_S", 0.5)
    with pytest.raises(ImportRefused, match=r"did not end within 0\.5 s in all"):
        importer.take(written(tmp_path, TABLE + "SELECT set_config('statement_timeout', '0', false); SELECT pg_sleep(60);"), "slow", store)


def test_ids_are_given_out_to_columns_and_not_to_statements(clone: WorldDatabase) -> None:
    with pytest.raises(DatabaseProblem, match="not available"), clone.transaction() as session:
        clone.execute(session, "UPDATE item SET weight = 1 WHERE public.\"wardian_next\"('item') < 0")


def test_a_function_that_an_agent_calls_hides_nothing(importer: Importer, tmp_path: Path, store: Path, server: Server) -> None:
    evil = """
    CREATE FUNCTION evil() RETURNS text LANGUAGE plpgsql AS $$
    DECLARE what text; done text := '';
    BEGIN
      FOREACH what IN ARRAY ARRAY['SET LOCAL ROLE wardian_owner', 'SET LOCAL ROLE NONE', 'DELETE FROM wardian_journal',
                                  'ALTER TABLE t DISABLE TRIGGER ALL',
                                  'ALTER ROLE SESSION_USER SET session_replication_role = replica',
                                  'ALTER ROLE SESSION_USER PASSWORD ''x'''] LOOP
        BEGIN EXECUTE what; done := done || what || ';'; EXCEPTION WHEN insufficient_privilege THEN NULL; END;
      END LOOP;
      DELETE FROM t;
      RETURN done;
    END $$;
    """
    script = TABLE + evil + "INSERT INTO t VALUES (7); CREATE TABLE said (id int PRIMARY KEY, word text);"
    template = PostgresTemplate.build(importer.take(written(tmp_path, script), "evil", store).postgres_recipe(), server, spares=0)
    made = template.clone()
    with made.transaction() as session:
        made.execute(session, "INSERT INTO said VALUES (1, evil())")
    assert made.query("SELECT word FROM said").rows == (
        ("SET LOCAL ROLE NONE;ALTER ROLE SESSION_USER SET session_replication_role = replica;ALTER ROLE SESSION_USER PASSWORD 'x';",),
    )
    assert {change.table for change in made.take_changes()} == {"t", "said"}
    assert made.recompute() == made.fingerprint()
    made.close()
    other = template.clone()
    row = other._copy.link.execute("SHOW session_replication_role").fetchone()
    with server.admin() as admin:
        admin.execute(f"ALTER ROLE {server.worker} RESET session_replication_role".encode())
    assert row == ("origin",)
    other.close()
    template.close()


def test_a_trigger_of_a_cascade_hides_nothing(importer: Importer, tmp_path: Path, store: Path, server: Server) -> None:
    script = """
    CREATE TABLE t (id int PRIMARY KEY);
    CREATE TABLE u (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE);
    CREATE TABLE said (id serial PRIMARY KEY, word text);
    CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE what text;
    BEGIN
      FOREACH what IN ARRAY ARRAY['DELETE FROM wardian_journal', 'INSERT INTO wardian_journal (table_no, added) VALUES (1, true)',
                                  'ALTER TABLE said DISABLE TRIGGER ALL', 'TRUNCATE said', 'GRANT TRUNCATE ON said TO wardian_owner'] LOOP
        BEGIN EXECUTE what; INSERT INTO said (word) VALUES (what); EXCEPTION WHEN insufficient_privilege THEN NULL; END;
      END LOOP;
      RETURN OLD;
    END $$;
    CREATE TRIGGER evil BEFORE DELETE ON u FOR EACH ROW EXECUTE FUNCTION evil();
    INSERT INTO t VALUES (7); INSERT INTO u VALUES (1, 7); INSERT INTO said (word) VALUES ('before');
    """
    template = PostgresTemplate.build(importer.take(written(tmp_path, script), "cascade", store).postgres_recipe(), server, spares=0)
    made = template.clone()
    with made.transaction() as session:
        made.execute(session, "DELETE FROM t WHERE id = 7")
    assert made.query("SELECT word FROM said").rows == (("before",),)
    assert {change.table for change in made.take_changes()} == {"t", "u"}
    assert made.recompute() == made.fingerprint()
    made.close()
    template.close()
