"""Read-only SQL for agents: `query_database` and `describe_database`.

The statement runs through `WorldDatabase.query`, which allows one read-only statement and caps time, rows and bytes. Values keep the
database's own form: money is minor units, instants are UTC text.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field
from sqlalchemy import MetaData, Table

from wardian.sandbox.database.base import QueryLimits, Rows
from wardian.tools.contract import Arguments, Json, Latency, Source, Tool, ToolContext

LIMITS = QueryLimits(rows=200, bytes=48 * 1024)


class QueryArguments(Arguments):
    sql: str = Field(min_length=1, max_length=20_000, description="One SELECT statement. Add ORDER BY: rows have no order of their own.")


class DescribeArguments(Arguments):
    """Nothing to say."""


async def _query(context: ToolContext, arguments: QueryArguments) -> Json:
    return answered(context.database.query(arguments.sql, limits=LIMITS))


def answered(found: Rows) -> dict[str, Json]:
    """Rows as an agent gets them."""
    answer: dict[str, Json] = {"columns": found.columns, "rows": found.rows}
    if found.truncated:
        answer["note"] = f"cut after {len(found.rows)} rows, there are more; narrow the statement or use LIMIT and OFFSET"
    return answer


def sql_tools(metadata: MetaData, scopes: tuple[str, ...] = ()) -> tuple[Tool[Any], ...]:
    """The two tools, for a world whose schema is `metadata`; an agent needs `scopes` to use them."""
    return query_tools({table.name: _columns(table) for table in sorted(metadata.tables.values(), key=lambda table: table.name)}, scopes)


def query_tools(described: Mapping[str, Mapping[str, str]], scopes: tuple[str, ...] = ()) -> tuple[Tool[Any], ...]:
    """The same, for tables of which only the names and the descriptions of their columns are known."""

    async def describe(context: ToolContext, arguments: DescribeArguments) -> Json:
        return {table: dict(columns) for table, columns in described.items()}

    common: dict[str, Any] = {"source": Source.QUERY, "scopes": scopes, "errors": ()}
    return (
        Tool(
            name="describe_database",
            description="List the tables, with type, keys and references of each column.",
            arguments=DescribeArguments,
            handler=describe,
            latency=Latency(5, 20),
            **common,
        ),
        Tool(
            name="query_database",
            description=f"Run one read-only SQL statement. Gives columns and rows, at most {LIMITS.rows}. Writing is refused.",
            arguments=QueryArguments,
            handler=_query,
            latency=Latency(20, 200),
            **common,
        ),
    )


def _columns(table: Table) -> dict[str, str]:
    return {column.name: _column(column) for column in table.columns}


def _column(column: Any) -> str:
    words = [str(column.type).lower()]
    if column.primary_key:
        words.append("primary key")
    elif not column.nullable:
        words.append("not null")
    words += [f"references {key.target_fullname}" for key in sorted(column.foreign_keys, key=lambda key: key.target_fullname)]
    return " ".join(words)
