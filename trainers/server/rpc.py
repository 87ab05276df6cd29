"""OpenEnv's JSON-RPC under `POST /mcp`: tools listed and called, leases made and closed.

It is no whole tool server; that is `/episodes/NAME/mcp`.
"""

import json
from typing import Any

from wardian.tools.contract import Json
from wardian.tools.encoding import text
from wardian.trainers.server import replies
from wardian.trainers.server.problems import Code, Problem, problem_of
from wardian.trainers.server.session import Session
from wardian.trainers.server.sessions import Sessions
from wardian.trainers.server.wire import Lease, Reset, action_of, checked

PARSE_ERROR = -32700
INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, SERVER_ERROR = -32600, -32601, -32602, -32000
CREATE, CLOSE, LIST, CALL = "openenv/session/create", "openenv/session/close", "tools/list", "tools/call"
_KNOWN = {"jsonrpc", "method", "params", "id"}


async def answer_text(sessions: Sessions, body: bytes, world: str | None = None) -> dict[str, Json]:
    """Answer a request as it came; never raises."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        return _error(None, PARSE_ERROR, f"Parse error: {error}")
    return await answer(sessions, request, world=world)


async def answer(sessions: Sessions, request: Any, session: Session | None = None, world: str | None = None) -> dict[str, Json]:
    """Answer one request; never raises. `session` is that of the socket it came by."""
    if not isinstance(request, dict):
        return _error(None, INVALID_REQUEST, "Invalid request: an object is needed")
    number = request.get("id")
    if not isinstance(number, str | int | None):
        number = None
    if isinstance(number, str):
        number = text(number)
    if request.get("jsonrpc") != "2.0" or not isinstance(request.get("method"), str) or set(request) - _KNOWN:
        return _error(number, INVALID_REQUEST, 'Invalid request: "jsonrpc": "2.0" and a "method" are needed, with "params" and "id"')
    params = request.get("params", {})
    if not isinstance(params, dict):
        return _error(number, INVALID_PARAMS, "Params must be an object")
    try:
        return {"jsonrpc": "2.0", "id": number, "result": await _done(sessions, request["method"], params, session, world)}
    except Problem as problem:
        code = {Code.UNKNOWN_TYPE: NO_METHOD, Code.VALIDATION_ERROR: INVALID_PARAMS, Code.SESSION_ERROR: INVALID_PARAMS}
        return _error(number, code.get(problem.code, SERVER_ERROR), problem.message, problem.body())
    except Exception as error:  # noqa: BLE001 - the edge of a call
        found = problem_of(error)
        return _error(number, SERVER_ERROR, found.message, found.body())


async def _done(sessions: Sessions, method: str, params: dict[str, Json], session: Session | None, world: str | None) -> Json:
    match method:
        case "openenv/session/create":
            if session is None:
                body = {"session_id": params.get("session_id"), "world": params.get("world", world)}
                session, _ = sessions.lease(checked(Lease, body))
            return {"session_id": session.name}
        case "openenv/session/close":
            name = _named(params)
            if session is not None and session.name == name:
                raise Problem(Code.VALIDATION_ERROR, "session_id: it is this socket's own; send a frame of type close")
            return {"session_id": name, "closed": await sessions.close(name)}
        case "tools/list":
            found = session or (sessions.find(_named(params)) if "session_id" in params else None)
            return {"tools": replies.tool_list(found.schemas() if found else sessions.world(world).schemas)}
        case "tools/call":
            return await _called(session or sessions.find(_named(params)), params)
    raise Problem(Code.UNKNOWN_TYPE, f"Method not found: {method}")


async def _called(session: Session, params: dict[str, Json]) -> Json:
    """The tool's reply, in `data`. Where no episode runs yet, the next one in the list is begun."""
    name, arguments = params.get("name"), params.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise Problem(Code.VALIDATION_ERROR, "Missing 'name' in params")
    if session.course is None:
        await session.answer("reset", "", lambda: session.reset(Reset()))
    action = action_of({"type": "call_tool", "tool_name": name, "arguments": arguments})
    reply = await session.answer("step", "", lambda: session.step(action))
    seen = reply["observation"]
    if seen["error"] is not None:
        raise Problem(
            Code.EXECUTION_ERROR, seen["error"]["message"], failure_kind=reply["metadata"]["failure_kind"], reward=None, done=True
        )
    return {**seen["result"], "reward": reply["reward"], "done": reply["done"], "metadata": reply["metadata"]}


def _named(params: dict[str, Json]) -> str:
    name = params.get("session_id")
    if not isinstance(name, str) or not name:
        raise Problem(Code.VALIDATION_ERROR, f"Invalid params - 'session_id' is required; make one with {CREATE}")
    return name


def _error(number: Json, code: int, message: str, data: Json = None) -> dict[str, Json]:
    error: dict[str, Json] = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": number, "error": error if data is None else {**error, "data": data}}
