"""What can be asked of a lease, whichever way it comes: over its socket or by a request."""

import json
from collections.abc import Mapping
from typing import Any

from wardian.tools.contract import Json
from wardian.trainers.server.episodes import INSTALLED
from wardian.trainers.server.problems import Code, Problem, no_session
from wardian.trainers.server.session import Session, Work
from wardian.trainers.server.sessions import Sessions
from wardian.trainers.server.wire import Fork, Key, Reset, action_of, checked

REPLIES = {
    "reset": "observation",
    "step": "observation",
    "state": "state",
    "heartbeat": "state",
    "snapshot": "snapshot",
    "restore": "observation",
    "fork": "forked",
}
"""Types of frames that answer."""
ID_CHARS = 128


def id_of(asked: Mapping[str, Any]) -> str:
    """The id of a call; empty where it has none.

    Raises:
        Problem: it is none.
    """
    if "id" not in asked:
        return ""
    if not isinstance(asked["id"], str | int) or len(str(asked["id"])) > ID_CHARS:
        raise Problem(Code.VALIDATION_ERROR, f"Invalid message: id is a text or a number of at most {ID_CHARS} characters")
    return json.dumps(asked["id"])


async def carry_out(sessions: Sessions, session: Session, kind: str, data: Any = None, call_id: str = "") -> dict[str, Json]:
    """Do what is asked, one of `REPLIES`; gives what answers it.

    Raises:
        Problem: as `Session.answer`; or `data` is not what that takes, which names the field.
    """
    if kind in ("state", "heartbeat"):
        if session.closed:
            raise no_session(session.name)
        session.touch()
        return session.described()
    return await session.answer(kind, call_id, _work(sessions, session, kind, {} if data is None else data))


def _work(sessions: Sessions, session: Session, kind: str, data: Any) -> Work:
    match kind:
        case "reset":
            ask: Reset = checked(Reset, data)
            return lambda: session.reset(ask)
        case "step":
            action = action_of(data)
            return lambda: session.step(action)
        case "restore":
            key: Key = checked(Key, data)
            return lambda: session.restore(key.snapshot)
        case "fork":
            wanted: Fork = checked(Fork, data)

            async def fork() -> dict[str, Json]:
                return {"sessions": [leased(one) for one in await sessions.fork(session, wanted.count, wanted.prefix)]}

            return fork
    return session.snapshot


def leased(session: Session) -> dict[str, Json]:
    """A lease, as whoever made it is told."""
    return {
        "session_id": session.name,
        "world": session.world.name,
        "ttl_s": session.ttl_s,
        "lifetime_s": session.shared.limits.lifetime_s,
        "policy_token": session.policy_token,
        "mcp_path": f"/episodes/{session.name}/mcp" if INSTALLED else None,
    }
