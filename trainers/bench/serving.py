"""The measurements: a step through the server beside one in process, many leases at once, and messages a second beside OpenEnv's server."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from websockets.asyncio.client import ClientConnection, connect

from wardian.envs.action import call
from wardian.envs.registry import load_world
from wardian.envs.settings import MalformedPolicy, Settings
from wardian.rollouts.bench.calls import TASK
from wardian.rollouts.bench.machine import describe, load
from wardian.rollouts.bench.samples import Numbers, Rate, Samples
from wardian.rollouts.bench.targets import Target
from wardian.rollouts.errors import RolloutError
from wardian.rollouts.ground import Ground, open_ground
from wardian.sandbox.engine import Engine
from wardian.tools.faults import PROFILES
from wardian.trainers.bench import rival
from wardian.trainers.client import Client
from wardian.trainers.client import connect as wardian_connect

ECHO = "wardian.trainers.bench.echo:world"
READY_S = 60.0
MANY = 256


@dataclass(frozen=True, slots=True)
class Scale:
    rounds: int
    steps: int
    """Of one episode, each way, in a round."""
    sockets: int
    messages: int
    """Of one socket in a round."""
    turns: int
    """Of one of the many leases."""


FULL = Scale(rounds=10, steps=20, sockets=16, messages=150, turns=10)
QUICK = Scale(rounds=2, steps=5, sockets=4, messages=20, turns=2)


async def measure_serving(scale: Scale, note: Callable[[str], None], openenv: Path | None) -> Numbers:
    """All of it. `openenv` is an interpreter that has OpenEnv; without one its row is missing.

    Raises:
        SandboxError: the engine, a cell or the template cannot be had.
        RolloutError: a server did not come up, or a reply was not the one that was asked for.
    """
    began = time.monotonic()
    engine = await Engine.open()
    try:
        machine = await describe(engine)
    finally:
        engine.close()
    found: Numbers = {"machine": machine, "leaks": 0}
    note("a step through the server, beside one in process")
    found["step"] = await _steps(scale)
    note(f"{MANY} leases at once on a world without cells")
    found["many"] = await _many(scale)
    note(f"{MANY} leases over 16 cells")
    found["many_on_cells"] = await _many_on_cells()
    note("messages a second" + (", beside OpenEnv's own server" if openenv else ""))
    found["messages"] = await _messages(scale, openenv)
    machine["load_at_end"] = load()
    found["leaks"] = found["many_on_cells"]["leaks"]
    found["wall_s"] = round(time.monotonic() - began, 1)
    found["targets"] = [target.judge(found) for target in TARGETS]
    return found


TARGETS = (
    Target("a step through the server over one in process, p50", "ms", 2, lambda n: n["step"]["over_ms"]),
    Target(f"of {MANY} leases at once, complete", "", MANY, lambda n: n["many"]["complete"], at_least=True),
    Target("replies of another lease", "", 0, lambda n: n["many"]["mixed_up"]),
    Target(f"of {MANY} leases over 16 cells, complete", "", MANY, lambda n: n["many_on_cells"]["complete"], at_least=True),
    Target("leaks", "", 0, lambda n: n["leaks"]),
)


# A step


async def _steps(scale: Scale) -> Numbers:
    """One episode in process, and the same one through the server, in turns; calls that look and one that writes."""
    near, far = Samples(), Samples()
    async with (
        open_ground(load_world("billing"), cells=1) as ground,
        _served("billing", "--cells", "1", "--split", "all") as url,
        wardian_connect(url) as client,
    ):
        for number in range(scale.rounds):
            await _in_process(ground, number, scale.steps, near)
            await _through(client, number, scale.steps, far)
    numbers: Numbers = {"in_process": near.numbers(), "served": far.numbers()}
    close, away = numbers["in_process"]["p50_ms"], numbers["served"]["p50_ms"]
    return {**numbers, "over_ms": None if close is None else round(away - close, 3)}


async def _in_process(ground: Ground, episode: int, steps: int, samples: Samples) -> None:
    async with ground.environment(PROFILES["none"], MalformedPolicy.RECOVER, Settings()) as env:
        await env.reset(TASK.format(episode))
        names = _readers([one["function"]["name"] for one in env.tool_schemas])
        for number in range(steps):
            name, arguments = names[number % len(names)]
            with samples.timed():
                step = await env.step(call(name, **arguments))
            if step.done:
                raise RolloutError(f"bench: the episode ended early: {step.failed or step.info.end_cause}")


async def _through(client: Client, episode: int, steps: int, samples: Samples) -> None:
    async with client.session() as session:
        first = await session.reset(TASK.format(episode))
        names = _readers([one["function"]["name"] for one in first.tools])
        for number in range(steps):
            name, arguments = names[number % len(names)]
            with samples.timed():
                turn = await session.call(name, arguments)
            if turn.done:
                raise RolloutError(f"bench: the episode ended early: {turn.message or turn.end_cause}")


def _readers(tools: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Calls of the billing world that look something up."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("get_invoice", {"invoice_id": 1}),
        ("list_invoices", {"customer_id": 1}),
        ("get_customer", {"customer_id": 1}),
    ]
    return [one for one in asked if one[0] in tools]


# Many leases


async def _many(scale: Scale) -> Numbers:
    """Each lease says what no other one says, all at once; what comes back must be that."""
    complete = mixed_up = 0
    turns = Samples()

    async def one(client: Client, number: int) -> None:
        nonlocal complete, mixed_up
        async with client.session() as session:
            await session.reset(index=number % 10)
            for turn in range(scale.turns):
                text = f"{number}/{turn}"
                with turns.timed():
                    heard = await session.call("echo", {"text": text})
                mixed_up += heard.results[0]["result"] != {"text": text}
        complete += 1

    async with _served(ECHO, "--sessions", str(MANY), "--rate", "1000000") as url, wardian_connect(url) as client:
        began = time.perf_counter()
        await asyncio.gather(*(one(client, number) for number in range(MANY)))
        wall_s = time.perf_counter() - began
        counters = await client.counters()
    if counters["sessions_opened"] != MANY or counters["calls"] != {"echo ok": MANY * scale.turns}:
        raise RolloutError(f"bench: the server counted {counters}")
    return {"complete": complete, "mixed_up": mixed_up, "wall_s": round(wall_s, 2), "step": turns.numbers()}


async def _many_on_cells() -> Numbers:
    """Each lease begins an episode of the toy world, looks twice and stops; 16 at a time have a cell, the others are told to wait."""
    complete = 0

    async def one(client: Client, number: int) -> None:
        nonlocal complete
        async with client.session() as session:
            await session.reset(index=number, wait_s=300)
            await session.call("list_items")
            turn = await session.say("Done.")
        complete += turn.done and turn.failure_kind is None

    async with _served("toy", "--cells", "16", "--sessions", str(MANY), "--rate", "1000000") as url, wardian_connect(url) as client:
        began = time.perf_counter()
        await asyncio.gather(*(one(client, number) for number in range(MANY)))
        wall_s = time.perf_counter() - began
        counters = await client.counters()
    if counters["sessions_opened"] != MANY:
        raise RolloutError(f"bench: the server counted {counters}")
    waited = counters["refused"].get("CAPACITY_REACHED", 0)
    return {"complete": complete, "wall_s": round(wall_s, 2), "told_to_wait": waited, "leaks": sum(counters["leaks"].values())}


# Messages


async def _messages(scale: Scale, openenv: Path | None) -> Numbers:
    """Echoes of each server in turns, by the same client, one message at a time on each socket."""
    rates = {"wardian": Rate(), "openenv": Rate()} if openenv else {"wardian": Rate()}
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(_served(ECHO, "--sessions", str(MANY), "--rate", "1000000"))
        addresses = {"wardian": ours}
        if openenv:
            addresses["openenv"] = await stack.enter_async_context(_rival(openenv, scale.sockets))
        for _ in range(scale.rounds):
            for name, rate in rates.items():
                await _batch(addresses[name], name, scale, rate)
    numbers: Numbers = {name: rate.numbers() for name, rate in rates.items()}
    if openenv:
        numbers["ratio"] = round(numbers["wardian"]["per_s"] / numbers["openenv"]["per_s"], 2)
    return numbers


async def _batch(url: str, name: str, scale: Scale, rate: Rate) -> None:
    async with AsyncExitStack() as stack:
        sockets = [
            await stack.enter_async_context(connect(f"ws{url.removeprefix('http')}/ws", compression=None, proxy=None))
            for _ in range(scale.sockets)
        ]
        for one in sockets:
            await _asked(one, {"type": "reset", "data": {}})
        with rate.timed(scale.sockets * scale.messages):
            await asyncio.gather(*(_talk(one, name, scale.messages) for one in sockets))


async def _talk(link: ClientConnection, name: str, messages: int) -> None:
    for number in range(messages):
        text = f"hello {number}"
        action = {"text": text} if name == "openenv" else {"type": "call_tool", "tool_name": "echo", "arguments": {"text": text}}
        seen = (await _asked(link, {"type": "step", "data": action}))["observation"]
        heard = seen["text"] if name == "openenv" else seen["results"][0]["result"]["text"]
        if heard != text:
            raise RolloutError(f"bench: {name} answered {heard!r} to {text!r}")


async def _asked(link: ClientConnection, frame: Any) -> Any:
    await link.send(json.dumps(frame))
    reply = json.loads(await link.recv())
    if reply["type"] == "error":
        raise RolloutError(f"bench: {reply['data']}")
    return reply["data"]


# Servers


@asynccontextmanager
async def _served(*words: str) -> AsyncIterator[str]:
    """`wardian serve` in a process of its own, as a trainer meets it."""
    command = [sys.executable, "-m", "wardian.cli", "serve", *words, "--port", "0", "--drain-s", "1"]
    process = subprocess.Popen(  # noqa: ASYNC220 - a moment
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        with anyio.fail_after(READY_S):
            line = await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
        if not line.startswith("serving "):
            raise RolloutError(f"bench: `wardian serve {' '.join(words)}` did not come up")
        yield line.split()[1]
    finally:
        await _ended(process, signal.SIGTERM)


@asynccontextmanager
async def _rival(python: Path, sessions: int) -> AsyncIterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = str(Path(rival.__file__))
    process = subprocess.Popen(  # noqa: ASYNC220 - a moment
        [str(python), script, str(port), str(sessions)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with anyio.fail_after(READY_S):
            while process.poll() is None:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    await anyio.sleep(0.1)
        if process.poll() is not None:
            raise RolloutError(f"bench: OpenEnv's server did not come up with {python}")
        yield f"http://127.0.0.1:{port}"
    finally:
        await _ended(process, signal.SIGKILL)


async def _ended(process: "subprocess.Popen[Any]", number: signal.Signals) -> None:
    with anyio.CancelScope(shield=True):
        process.send_signal(number)
        await anyio.to_thread.run_sync(process.wait)
        if process.stdout is not None:
            process.stdout.close()
