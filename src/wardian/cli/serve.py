"""`wardian serve`: lease episodes of worlds to trainers and agent programs."""

import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from wardian.cli import database, options
from wardian.cli.console import errors_end_the_command, find_modules_here, folder
from wardian.envs.definition import WorldDefinition
from wardian.envs.registry import load_world, profile
from wardian.envs.splits import Split
from wardian.rollouts.errors import UsageProblem
from wardian.rollouts.folder import folder_for_a_run
from wardian.rollouts.sampling import split_asked

if TYPE_CHECKING:
    from wardian.trainers.server.options import ServeOptions
    from wardian.trainers.server.worlds import ServedWorld

Named = list[tuple[str, WorldDefinition]]
"""Worlds by the name they were asked for."""
SESSIONS = 256
"""Leases at once, where nobody says how many."""
RESERVED = {"episodes", "sessions", "groups", "counters", "metrics", "mcp", "ws", "list_environments"}
EXTRA = "serve: the extra 'serve' is not installed; pip install 'wardian[serve]'"


def register(app: typer.Typer) -> None:
    """Add this module's command to `app`."""
    app.command()(serve)


def serve(
    worlds: Annotated[list[str], typer.Argument(metavar="WORLD...", help="Names of worlds, or package.module:function.")],
    cells: Annotated[int, typer.Option(min=1, max=1024, help="Cells of each world: so many of its episodes at once.")] = 8,
    host: Annotated[str, typer.Option(help="Address. Any but the loopback needs --token-file.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one; the line that is printed says which.")] = 8900,
    token_file: Annotated[
        Path | None, typer.Option(help="File whose first line is the trainers' token; readable for its owner alone.")
    ] = None,
    sessions: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Leases at once. Default: 256, and no more than there are cells.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Only tasks of this split are played: train, eval, heldout, or all. For training leave it as it is.")
    ] = Split.TRAIN.value,
    faults: options.Faults = "none",
    malformed: options.Malformed = "recover",
    seed: Annotated[int, typer.Option(help="The list of tasks follows from it.")] = 0,
    tasks: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many tasks of each split are listed.")] = 1_000,
    tier: options.TierName = "auto",
    image: options.Image = None,
    out: Annotated[Path | None, typer.Option(help="Folder for trajectories of all that is played.", parser=folder, metavar="DIR")] = None,
    step_s: Annotated[float, typer.Option(help="Every call is answered within so many seconds.")] = 45.0,
    wait_s: Annotated[float, typer.Option(help="How long a reset waits for a free cell before it is told that there is none.")] = 5.0,
    ttl_s: Annotated[float, typer.Option(help="A lease without a socket that nobody used for so long ends.")] = 300.0,
    grace_s: Annotated[float, typer.Option(help="A lease that lost its socket, and nobody took up again, ends after so long.")] = 30.0,
    lifetime_s: Annotated[float, typer.Option(help="Every lease ends after so long.")] = 3600.0,
    drain_s: Annotated[float, typer.Option(help="After SIGTERM, leases may go on for so long.")] = 30.0,
    end_s: Annotated[float, typer.Option(help="The end itself may take so long; a tool that blocks for longer is left behind.")] = 60.0,
    request_s: Annotated[float, typer.Option(help="Head and body of a request must each be there within so many seconds.")] = 30.0,
    rate: Annotated[int, typer.Option(min=1, help="Requests and frames of one caller, a second.")] = 5_000,
    message_mib: Annotated[int, typer.Option(min=1, max=1024, help="Of one frame or body.")] = 16,
    db: Annotated[str, typer.Option(help=f"Engine of the worlds' databases: {database.NAMES}.")] = "sqlite",
    db_url: database.Url = None,
) -> None:
    """Lease episodes over HTTP and WebSocket, in OpenEnv's protocol. Runs until SIGTERM, which lets open leases come to their end.

    Prints one line when it is ready: `serving URL [worlds] pid N`. Logs are JSON lines on stderr.
    """
    parameters = {name: str(value) if isinstance(value, Path) else value for name, value in locals().items()}
    find_modules_here()
    with errors_end_the_command():
        must_have_extra()
        from wardian.trainers.server.running import bound, log_lines
        from wardian.trainers.server.watchdog import ended

        named = [(name, load_world(name)) for name in worlds]
        leasing = _leasing(parameters, [world for _, world in named])
        ground = {"cells": cells, "tier": options.tier_of(tier), "image": image, "database": database.choice_of(db, db_url)}
        with folder_for_a_run(out), bound(host, port) as listening:
            log_lines()
            shown = {name: value for name, value in parameters.items() if name not in ("db_url", "token_file")}
            anyio.run(_serve, named, leasing, ground, listening, shown)
            ended()


def _leasing(parameters: Mapping[str, Any], worlds: Sequence[WorldDefinition]) -> "ServeOptions":
    """The options, checked.

    Raises:
        UsageProblem, TaskError: one of them cannot be.
    """
    from wardian.trainers.server.options import Limits, ServeOptions
    from wardian.trainers.server.running import token_in

    names = [world.name for world in worlds]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageProblem(f"worlds: {', '.join(twice)} is given twice; each world of a server has a name of its own")
    if taken := sorted(set(names) & RESERVED):
        raise UsageProblem(f"worlds: {', '.join(taken)} is a route of the server; give the world another name")
    for world in worlds:
        profile(parameters["faults"], world)
    room = min(SESSIONS, parameters["cells"] * len(worlds)) if any(world.needs_cell for world in worlds) else SESSIONS
    given = {
        name: parameters[name] for name in ("step_s", "wait_s", "ttl_s", "grace_s", "lifetime_s", "drain_s", "end_s", "request_s", "rate")
    }
    try:
        limits = Limits(sessions=parameters["sessions"] or room, message_bytes=parameters["message_mib"] << 20, **given)
    except ValueError as error:
        raise UsageProblem(str(error)) from error
    files = {name: Path(parameters[name]) if parameters[name] else None for name in ("out", "token_file")}
    return ServeOptions(
        split=split_asked(parameters["split"]),
        faults=parameters["faults"],
        malformed=options.malformed_named(parameters["malformed"]),
        seed=parameters["seed"],
        tasks=parameters["tasks"],
        out=files["out"],
        token=token_in(files["token_file"], parameters["host"]),
        limits=limits,
    )


async def _serve(
    named: Named, leasing: "ServeOptions", ground: dict[str, Any], listening: socket.socket, parameters: Mapping[str, Any]
) -> None:
    from wardian.trainers.server.app import application, opened
    from wardian.trainers.server.running import announce, serve

    async with _grounds(named, leasing, ground) as served, opened(served, leasing, parameters) as sessions:
        app = application(sessions, leasing)
        await serve(app, listening, sessions, leasing.limits, lambda address: announce(address, list(served)))


@asynccontextmanager
async def _grounds(named: Named, leasing: "ServeOptions", ground: dict[str, Any]) -> "AsyncIterator[dict[str, ServedWorld]]":
    from wardian.trainers.server.worlds import open_world

    async with AsyncExitStack() as stack:
        served = {}
        for asked_for, world in named:
            served[world.name] = await stack.enter_async_context(open_world(world, asked_for, leasing, **ground))
        yield served


def must_have_extra() -> None:
    """Look that the server can be had.

    Raises:
        UsageProblem: a library of the extra is missing.
    """
    try:
        import fastapi  # noqa: F401
        import limits  # noqa: F401
        import prometheus_client  # noqa: F401
        import pythonjsonlogger  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageProblem(f"{EXTRA} ({error.name} is missing)") from error
