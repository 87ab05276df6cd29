"""What every engine asks of an agent's statement before it reads it."""

from wardian.sandbox.errors import DatabaseProblem, DatabaseProblemKind

MAX_SQL_BYTES = 64 * 1024


def check_form(sql: str) -> None:
    """Look whether `sql` is text that can be read at all.

    Raises:
        DatabaseProblem: it holds NUL or a lone surrogate, or is too long.
    """
    if "\x00" in sql:
        raise DatabaseProblem(DatabaseProblemKind.SYNTAX, "the statement holds a NUL character")
    try:
        size = len(sql.encode())
    except UnicodeEncodeError:
        raise DatabaseProblem(DatabaseProblemKind.SYNTAX, "the statement is not valid Unicode") from None
    if size > MAX_SQL_BYTES:
        raise DatabaseProblem(DatabaseProblemKind.SYNTAX, f"the statement has {size} bytes; at most {MAX_SQL_BYTES} are read")
