"""Runs a SQL script for Postgres on an empty database, as somebody who may do nothing outside it. What psql would do for the script is done
here, so no shell, file or other host is within its reach."""

import re
from collections import Counter
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from wardian.sandbox.database.imports.report import LeftOut
from wardian.sandbox.database.imports.script import Command, Copy, Statement, parts_of
from wardian.sandbox.database.postgres.links import Link
from wardian.sandbox.database.postgres.problems import is_lost, lost, said
from wardian.sandbox.errors import ImportRefused

BLOCK = 1 << 20
_RULES = {
    "database": r"(CREATE|DROP|ALTER|COMMENT ON) DATABASE\b",
    "role": r"(CREATE|ALTER|DROP|COMMENT ON) (ROLE|USER|GROUP)\b|SET (SESSION |LOCAL )?(ROLE|AUTHORIZATION|SESSION AUTHORIZATION)\b"
    r"|SET SESSION AUTHORIZATION\b|RESET (ROLE|SESSION)\b|REASSIGN OWNED|DROP OWNED",
    "grant": r"(GRANT|REVOKE|ALTER DEFAULT PRIVILEGES|SECURITY LABEL)\b",
    "row policy": r"(CREATE|ALTER|DROP|COMMENT ON) POLICY\b|ALTER TABLE .*\bROW LEVEL SECURITY$",
    "server object": r"(CREATE|ALTER|DROP|COMMENT ON) (TABLESPACE|PUBLICATION|SUBSCRIPTION|EVENT|SERVER|FOREIGN|ACCESS)\b"
    r"|(CREATE|ALTER|DROP|COMMENT ON) (OR REPLACE )?(TRUSTED |PROCEDURAL )*LANGUAGE\b"
    r"|IMPORT FOREIGN|COMMENT ON EXTENSION|ALTER EXTENSION",
    "housekeeping": r"(VACUUM|ANALYZE|CLUSTER|CHECKPOINT|REINDEX|LISTEN|NOTIFY|UNLISTEN|LOAD|DISCARD)\b",
    "limit": r"SET (SESSION |LOCAL )?\w+_TIMEOUT\b",
}
_SKIPPED = {what: re.compile(pattern) for what, pattern in _RULES.items()}
_OWNER_TO = re.compile(r"\bOWNER\s+TO\s+(\"[^\"]+\"|\S+)\s*\Z", re.IGNORECASE)
_WHY = {
    "owner": "everything belongs to one owner",
    "grant": "tools may change rows and agents may read them, whatever was granted",
    "role": "clones have roles of their own",
    "row policy": "tools and agents see all rows",
    "database": "a template is one database",
    "server object": "it stands outside the database",
    "housekeeping": "it changes nothing in a template",
    "limit": "an import has limits of its own",
    "extension": "this server has none of that name that an owner may create",
    "setting": "this server has none of that name",
    "refused setting": "an owner of a database may not set it",
}
_IF_EXISTS = re.compile(r"\bIF (NOT )?EXISTS\b")
_NATIONAL = re.compile(r"(?<![\w'])[nN]'((?:[^']|'')*+)'")
"""Such texts are of type `character` on Postgres, which drops spaces at their end."""
_INTO = re.compile(r"INSERT\s+INTO\s+(?:ONLY\s+)?(?:\w+\.)?(\"[^\"]+\"|\w+)", re.IGNORECASE)
_NEEDS_FILES = ("\\i", "\\ir", "\\include", "\\include_relative", "\\copy", "\\lo_import", "\\gexec", "\\gset", "\\if", "\\elif", "\\else")
_GUARDS = ("\\restrict", "\\unrestrict")
"""Of pg_dump, against scripts that smuggle commands in: none is run here anyway."""
_TABLE = re.compile(r"CREATE (GLOBAL |LOCAL |TEMP |TEMPORARY |UNLOGGED )*TABLE\b")
_WRITES = re.compile(r"\b(?:INTO|INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
"""What may write begins with a word of `_READS` too, and then may give no rows."""
_READS = ("SELECT", "WITH", "VALUES", "TABLE", "SHOW")
DUMP_BEGINS, DUMP_ENDS = "-- PostgreSQL database dump", "-- PostgreSQL database dump complete"


def check_whole(script: str, name: str) -> None:
    """Look whether a dump of pg_dump has its end.

    Raises:
        ImportRefused: it has not.
    """
    if DUMP_BEGINS in script[:BLOCK].split("CREATE ", 1)[0] and DUMP_ENDS not in script[-BLOCK:]:
        raise ImportRefused(f"{name}: cut short: the last line of a dump, {DUMP_ENDS!r}, is missing; get the whole file")


class PostgresScript:
    """A run of one script on the database behind `link`, which must be nobody's but its own, no superuser's, and the owner's."""

    def __init__(self, link: Link, url: str) -> None:
        self._link, self._url = link, url
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._lines: dict[tuple[str, str], int] = {}
        self._database = self._home = ""
        self._has_tables = False
        self.trimmed: Counter[str] = Counter()
        """How many texts lost spaces at their end, by table."""

    def run(self, script: str) -> tuple[LeftOut, ...]:
        """Run it all, and give what was left out.

        Raises:
            ImportRefused: a statement failed or may not be run, or the script is cut short; with its line.
            DatabaseLost: the server is at fault.
        """
        line = 0
        try:
            for part in parts_of(script, "postgres"):
                line = part.statement.line if isinstance(part, Copy) else part.line
                if isinstance(part, Command) and part.name == "\\q":
                    self._skip("psql command", "\\q and all after it", line)
                    break
                self._one(part)
        except psycopg.Error as error:
            if is_lost(error):
                raise lost(self._url, error) from error
            raise ImportRefused(f"line {line}: {said(error)}{self._hint(error)}") from error
        if self._link.info.transaction_status != TransactionStatus.IDLE:
            raise ImportRefused("cut short: it ends inside a transaction; get the whole script, or end it with COMMIT;")
        return tuple(
            LeftOut(what=what, name=name, why=_WHY.get(what, ""), count=count, line=self._lines[what, name])
            for (what, name), count in self._skipped.items()
            if what != "limit"
        )

    def _one(self, part: Statement | Copy | Command) -> None:
        if isinstance(part, Command):
            self._command(part)
        elif isinstance(part, Copy):
            self._copy(part)
        elif reason := _reason_to_skip(part):
            what, name = reason
            self._skip(what, name, part.line)
        else:
            self._run(part)

    def _run(self, statement: Statement) -> None:
        words = statement.words
        if words[:1] == ("COPY",):
            if "TO" in words:
                self._skip("statement", "COPY ... TO", statement.line)
                return
            raise ImportRefused(
                f"line {statement.line}: COPY from a file of the server cannot be done; export the rows into the script (pg_dump)"
            )
        if _TABLE.match(" ".join(words)):
            self._note_table(statement)
        sql = statement.text.encode("latin-1")
        if words[:2] == ("CREATE", "EXTENSION"):
            self._try(sql, "extension", _after(statement.text, r"EXTENSION(?:\s+IF\s+NOT\s+EXISTS)?"), statement.line)
        elif words[:1] == ("SET",):
            self._try(sql, "setting", " ".join(words[1:2]).lower(), statement.line)
        elif words[:1] and words[0] in _READS and not _WRITES.search(statement.text):
            with self._link.cursor() as cursor:
                for _ in cursor.stream(sql):
                    pass
        else:
            self._link.execute(sql)
            if words[:2] == ("INSERT", "INTO") and (into := _INTO.match(statement.text)):
                count = sum(text.endswith(" ") for text in _NATIONAL.findall(statement.text))
                table = into.group(1)
                self.trimmed[table.strip('"') if table[0] == '"' else table.lower()] += count

    def _try(self, sql: bytes, what: str, name: str, line: int) -> None:
        """Run what other servers may have and this one may lack."""
        inside = self._link.info.transaction_status == TransactionStatus.INTRANS
        if inside:
            self._link.execute("SAVEPOINT wardian")
        try:
            self._link.execute(sql)
        except psycopg.Error as error:
            if (is_lost(error) and error.sqlstate != "58P01") or self._link.closed:
                raise
            if inside:
                self._link.execute("ROLLBACK TO SAVEPOINT wardian")
            self._skip("refused setting" if what == "setting" and error.sqlstate == "42501" else what, name, line)

    def _copy(self, part: Copy) -> None:
        data = part.data.encode("latin-1")
        with self._link.cursor() as cursor, cursor.copy(part.statement.text.encode("latin-1")) as copy:
            for at in range(0, len(data), BLOCK):
                copy.write(data[at : at + BLOCK])

    def _command(self, command: Command) -> None:
        name, argument = command.name, command.argument
        if name in _NEEDS_FILES:
            raise ImportRefused(f"line {command.line}: {name} needs psql or other files; dump the database (pg_dump) and import that")
        if name in ("\\c", "\\connect"):
            self._database = _database_of(argument) or self._database
        elif name == "\\encoding" and re.fullmatch(r"\w+;?", argument):
            self._link.execute(f"SET client_encoding TO {argument.rstrip(';')}".encode())
            return
        if name in _GUARDS:
            return
        self._skip("psql command" if name.startswith("\\") else "command", name, command.line)

    def _note_table(self, statement: Statement) -> None:
        if self._has_tables and self._database != self._home:
            both = f"{self._home or 'the first'} and {self._database}"
            raise ImportRefused(
                f"line {statement.line}: the script fills two databases, {both}; dump the one that you want: pg_dump {self._database}"
            )
        self._has_tables, self._home = True, self._database

    def _skip(self, what: str, name: str, line: int) -> None:
        name = name.encode("latin-1").decode("utf-8", "replace")
        self._skipped[what, name] += 1
        self._lines.setdefault((what, name), line)

    def _hint(self, error: psycopg.Error) -> str:
        state = error.sqlstate or ""
        missing = [name for what, name in self._skipped if what == "extension"]
        if state in ("42704", "42883") and missing:
            return f"; it may belong to {', '.join(missing)}, which this server does not have"
        if state == "42601":
            return f"; Postgres {self._link.info.server_version // 10000} does not know it; a newer or another database may"
        if state == "22021":
            return (
                "; the script is in another encoding than it says; convert it to UTF-8, or begin it with SET client_encoding TO 'LATIN1';"
            )
        if state == "42501":
            return "; an import has the rights of a database's owner and no more"
        return ""


def _reason_to_skip(statement: Statement) -> tuple[str, str] | None:
    """What kind of thing a statement is about that does not come, and its name."""
    words = " ".join(statement.words)
    if statement.words[:1] == ("ALTER",) and (found := _OWNER_TO.search(statement.text)):
        return "owner", found.group(1).strip('"')
    for what, pattern in _SKIPPED.items():
        if pattern.match(words):
            named = _IF_EXISTS.sub("", words).split()
            return what, " ".join(named[:3] if what in ("database", "role", "server object") else named[:1]).lower()
    return None


def _database_of(argument: str) -> str:
    """The database that \\connect names."""
    found = re.search(r"dbname=['\"]?([^'\"\s]+)", argument) or re.match(r"(?:-reuse\S+\s+)?['\"]?([^'\"\s;]+)", argument)
    return found.group(1) if found else ""


def _after(text: str, pattern: str) -> str:
    found: Any = re.search(pattern + r"\s+(\"[^\"]+\"|[\w-]+)", text, re.IGNORECASE)
    return str(found.group(1)).strip('"') if found else ""
