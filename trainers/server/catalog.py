"""What there is: health, metadata, schemas, metrics, and OpenEnv's routes of tasks. Tasks come with their names, never with their truth."""

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, TypeAdapter
from starlette.responses import JSONResponse

from wardian import __version__
from wardian.envs.splits import Split, split_named
from wardian.trainers.server import rpc
from wardian.trainers.server.problems import Code, Problem
from wardian.trainers.server.sessions import Sessions
from wardian.trainers.server.wire import AnyAction, Lease, Reset, checked
from wardian.trainers.server.worlds import ServedWorld

Body = dict[str, Any]
KINDS = {Split.TRAIN: "train", Split.EVAL: "validation", Split.HELDOUT: "test"}
"""What OpenEnv calls splits of these kinds."""
MOST = 10_000
"""Tasks of one answer."""


class Seen(BaseModel):
    """What an agent reads. Of a reset `tool_schemas` too; of one call `tool_name`, `result` and `error`, as OpenEnv's tool clients do."""

    model_config = ConfigDict(extra="allow")
    text: str
    results: list[dict[str, Any]]
    incoming: list[dict[str, Any]]
    tokens: int
    tool_schemas: list[dict[str, Any]] | None = None


class State(BaseModel):
    """A lease and its episode."""

    model_config = ConfigDict(extra="allow")
    episode_id: str | None
    step_count: int
    session_id: str
    world: str
    done: bool


class Asked(BaseModel):
    """Which tasks."""

    model_config = ConfigDict(extra="forbid")
    split: str
    index: int | None = None
    start: int | None = None
    stop: int | None = None


def router(sessions: Sessions, world: ServedWorld | None) -> APIRouter:
    """The routes of one world; `None` is the first one, under no prefix."""
    routes = APIRouter(tags=["environment"])
    served = world or sessions.world(None)
    _describe(routes, sessions, served)
    _answer_without_lease(routes, sessions, served)

    @routes.post("/mcp")
    async def mcp(request: Request) -> Body:
        """OpenEnv's JSON-RPC."""
        return await rpc.answer_text(sessions, await request.body(), world=world.name if world else None)

    return routes


def _describe(routes: APIRouter, sessions: Sessions, served: ServedWorld) -> None:
    @routes.get("/health")
    async def health() -> Response:
        """Whether leases can be had."""
        if sessions.draining:
            return JSONResponse({"status": "unhealthy"}, 503)
        return JSONResponse({"status": "healthy"})

    @routes.get("/metadata")
    async def metadata() -> Body:
        """What world this is, and what it can do."""
        return {
            "name": served.name,
            "description": served.world.title,
            "version": __version__,
            "worlds": list(sessions.worlds),
            "world_versions": {name: one.world.version for name, one in sessions.worlds.items()},
            "splits": [one.value for one in served.splits],
            "capabilities": {
                "set_state": True,
                "snapshot": True,
                "fork": True,
                "oracle": True,
                "canaries": True,
                "task_api": True,
                "llm_judged": False,
                "network": "no-network",
                "concurrent_sessions": sessions.shared.limits.sessions,
            },
        }

    @routes.get("/schema")
    async def schema() -> Body:
        """JSON Schemas of action, observation and state."""
        return {
            "action": TypeAdapter(AnyAction).json_schema(),
            "observation": Seen.model_json_schema(),
            "state": State.model_json_schema(),
            "reset": Reset.model_json_schema(),
        }


def _answer_without_lease(routes: APIRouter, sessions: Sessions, served: ServedWorld) -> None:
    """OpenEnv's routes that keep nothing between two requests; its validator looks for all three."""

    @routes.post("/reset")
    async def reset(body: Body | None = None) -> Body:
        """See how an episode begins. Nothing is kept: leases are at `/ws` and `/sessions`."""
        session, _ = sessions.lease(Lease(world=served.name))
        try:
            return await session.answer("reset", "", lambda: session.reset(checked(Reset, body or {})))
        finally:
            await sessions.close(session.name)

    @routes.post("/step")
    async def step(body: Body | None = None) -> Body:
        """Refused: without a lease there is no episode."""
        raise Problem(Code.SESSION_ERROR, "step: this route keeps no episode; open /ws, or make a lease with POST /sessions", status=409)

    @routes.get("/state")
    async def state() -> Body:
        """Of no episode; a lease's own is at `/sessions/NAME`."""
        return {"episode_id": None, "step_count": 0, "session_id": "", "world": served.name, "done": True}


def whole(sessions: Sessions) -> APIRouter:
    """The routes of the server as a whole: metrics, and tasks of each world."""
    routes = APIRouter(tags=["tasks"])

    @routes.get("/metrics")
    async def metrics() -> Response:
        """In the format of Prometheus."""
        sessions.gauge()
        return Response(sessions.shared.counters.text(), media_type="text/plain; version=0.0.4")

    @routes.get("/list_environments")
    async def environments() -> list[str]:
        """Names of the worlds."""
        return list(sessions.worlds)

    @routes.get("/{world}/tools")
    async def tools(world: str) -> Body:
        """All tools of a world, in the OpenAI format."""
        return {"tools": sessions.world(world).schemas, "env_name": world}

    @routes.get("/{world}/splits")
    async def splits(world: str) -> list[Body]:
        """Those that are served."""
        return [{"name": one.value, "type": KINDS[one]} for one in sessions.world(world).splits]

    @routes.post("/{world}/num_tasks")
    async def count(world: str, ask: Asked) -> Body:
        """How many tasks a split lists."""
        return {"num_tasks": len(sessions.world(world).tasks(split_named(ask.split)))}

    @routes.post("/{world}/tasks")
    async def every(world: str, ask: Asked) -> Body:
        """All of a split."""
        return {"tasks": _range(sessions.world(world), ask.split, None, None), "env_name": world}

    @routes.post("/{world}/task_range")
    async def some(world: str, ask: Asked) -> Body:
        """Those from `start` to before `stop`, by their place in the list; negative numbers count from its end."""
        return {"tasks": _range(sessions.world(world), ask.split, ask.start, ask.stop)}

    @routes.post("/{world}/task")
    async def one(world: str, ask: Asked) -> Body:
        """The one at `index`."""
        found = sessions.world(world)
        split, index = split_named(ask.split), ask.index
        if index is None or not 0 <= index < len(found.tasks(split)):
            raise Problem(Code.VALIDATION_ERROR, "Invalid task index", status=400)
        return {"task": found.listed(split, index)}

    return routes


def _range(world: ServedWorld, name: str, start: int | None, stop: int | None) -> list[Body]:
    split = split_named(name)
    places = range(len(world.tasks(split)))[start:stop][:MOST]
    return [world.listed(split, index) for index in places]
