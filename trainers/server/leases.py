"""Leases over HTTP, for whoever keeps no socket, and groups."""

from typing import Any

from fastapi import APIRouter, Request

from wardian.trainers.server.calls import carry_out, id_of, leased
from wardian.trainers.server.sessions import Sessions
from wardian.trainers.server.wire import Group, Lease, checked

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

    async def asked(name: str, kind: str, body: Body | None) -> Body:
        body = body or {}
        data = body.get("action") if kind == "step" else {field: value for field, value in body.items() if field != "id"}
        return await carry_out(sessions, sessions.find(name), kind, data, id_of(body))

    @routes.post("/sessions/{name}/heartbeat")
    async def heartbeat(name: str, body: Body | None = None) -> Body:
        """Say that the lease is in use."""
        return await asked(name, "heartbeat", body)

    @routes.post("/sessions/{name}/reset")
    async def reset(name: str, body: Body) -> Body:
        """Begin an episode."""
        return await asked(name, "reset", body)

    @routes.post("/sessions/{name}/step")
    async def step(name: str, body: Body) -> Body:
        """Take a step: `{"action": {...}}`."""
        return await asked(name, "step", body)

    @routes.post("/sessions/{name}/snapshot")
    async def snapshot(name: str, body: Body | None = None) -> Body:
        """Keep the whole state; gives its key."""
        return await asked(name, "snapshot", body)

    @routes.post("/sessions/{name}/restore")
    async def restore(name: str, body: Body) -> Body:
        """Go on from a snapshot, which may be another lease's."""
        return await asked(name, "restore", body)

    @routes.post("/sessions/{name}/fork")
    async def fork(name: str, body: Body) -> Body:
        """Make leases whose episodes go on as this one's."""
        return await asked(name, "fork", body)

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
