"""Leases over HTTP, for whoever keeps no socket, and groups."""

from typing import Any

from fastapi import APIRouter, Request

from wardian.tools.contract import Json
from wardian.trainers.server.frames import leased
from wardian.trainers.server.problems import Code, Problem
from wardian.trainers.server.sessions import Sessions
from wardian.trainers.server.wire import Fork, Group, Key, Lease, Reset, action_of, checked

Body = dict[str, Any]


def router(sessions: Sessions) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["leases"])

    @routes.post("/sessions")
    async def make(body: Body) -> Body:
        """Make a lease, or give the one of that name: `created` says which."""
        session, created = sessions.lease(checked(Lease, body))
        return {**leased(session), "created": created}

    @routes.get("/sessions/{name}")
    async def look(name: str) -> Body:
        """State of a lease."""
        return sessions.find(name).described()

    @routes.delete("/sessions/{name}")
    async def close(name: str) -> Body:
        """End a lease. Twice is harmless."""
        return {"session_id": name, "closed": await sessions.close(name)}

    @routes.post("/sessions/{name}/heartbeat")
    async def heartbeat(name: str) -> Body:
        """Say that the lease is in use."""
        session = sessions.find(name)
        session.touch()
        return session.described()

    @routes.post("/sessions/{name}/reset")
    async def reset(name: str, body: Body) -> Body:
        """Begin an episode."""
        session, ask = sessions.find(name), checked(Reset, _asked(body))
        return await session.answer("reset", _id(body), lambda: session.reset(ask))

    @routes.post("/sessions/{name}/step")
    async def step(name: str, body: Body) -> Body:
        """Take a step: `{"action": {...}}`."""
        session, action = sessions.find(name), action_of(body.get("action"))
        return await session.answer("step", _id(body), lambda: session.step(action))

    @routes.post("/sessions/{name}/snapshot")
    async def snapshot(name: str, body: Body | None = None) -> Body:
        """Keep the whole state; gives its key."""
        session = sessions.find(name)

        async def take() -> dict[str, Json]:
            return {"snapshot": await session.snapshot()}

        return await session.answer("snapshot", _id(body or {}), take)

    @routes.post("/sessions/{name}/restore")
    async def restore(name: str, body: Body) -> Body:
        """Go on from a snapshot, which may be another lease's."""
        session = sessions.find(name)
        key: Key = checked(Key, _asked(body))
        return await session.answer("restore", _id(body), lambda: session.restore(key.snapshot))

    @routes.post("/sessions/{name}/fork")
    async def fork(name: str, body: Body) -> Body:
        """Make leases whose episodes go on as this one's."""
        session = sessions.find(name)
        ask: Fork = checked(Fork, _asked(body))

        async def make_forks() -> dict[str, Json]:
            return {"sessions": [leased(one) for one in await sessions.fork(session, ask.count, ask.prefix)]}

        return await session.answer("fork", _id(body), make_forks)

    @routes.post("/groups")
    async def group(request: Request, body: Body) -> Body:
        """Make `size` leases, all reset to one task; all of them, or none, also where nobody waits for them any more."""
        made = await sessions.group(checked(Group, body))
        if await request.is_disconnected():
            await sessions.close_all([session for session, _ in made], "caller")
        return {"group": [{**leased(session), "first": first} for session, first in made]}

    @routes.get("/counters")
    async def counters() -> Body:
        """What happened, as JSON."""
        return sessions.counted()

    return routes


def _asked(body: Body) -> Body:
    """All but the id of the call."""
    return {field: value for field, value in body.items() if field != "id"}


def _id(body: Body) -> str:
    found = body.get("id", "")
    if not isinstance(found, str | int) or len(str(found)) > 128:
        raise Problem(Code.VALIDATION_ERROR, "id: a text or a number of at most 128 characters is needed")
    return str(found)
