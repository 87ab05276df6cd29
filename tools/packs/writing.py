"""Writing SQL for agents: `execute_sql`, one statement and one transaction per call, on rows of the world's tables alone."""

from pydantic import Field

from wardian.sandbox.database.base import QueryLimits
from wardian.tools.contract import Arguments, Json, Latency, Status, Tool, ToolContext
from wardian.tools.packs.sql import answered

LIMITS = QueryLimits(time_s=5.0, rows=200, bytes=48 * 1024)


class ExecuteArguments(Arguments):
    sql: str = Field(min_length=1, max_length=20_000, description="One INSERT, UPDATE or DELETE statement; RETURNING gives rows back.")
    idempotency_key: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="A text of your own. A second call with it does nothing and gives the first one's answer.",
    )


async def _execute(context: ToolContext, arguments: ExecuteArguments) -> Json:
    written = context.database.execute(context.db, arguments.sql, LIMITS)
    context.note("executed", rows=written.count)
    answer: dict[str, Json] = {"rows_changed": written.count}
    return answer if written.returned is None else answer | answered(written.returned)


def execute_tool(scopes: tuple[str, ...] = ()) -> Tool[ExecuteArguments]:
    """The tool; an agent needs `scopes` to use it."""
    return Tool(
        name="execute_sql",
        description=(
            "Run one INSERT, UPDATE or DELETE statement in a transaction of its own: it is done whole or not at all. "
            "Gives the number of rows that it changed. Reading, and changing the schema, is refused."
        ),
        arguments=ExecuteArguments,
        handler=_execute,
        mutates=True,
        scopes=scopes,
        errors=(Status.CONFLICT,),
        latency=Latency(20, 200),
        idempotent=False,
        idempotency_key="idempotency_key",
    )
