"""What `wardian shell` reads commands for: a shell in the cell, or the world's database. Both only show what they were given as text."""

import sqlite3
import sys

from wardian.cli.console import visible
from wardian.sandbox.database.base import QueryLimits, Rows, WorldDatabase
from wardian.sandbox.errors import DatabaseProblem
from wardian.sandbox.session import ShellSession

LIMITS = QueryLimits(time_s=10.0, steps=1_000_000_000, rows=10_000, bytes=4 << 20)
"""A person may wait longer and read more than an agent."""


class ShellPrompt:
    """Commands for the shell of the cell."""

    hint = "Each command runs as the agent's user, without a terminal and without input; Ctrl-C ends it, Ctrl-D leaves."

    def __init__(self, session: ShellSession, step: int) -> None:
        self._session, self._step = session, step

    @property
    def ready(self) -> str:
        return f"step {self._step}:{visible(self._session.workdir)}$ "

    async def is_incomplete(self, text: str) -> bool:
        return await self._session.is_incomplete(text)

    async def run(self, text: str) -> tuple[int, bool]:
        answer = await self._session.run(text)
        for stream, data in ((sys.stdout, answer.stdout), (sys.stderr, answer.stderr)):
            shown = data.decode("utf-8", "replace")
            stream.write(visible(shown) if stream.isatty() else shown)
            stream.flush()
        if answer.note:
            print(visible(answer.note), file=sys.stderr)
        return answer.exit_code, answer.left


class SqlPrompt:
    """Read-only statements, each ended by a semicolon."""

    hint = "Read-only SQL; a statement ends with a semicolon. `.tables` lists tables and columns, Ctrl-D leaves."
    ready = "sql> "

    def __init__(self, database: WorldDatabase, tables: dict[str, list[str]]) -> None:
        self._database, self._tables = database, tables

    async def is_incomplete(self, text: str) -> bool:
        return not text.lstrip().startswith(".") and not sqlite3.complete_statement(text)

    async def run(self, text: str) -> tuple[int, bool]:
        code = 0
        for statement in statements(text):
            try:
                self._print(self._rows(statement))
            except DatabaseProblem as problem:
                print(visible(str(problem)), file=sys.stderr)
                code = 1
        return code, False

    def _rows(self, statement: str) -> Rows:
        if statement == ".tables":
            return Rows(("table", "columns"), tuple((name, ", ".join(columns)) for name, columns in self._tables.items()))
        return self._database.query(statement, limits=LIMITS)

    @staticmethod
    def _print(found: Rows) -> None:
        print("\t".join(map(_cell, found.columns)))
        for row in found.rows:
            print("\t".join(map(_cell, row)))
        if found.truncated:
            print(f"cut after {len(found.rows)} rows; use LIMIT and OFFSET", file=sys.stderr)


def statements(text: str) -> list[str]:
    """The single statements of a text; quotes and comments may hold semicolons, and a line that begins with a dot is one of its own."""
    found, rest = [], ""
    for line in text.splitlines(keepends=True):
        if not rest.strip() and line.startswith("."):
            found.append(line.strip())
            continue
        *ends, last = line.split(";")
        for part in ends:
            rest += f"{part};"
            if sqlite3.complete_statement(rest):
                found.append(rest.strip())
                rest = ""
        rest += last
    return [one for one in (*found, rest.strip()) if one.strip("; \n")]


def _cell(value: object) -> str:
    """One line, whatever is in it."""
    return "NULL" if value is None else visible(str(value)).replace("\n", "\\n").replace("\t", "\\t")
