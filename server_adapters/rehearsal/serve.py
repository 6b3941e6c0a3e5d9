"""Start and stop rehearsal servers: in this event loop, in the foreground, or as a child process.

    async with rehearsal_server(RehearsalConfig(spec="draft:k=4")) as url: ...       # child process
    with rehearsal_server_sync(config) as url: ...                                   # the same, for sync code
    server = RehearsalServer(config); await server.start(); server.url; await server.stop()   # this loop
    serve(config)                                                                    # until SIGINT or SIGTERM

A child ends when its standard input closes, so it does not outlive its parent, however that ends."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from server_adapters.rehearsal.api import Face, build_app
from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.engine import Engine
from server_adapters.rehearsal.faults import Faults
from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.runner import Runner
from server_adapters.rehearsal.watch import Watch

_BACKLOG = 2048
_KEEP_ALIVE_S = 30
_STOP_S = 5.0
_START_TIMEOUT_S = 60.0


class ServeError(RuntimeError):
    """A server could not be started."""


class EngineExitError(RuntimeError):
    """The engine died and took the process with it: a fault with `exit_s`."""


class RehearsalServer:
    """One server in the running event loop. Raises ValueError for a configuration that cannot run."""

    def __init__(self, config: RehearsalConfig, models: Models | None = None) -> None:
        self.config = config
        self.faults = Faults(config.seed)
        for text in config.faults:
            self.faults.set_text(text, time.monotonic())
        self.runner = Runner(Engine(config.engine(), models), self.faults, config.max_pending_truths)
        self.face = Face(config, self.runner, self.faults)
        self._watch = Watch(self.runner, self.faults, self._flap, self._leave)
        self.left = asyncio.Event()
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                build_app(self.face),
                lifespan="off",
                log_level="critical",
                access_log=False,
                http="httptools",
                ws="none",
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=1,
                backlog=_BACKLOG,
            )
        )
        self._port = config.port

    @property
    def url(self) -> str:
        """Where it listens, once started."""
        return f"http://{self.config.host}:{self._port}"

    async def start(self) -> None:
        """Listen and serve. OSError where the port cannot be had."""
        listener = listen(self.config.host, self._port)
        self._port = listener.getsockname()[1]
        self.runner.start()
        self._watch.start()
        await self._uvicorn.open(listener)

    async def stop(self) -> None:
        """Close the port, end what runs, cut what does not end."""
        await self._watch.stop()
        await self.runner.stop()
        await self._uvicorn.close()

    async def _flap(self, closed_s: float) -> None:
        """The port is closed and every connection cut, and opened again after a while."""
        await self._uvicorn.unlisten()
        await asyncio.sleep(closed_s)
        await self._uvicorn.listen(listen(self.config.host, self._port))

    async def _leave(self) -> None:
        """As a process that ends: nothing listens any more, every connection is cut. Whoever runs the server ends with
        it (`left`)."""
        await self._uvicorn.unlisten()
        self.left.set()


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own main loop and signals, with a port that can be closed and opened."""

    async def open(self, listener: socket.socket) -> None:
        """Start on a listening socket."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup(sockets=[listener])
        self._ticker = asyncio.get_running_loop().create_task(self._tick())

    async def close(self) -> None:
        """Stop; open connections get a moment to end."""
        self._ticker.cancel()
        await asyncio.gather(self._ticker, return_exceptions=True)
        await self.shutdown()

    async def unlisten(self) -> None:
        """Refuse new connections and cut the open ones."""
        for server in self.servers:
            server.close()
        self.servers.clear()
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def listen(self, listener: socket.socket) -> None:
        """Accept again."""

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state
            )
            return made

        loop = asyncio.get_running_loop()
        self.servers.append(await loop.create_server(protocol, sock=listener, backlog=_BACKLOG))

    async def _tick(self) -> None:
        """What uvicorn's main loop does between requests: the Date header."""
        counter = 0
        while not await self.on_tick(counter):
            counter = (counter + 1) % 864_000
            await asyncio.sleep(0.1)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. OSError where it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it Nagle holds chunks for 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from None
    return listener


def serve(
    config: RehearsalConfig,
    ready: Callable[[str], None] | None = None,
    *,
    until_eof: int | None = None,
) -> None:
    """Serve until SIGINT, SIGTERM, or the end of the pipe `until_eof` (a descriptor).

    `ready` gets the URL once it listens. ValueError and OSError as of RehearsalServer; EngineExitError where a fault
    ended it."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, ready, until_eof))


async def _serve(config: RehearsalConfig, ready: Callable[[str], None] | None, until_eof: int | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until_eof is not None:
        loop.add_reader(until_eof, _stop_at_eof, until_eof, stop)
    server = RehearsalServer(config)
    gc.collect()
    gc.freeze()  # models live as long as the process: no collection needs to look at them
    await server.start()
    if ready is not None:
        ready(server.url)
    ends = [asyncio.ensure_future(event.wait()) for event in (stop, server.left)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for end in ends:
        end.cancel()
    await server.stop()
    if server.left.is_set():
        raise EngineExitError("the engine died, and the process ends as a fault wants it")


def _stop_at_eof(descriptor: int, stop: asyncio.Event) -> None:
    if not os.read(descriptor, 4096):
        stop.set()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where there is one (Linux, macOS)."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


@contextmanager
def rehearsal_server_sync(config: RehearsalConfig, timeout_s: float = _START_TIMEOUT_S) -> Iterator[str]:
    """A server in a child process; gives its URL. ServeError where it does not start."""
    child = _spawn(config)
    try:
        yield _await_url(child, timeout_s)
    finally:
        _end(child)


@asynccontextmanager
async def rehearsal_server(config: RehearsalConfig, timeout_s: float = _START_TIMEOUT_S) -> AsyncIterator[str]:
    """The same for asyncio, without blocking the loop."""
    child = _spawn(config)
    try:
        yield await asyncio.to_thread(_await_url, child, timeout_s)
    finally:
        await asyncio.to_thread(_end, child)


def to_json(config: RehearsalConfig) -> str:
    """A configuration as text, for another process."""
    return json.dumps(dataclasses.asdict(config))


def from_json(text: str) -> RehearsalConfig:
    """The configuration back. ValueError where it is none."""
    told = json.loads(text)
    try:
        return RehearsalConfig(**{**told, "faults": tuple(told.get("faults", ()))})
    except TypeError as error:
        raise ValueError(f"not a configuration of a rehearsal server: {error}") from None


def _spawn(config: RehearsalConfig) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "server_adapters.rehearsal", "--child", to_json(config)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _await_url(child: subprocess.Popen[bytes], timeout_s: float) -> str:
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], timeout_s)
    line = child.stdout.readline().decode().strip() if ready else ""
    if not line.startswith("http://"):
        state = "it said nothing in time" if not ready else f"it ended with status {child.wait(_STOP_S)}"
        raise ServeError(f"the rehearsal server did not start: {state}")
    return line


def _end(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.close()
    try:
        child.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    child.stdout.close()
