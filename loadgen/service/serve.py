"""`specload serve`: until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn

from loadgen.errors import ScenarioError
from loadgen.redact import Redactor, printable
from loadgen.service.app import guarded, make_app
from loadgen.service.config import ServiceConfig
from loadgen.service.runner.spawner import lower_priority
from loadgen.service.state import Service

#: Requests that are being answered when the service is told to stop get so long.
ANSWERS_S = 5


class _Masked(logging.Formatter):
    """Nothing is logged that holds a secret, or steers a terminal."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return printable(self._redact(super().format(record)))


def run_service(config: ServiceConfig, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM: then runs drain, and are kept. Raises ScenarioError or StorageError where it
    cannot begin."""
    service = Service(config)
    _log_to_stderr(service.redact)
    listener = _listen(config)
    service.port = listener.getsockname()[1]
    say(f"specload serves at {service.url}")
    if not config.tokens:
        say("nobody can ask for anything: it has no tokens (specload serve --new-token NAME ROLE makes one)")
    lower_priority()
    for name in (signal.SIGINT, signal.SIGTERM):  # uvicorn has its own, and raises what came again when it has ended
        signal.signal(name, lambda *_: None)
    asyncio.run(_serve(service, listener))


async def _serve(service: Service, listener: socket.socket) -> None:
    listen = service.config.listen
    options: dict[str, Any] = {
        "log_config": None, "access_log": False, "server_header": False, "lifespan": "on", "ws": "none",
        "timeout_graceful_shutdown": ANSWERS_S, "proxy_headers": bool(listen.trusted_proxies),
        "forwarded_allow_ips": ",".join(listen.trusted_proxies),
    }  # fmt: skip
    if listen.tls_cert is not None:
        options |= {"ssl_certfile": str(listen.tls_cert)}
        options |= {} if listen.tls_key is None else {"ssl_keyfile": str(listen.tls_key)}
    server = uvicorn.Server(uvicorn.Config(guarded(make_app(service)), **options))
    await server.serve(sockets=[listener])


def _listen(config: ServiceConfig) -> socket.socket:
    listen = config.listen
    try:
        family, kind, _, _, address = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise ScenarioError([f"{listen.host}:{listen.port} cannot be listened on: {error.strerror or error}"]) from None
    return listener


def _log_to_stderr(redact: Redactor) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Masked(redact))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("specload").setLevel(logging.INFO)
