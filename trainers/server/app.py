"""All of a server as one ASGI application."""

from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket

from wardian import __version__
from wardian.envs.errors import EnvsError
from wardian.rollouts.errors import UsageProblem
from wardian.sandbox.errors import SandboxError
from wardian.tools.contract import Json
from wardian.trainers.server import catalog, episodes, leases
from wardian.trainers.server.access import Access
from wardian.trainers.server.counters import Counters
from wardian.trainers.server.frames import Sockets
from wardian.trainers.server.log import ServerLog
from wardian.trainers.server.options import ServeOptions
from wardian.trainers.server.problems import Code, Problem, answered, problem_of
from wardian.trainers.server.session import Shared
from wardian.trainers.server.sessions import Sessions
from wardian.trainers.server.shelf import Shelf
from wardian.trainers.server.worlds import ServedWorld

PROTOCOL = "1.0.0"
"""OpenEnv's HTTP standard that is spoken; `info.version` says so."""


@asynccontextmanager
async def opened(worlds: Mapping[str, ServedWorld], options: ServeOptions, parameters: Mapping[str, Json]) -> AsyncIterator[Sessions]:
    """The leases of a server; all are closed, and logs on the disk, when the block ends.

    Raises:
        LogInUse, OSError: `options.out` cannot be written.
    """
    with ExitStack() as stack:
        logs = {name: stack.enter_context(ServerLog.open(options.out, world.setting, name, parameters)) for name, world in worlds.items()}
        async with anyio.create_task_group() as group:
            shelf = Shelf(options.limits.snapshots, options.limits.snapshot_bytes)
            sessions = Sessions(dict(worlds), logs, Shared(options.limits, Counters(), shelf, group))
            group.start_soon(sessions.sweep)
            try:
                yield sessions
            finally:
                await sessions.end("stop")
                group.cancel_scope.cancel()


def application(sessions: Sessions, options: ServeOptions) -> Access:
    """The application over those leases, with its guard around it."""
    app = FastAPI(
        title=f"Wardian {__version__}: {', '.join(sessions.worlds)}",
        version=PROTOCOL,
        docs_url=None,
        redoc_url=None,
    )
    sockets = Sockets(sessions)
    app.include_router(leases.router(sessions))
    app.include_router(catalog.router(sessions, None))
    for name, world in sessions.worlds.items():
        app.include_router(catalog.router(sessions, world), prefix=f"/{name}")
        app.add_api_route(f"/{name}/openapi.json", app.openapi, include_in_schema=False)
    app.include_router(catalog.whole(sessions))
    app.router.routes.extend(episodes.routes(sessions))

    @app.websocket("/ws")
    async def first(socket: WebSocket) -> None:
        await sockets.serve(socket)

    @app.websocket("/{world}/ws")
    async def named(socket: WebSocket, world: str) -> None:
        await sockets.serve(socket, world)

    _answer_errors(app, sessions)
    return Access(app, options.limits, options.token, sessions.shared.counters, sessions.worlds)


def _answer_errors(app: FastAPI, sessions: Sessions) -> None:
    """Answer whatever goes wrong in the form of a problem, and count it."""

    async def told(request: Request, error: Exception) -> JSONResponse:
        problem = problem_of(error)
        sessions.shared.counters.refused(problem.code.value)
        return answered(problem)

    async def misread(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return await told(request, Problem(Code.INVALID_JSON, f"Invalid JSON: {first['ctx']['error']}"))
        if first["loc"] == ("body",) and isinstance(error.body, bytes):
            given = request.headers.get("content-type", "none")
            fix = "send JSON with the header Content-Type: application/json"
            return await told(request, Problem(Code.VALIDATION_ERROR, f"content-type: {given} is not JSON's; {fix}", status=415))
        text = "; ".join(f"{'.'.join(map(str, one['loc'][1:])) or 'body'}: {one['msg']}" for one in error.errors()[:20])
        return await told(request, Problem(Code.VALIDATION_ERROR, f"Invalid request: {text}"))

    async def unrouted(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        match error.status_code:
            case 404:
                problem = Problem(Code.UNKNOWN_TYPE, f"path: no route {request.url.path}; /openapi.json lists them", status=404)
            case 405:
                ways = (error.headers or {}).get("Allow", "")
                problem = Problem(Code.UNKNOWN_TYPE, f"method: {request.method} is none of this route; it takes {ways}", status=405)
            case _:
                problem = Problem(Code.INVALID_JSON, f"Invalid request: {error.detail}", status=error.status_code)
        answer = await told(request, problem)
        answer.headers.update(error.headers or {})
        return answer

    app.add_exception_handler(HTTPException, unrouted)
    for kind in (Problem, EnvsError, SandboxError, UsageProblem):
        app.add_exception_handler(kind, told)
    app.add_exception_handler(RequestValidationError, misread)
