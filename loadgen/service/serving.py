"""`specload serve`: until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from math import ceil
from typing import Any

import uvicorn

from loadgen.errors import ScenarioError
from loadgen.redact import Redactor, printable
from loadgen.service.app import guarded, make_app
from loadgen.service.checking import check
from loadgen.service.config import ServiceConfig
from loadgen.service.connections import SEND_BUFFER_BYTES, Listener
from loadgen.service.registry import alone
from loadgen.service.runner.spawner import UMASK, lower_priority
from loadgen.service.state import Service

#: Requests that are being answered when the service is told to stop get so long, then their connections are cut.
ANSWERS_S = 5.0
#: After that, for what they have begun.
AFTER_S = 2
#: Files that are open beside connections: the registry, pipes of runs, threads' own.
OTHER_FILES = 256
log = logging.getLogger("specload.service")


class _Masked(logging.Formatter):
    """Nothing is logged that holds a secret, steers a terminal, or looks like another entry: the lines after the first
    begin with a bar."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return printable(self._redact(super().format(record))).replace("\n", "\n  | ")


class _Loop(asyncio.SelectorEventLoop):
    """`handshake_s`: uvicorn leaves the time for a TLS handshake at asyncio's minute."""

    def __init__(self, handshake_s: float) -> None:
        super().__init__()
        self._handshake_s = handshake_s

    async def create_server(self, *values: Any, **more: Any) -> Any:
        timeout = {"ssl_handshake_timeout": self._handshake_s} if more.get("ssl") else {}
        return await super().create_server(*values, **more, **timeout)  # type: ignore[call-overload]


class _Server(uvicorn.Server):
    """uvicorn waits for every answer before the application hears that it ends: streams would never end, and runs
    begin to drain late."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        ending = asyncio.create_task(self._service.ending())
        cutting = asyncio.create_task(self._cut())
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()
            await asyncio.gather(ending, return_exceptions=True)

    async def _cut(self) -> None:
        """Who is still not done: to what answers it, it has gone."""
        await asyncio.sleep(ANSWERS_S)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def run_service(config: ServiceConfig, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM: then runs drain, and are kept. Raises ScenarioError or StorageError where it
    cannot begin."""
    for note in check(config):
        say(note)
    with alone(config.folders.database), listen_on(config) as listener:
        os.umask(UMASK)
        _run(Service(config), listener, say)


def _run(service: Service, listener: Listener, say: Callable[[str], None]) -> None:
    _log_to_stderr(service.redact)
    _open_files(service.config.limits.connections + OTHER_FILES)
    listener.connections, listener.speaks_tls = service.connections, service.config.listen.tls_cert is not None
    service.port = listener.getsockname()[1]
    say(f"specload serves at {service.url}")
    if not service.config.tokens:
        say("nobody can ask for anything: it has no tokens (specload serve --new-token NAME ROLE makes one)")
    lower_priority()
    for name in (signal.SIGINT, signal.SIGTERM):  # uvicorn has its own, and raises what came again when it has ended
        signal.signal(name, lambda *_: None)
    with asyncio.Runner(loop_factory=lambda: _Loop(service.config.limits.head_timeout_s)) as runner:
        runner.run(_serve(service, listener))


async def _serve(service: Service, listener: Listener) -> None:
    looking = asyncio.create_task(service.patience.look_on())
    try:
        await server_of(service).serve(sockets=[listener])
    finally:
        looking.cancel()


def server_of(service: Service) -> uvicorn.Server:
    listen = service.config.listen
    options: dict[str, Any] = {
        "http": service.patience.protocol, "log_config": None, "access_log": False,
        "server_header": False, "lifespan": "on", "ws": "none",
        "timeout_graceful_shutdown": ceil(ANSWERS_S) + AFTER_S, "proxy_headers": bool(listen.trusted_proxies),
        "forwarded_allow_ips": ",".join(listen.trusted_proxies),
    }  # fmt: skip
    if listen.tls_cert is not None:
        options |= {"ssl_certfile": str(listen.tls_cert)}
        options |= {} if listen.tls_key is None else {"ssl_keyfile": str(listen.tls_key)}
    return _Server(uvicorn.Config(guarded(make_app(service)), **options), service)


def listen_on(config: ServiceConfig) -> Listener:
    """Raises ScenarioError."""
    listen = config.listen
    listener: Listener | None = None
    try:
        family, kind, _, _, address = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)[0]
        listener = Listener(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)  # as those that it accepts
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ScenarioError([f"{listen.host}:{listen.port} cannot be listened on: {error.strerror or error}"]) from None
    return listener


def _open_files(needed: int) -> None:
    """As many as connections may need, where the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        if most < needed:
            log.warning("only %d files may be open: limits.connections may not be reached", most)


def _log_to_stderr(redact: Redactor) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Masked(redact))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("specload").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a line for each broken request would fill the disk
