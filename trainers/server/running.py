"""The process of a server: its address, what it prints, signals and drain."""

import json
import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from wardian.rollouts.errors import UsageProblem
from wardian.trainers.server.access import App
from wardian.trainers.server.connections import timed
from wardian.trainers.server.options import Limits
from wardian.trainers.server.sessions import Sessions
from wardian.trainers.server.watchdog import Watchdog

_log = logging.getLogger(__name__)
LOCAL = ("127.0.0.1", "::1", "localhost")
TOKEN_CHARS = 16
BACKLOG = 2048
COLOURED = "color_message"
"""uvicorn gives each message a second time, for terminals, under this name."""
FORMAT, NAMES = "%(asctime)s %(levelname)s %(name)s %(message)s", {"levelname": "level", "asctime": "at"}


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def url(self) -> str:
        """As a client takes it."""
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def token_in(file: Path | None, host: str) -> str | None:
    """The trainers' token, the first line of `file`; `None` where there is no file, which only the loopback may do without.

    Raises:
        UsageProblem: there must be one and is none, or others may read it.
    """
    if file is None:
        if host not in LOCAL:
            raise UsageProblem(f"token_file: {host} can be reached from other machines; give --token-file, or leave --host out")
        return None
    try:
        mode, text = file.stat().st_mode, file.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"token_file: {file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if mode & 0o077:
        raise UsageProblem(f"token_file: others may read {file}; chmod 600 {file}")
    token = text.splitlines()[0].strip() if text.strip() else ""
    if len(token) < TOKEN_CHARS or not token.isprintable() or " " in token:
        raise UsageProblem(f"token_file: the first line of {file} is no token of at least {TOKEN_CHARS} characters without blanks")
    return token


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        UsageProblem: it cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its protocol asyncio knows connections that must not hold small answers back, which costs some 40 ms each.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise UsageProblem(f"port: {host}:{port} cannot be had: {error.strerror}; give another --port, or 0 for a free one") from error
    made.listen(BACKLOG)
    made.set_inheritable(False)
    return made


def log_lines(stream: Any = sys.stderr) -> None:
    """Log as one JSON object per line."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(FORMAT, rename_fields=NAMES, reserved_attrs=[*RESERVED_ATTRS, COLOURED]))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("httpx2").setLevel(logging.WARNING)


async def serve(app: App, listening: socket.socket, sessions: Sessions, limits: Limits, ready: Callable[[Address], None]) -> int:
    """Serve until SIGTERM or SIGINT, and let leases go on for their time; a second signal ends at once. Gives the signal's number."""
    host, port = listening.getsockname()[:2]
    config = uvicorn.Config(
        app,
        http=timed(limits.request_s),
        log_config=None,
        log_level="warning",  # it would tell of each socket that opens and closes
        access_log=False,
        lifespan="off",
        ws_max_size=limits.message_bytes,
        ws_per_message_deflate=False,
        ws_ping_interval=20,
        ws_ping_timeout=20,
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    server = _Server(config)
    watchdog = Watchdog(limits.drain_s, limits.end_s)
    watchdog.watch()
    async with anyio.create_task_group() as group:

        async def drain() -> None:
            await watchdog.first.wait()
            await sessions.drain()
            server.should_exit = True

        async def hurry() -> None:
            await watchdog.second.wait()
            server.should_exit = server.force_exit = True

        group.start_soon(drain)
        group.start_soon(hurry)
        group.start_soon(_tell, server, lambda: ready(Address(host, port)))
        await server.serve(sockets=[listening])
        group.cancel_scope.cancel()
    return watchdog.number


class _Server(uvicorn.Server):
    """Leaves signals to us."""

    @contextmanager
    def capture_signals(self) -> Any:
        yield


async def _tell(server: uvicorn.Server, ready: Callable[[], None]) -> None:
    while not server.started:  # noqa: ASYNC110 - it has no event
        await anyio.sleep(0.01)
    ready()


def announce(address: Address, worlds: list[str]) -> None:
    """Print where the server is, on a line of its own."""
    print(f"serving {address.url} {json.dumps(worlds)} pid {os.getpid()}", flush=True)
