"""What `inspect sandbox cleanup wardian` does: the second line, since cells vanish with their owner."""

import re

from wardian.sandbox.engine import Engine
from wardian.sandbox.errors import CellUnavailable
from wardian.sandbox.labels import is_ours
from wardian.sandbox.reap import reap


async def clean(name: str | None) -> list[str]:
    """Remove everything of ours in the engine that has no living owner; or the one cell called `name`, whoever has it.

    Gives a line for each thing that was removed.

    Raises:
        EngineUnavailable: the engine did not answer.
        CellUnavailable: there is no cell of that name, or it is none of ours.
    """
    engine = await Engine.open()
    try:
        if name is None:
            report = await reap(engine)
            return [f"removed {one}" for one in report.removed] or ["nothing of ours is left without an owner"]
        found = await engine.run("find cell", lambda api: api.containers(all=True, filters={"name": f"^/?{re.escape(name)}$"}))
        if not found or not is_ours(found[0]["Labels"] or {}):
            raise CellUnavailable(f"there is no cell called {name}; `docker ps --filter label=io.wardian.kind=cell` lists them")
        await engine.remove(found[0]["Id"])
        return [f"removed container {name}"]
    finally:
        engine.close()
