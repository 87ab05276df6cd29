"""The container engine, with a deadline on every call and the failing step named in every error.

The SDK blocks, so each call runs in a worker thread and is abandoned at its deadline; the HTTP client has the same limit, so
that an abandoned thread ends by itself. Only `create` is ever repeated, and only where its outcome is unknown: the container's
name is random and chosen first, so that one which was made after all is adopted and never made twice.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import docker
from docker.api.client import APIClient
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.exceptions import RequestException, Timeout

from wardian.sandbox.errors import EngineUnavailable
from wardian.sandbox.labels import run_id
from wardian.sandbox.timeouts import Timeouts

T = TypeVar("T")
CREATES_AT_ONCE = 4
"""More make an engine slower, not faster; the rest wait here."""
CALLS_AT_ONCE = 32
CREATE_ATTEMPTS = 2
REMOVE_ATTEMPTS = 3
ADVICE = "start one with `make engine`, or set DOCKER_HOST to one that this user may use"


class Engine:
    """One container engine. Used within one event loop; its methods may be called concurrently."""

    def __init__(self, api: APIClient, timeouts: Timeouts) -> None:
        self._api = api
        self._timeouts = timeouts
        self._threads = anyio.CapacityLimiter(CALLS_AT_ONCE)
        self._creates = anyio.CapacityLimiter(CREATES_AT_ONCE)

    @classmethod
    def connect(cls, timeouts: Timeouts | None = None) -> "Engine":
        """Find the engine as Docker's command line does: DOCKER_HOST, else the current context, else the local socket.

        Blocking, for up to `engine_s`: it asks the engine for its API version. In async code use `open`.

        Raises:
            EngineUnavailable: there is none, it does not answer, or it is reached in a way that cannot carry raw streams.
        """
        limits = timeouts or Timeouts()
        try:
            api = docker.from_env(timeout=limits.engine_s, max_pool_size=CALLS_AT_ONCE).api  # type: ignore[arg-type]
        except (DockerException, RequestException, OSError) as error:
            raise EngineUnavailable("connect", f"{_words(error)}; {ADVICE}") from error
        if not api.base_url.startswith(("http://", "http+docker://localhost", "http+unix://")):
            api.close()
            raise EngineUnavailable(
                "connect", f"{api.base_url}: cells need a unix socket or plain TCP; forward the engine's socket over ssh"
            )
        return cls(api, limits)

    @classmethod
    async def open(cls, timeouts: Timeouts | None = None) -> "Engine":
        """`connect` in a worker thread.

        Raises:
            EngineUnavailable: as `connect`.
        """
        return await anyio.to_thread.run_sync(cls.connect, timeouts, abandon_on_cancel=True)

    def close(self) -> None:
        """Give back the connections. Idempotent; containers are left as they are."""
        self._api.close()

    async def run(self, step: str, call: Callable[[APIClient], T]) -> T:
        """Run one blocking `call` of the SDK in a thread, for at most `engine_s`.

        Raises:
            EngineUnavailable: it failed or did not answer in time; it may still take effect.
        """
        try:
            with anyio.fail_after(self._timeouts.engine_s):
                return await anyio.to_thread.run_sync(call, self._api, abandon_on_cancel=True, limiter=self._threads)
        except (DockerException, RequestException, OSError) as error:  # TimeoutError is an OSError
            raise self._failure(step, error) from error

    async def create(self, options: Mapping[str, Any], name: str | None = None) -> str:
        """Make a container from the engine API's own `options` and give its id. At most four are made at a time.

        `name` must be unique; by default it is random. Where no answer came, the container is looked up by that name. A cancelled
        call leaves nothing: what the engine makes after all is removed by the thread that hears of it.

        Raises:
            EngineUnavailable: the engine refused, or did not answer although asked again.
        """
        name = name or f"wardian-{run_id()}-{secrets.token_hex(6)}"
        async with self._creates:
            for _ in range(CREATE_ATTEMPTS - 1):
                try:
                    return await self._create_once(options, name)
                except EngineUnavailable as error:
                    if not _outcome_unknown(error.__cause__):
                        raise
                if found := await self.inspect(name):
                    return str(found["Id"])
            try:
                return await self._create_once(options, name)
            except EngineUnavailable as error:
                if isinstance(error.__cause__, APIError) and error.__cause__.status_code == 409 and (found := await self.inspect(name)):
                    return str(found["Id"])
                raise

    async def _create_once(self, options: Mapping[str, Any], name: str) -> str:
        """One attempt. A cancelled or late one cannot be called back, so its thread cleans up after a cancelled caller."""
        lock, cancelled = threading.Lock(), threading.Event()

        def call(api: APIClient) -> str:
            made = str(api.create_container_from_config(dict(options), name)["Id"])  # type: ignore[no-untyped-call]
            with lock:
                if cancelled.is_set():
                    self.remove_now(made)
            return made

        try:
            return await self.run("create", call)
        except anyio.get_cancelled_exc_class():
            with lock:
                cancelled.set()
            self.remove_soon(name)
            raise

    async def attach(self, container_id: str) -> socket.socket:
        """Open a raw stream to the container's stdin, stdout and stderr, as a connected, non-blocking socket of the caller's.

        To be done before `start`: what a container writes earlier than that is not seen. Output comes in the engine's frames
        (8 bytes of header: stream, three zeros, length).

        Raises:
            EngineUnavailable: the engine refused or did not answer.
        """
        return await self.run("attach", lambda api: _raw_stream(api, container_id))

    async def start(self, container_id: str) -> None:
        """Start a container that was made.

        Raises:
            EngineUnavailable: the engine refused or did not answer.
        """
        await self.run("start", lambda api: api.start(container_id))

    async def inspect(self, container_id: str) -> dict[str, Any]:
        """What the engine knows of a container, by id or name; empty when there is none.

        Raises:
            EngineUnavailable: the engine failed or did not answer.
        """

        def call(api: APIClient) -> dict[str, Any]:
            try:
                return dict(api.inspect_container(container_id))
            except NotFound:
                return {}

        return await self.run("inspect", call)

    async def ran_out_of_memory(self, container_id: str, since_s: float) -> bool:
        """Whether the engine has noted that memory ran out in a container since then, also in one that is gone; it keeps its last 256
        events. `since_s` is in seconds since the Unix epoch.

        Raises:
            EngineUnavailable: the engine failed or did not answer.
        """

        def call(api: APIClient) -> bool:
            # `until` makes the engine answer from its record and end the stream. It takes fractions, which the SDK's types leave out.
            since, until = (cast("Any", f"{moment:.9f}") for moment in (since_s, time.time()))
            noted = api.events(since=since, until=until, filters={"container": container_id, "event": "oom"}, decode=True)
            return any(True for _ in noted)

        return await self.run("events", call)

    async def ends(self, container_id: str) -> str:
        """How a container ended, also one that is gone, in words; the engine keeps its last 256 events.

        Raises:
            EngineUnavailable: the engine failed or did not answer.
        """

        def call(api: APIClient) -> str:
            until = cast("Any", f"{time.time():.9f}")
            noted = list(
                api.events(since=1, until=until, filters={"container": container_id, "event": ["oom", "kill", "die"]}, decode=True)
            )
            told = [str(one["Action"]) for one in noted if one["Action"] != "die"]
            codes = [f"exit code {one['Actor']['Attributes'].get('exitCode', '?')}" for one in noted if one["Action"] == "die"]
            return ", ".join([*told[-3:], *codes]) or "the engine has no record of its end"

        return await self.run("events", call)

    async def kill(self, container_id: str) -> None:
        """End every process of a container. One that is gone or not running is fine.

        Raises:
            EngineUnavailable: the engine failed or did not answer.
        """

        def call(api: APIClient) -> None:
            try:
                api.kill(container_id)
            except APIError as error:
                if error.status_code not in (404, 409):
                    raise

        await self.run("kill", call)

    async def remove(self, container_id: str, force: bool = True) -> None:
        """Remove a container and its anonymous volumes, and return when it is gone. One that is gone already is fine.

        Raises:
            EngineUnavailable: the engine failed, did not answer, or could not free the container's files in three attempts.
        """
        await self.run("remove", lambda api: _remove(api, container_id, force))

    async def discard(self, container_id: str) -> None:
        """Remove a container even where the caller is cancelled, and once more where the engine fails.

        Raises:
            EngineUnavailable: the engine failed or did not answer, twice.
        """
        with anyio.CancelScope(shield=True):
            try:
                await self.remove(container_id)
            except EngineUnavailable:
                self.remove_now(container_id)

    @asynccontextmanager
    async def held(self, options: Mapping[str, Any], name: str | None = None) -> AsyncIterator[tuple[str, socket.socket]]:
        """A container and its attached stream, made and not started; both are gone when the block ends.

        Raises:
            EngineUnavailable: the engine failed; the step is named.
        """
        container, stream = await self.create(options, name), None
        try:
            stream = await self.attach(container)
            yield container, stream
        finally:
            if stream is not None:
                stream.close()
            await self.discard(container)

    def remove_now(self, container_id: str) -> None:
        """Remove a container where no event loop can be relied on. Blocking, for up to `engine_s`; one that is gone is fine.

        Raises:
            EngineUnavailable: the engine failed or did not answer.
        """
        try:
            _remove(self._api, container_id, force=True)
        except (DockerException, RequestException, OSError) as error:
            raise self._failure("remove", error) from error

    def remove_soon(self, container_id: str) -> None:
        """Start removing a container in a thread of its own and return at once; for callers that were cancelled."""
        threading.Thread(target=self._remove_quietly, args=(container_id,), name="wardian-remove").start()

    def _remove_quietly(self, container_id: str) -> None:
        try:
            self.remove_now(container_id)
        except EngineUnavailable:
            return  # nobody waits for the answer; its labels let `wardian reap` find it

    async def info(self) -> dict[str, Any]:
        """The engine's own description of itself and its machine.

        Raises:
            EngineUnavailable: the engine failed or did not answer.
        """
        return dict(await self.run("info", lambda api: api.info()))

    async def version(self) -> dict[str, Any]:
        """Versions of the engine and its API.

        Raises:
            EngineUnavailable: the engine failed or did not answer.
        """
        return dict(await self.run("version", lambda api: api.version()))

    def _failure(self, step: str, error: Exception) -> EngineUnavailable:
        if isinstance(error, TimeoutError | Timeout):
            return EngineUnavailable(step, f"no answer within {self._timeouts.engine_s:g} s; see `docker info` and the engine's log")
        return EngineUnavailable(step, _words(error))


def _words(error: Exception) -> str:
    return str(getattr(error, "explanation", None) or error).strip() or type(error).__name__


def _outcome_unknown(error: BaseException | None) -> bool:
    """Whether the engine may have acted: silence, a broken connection, or a gateway that gave up waiting."""
    if isinstance(error, APIError):
        return error.status_code in (502, 504)
    return isinstance(error, TimeoutError | Timeout | RequestsConnectionError)


def _raw_stream(api: APIClient, container_id: str) -> socket.socket:
    """The connection that the SDK upgraded, as a descriptor of our own, so that nothing of the SDK can close or read it."""
    wrapper = api.attach_socket(container_id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    try:
        stream = socket.socket(fileno=os.dup(wrapper.fileno()))
    finally:
        wrapper._response.close()
    stream.setblocking(False)
    return stream


def _remove(api: APIClient, container_id: str, force: bool) -> None:
    for attempt in range(1, REMOVE_ATTEMPTS + 1):
        try:
            api.remove_container(container_id, force=force, v=True)
            return
        except NotFound:
            return
        except APIError as error:
            if "already in progress" in _words(error):
                _await_removed(api, container_id)
                return
            if attempt == REMOVE_ATTEMPTS or "busy" not in _words(error):
                raise


def _await_removed(api: APIClient, container_id: str) -> None:
    try:
        api.wait(container_id, condition="removed")
    except NotFound:
        return
