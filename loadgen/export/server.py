"""/metrics and /sd over HTTP, in a thread of the coordinator: no process that sends load or stamps answers a scrape."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from prometheus_client.exposition import choose_encoder

from loadgen.errors import ScenarioError
from loadgen.export.store import Metrics


class Exporter:
    """Serves until closed. `port` 0: any free one. Raises ScenarioError where the address cannot be had."""

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        handler = type("_Handler", (_Pages,), {"metrics": metrics, "exporter": self})
        try:
            self._server = _Server((host, port), handler)
        except OSError as error:
            raise ScenarioError([f"metrics cannot be served at {host}:{port}: {error.strerror or error}"]) from None
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, name="specload-metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{self._name}:{self.port}/metrics"

    @property
    def _name(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def targets(self) -> list[dict[str, Any]]:
        """Prometheus' HTTP service discovery: this one target."""
        return [{"targets": [f"{self._name}:{self.port}"], "labels": {"__meta_specload_role": "run"}}]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that goes away in the middle is its own affair."""


class _Pages(BaseHTTPRequestHandler):
    metrics: Metrics
    exporter: Exporter
    server_version = "specload"
    sys_version = ""
    timeout = 10

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("accept", ""))
            self._answer(200, content_type, encode(self.metrics.registry))
        elif path == "/sd":
            self._answer(200, "application/json", json.dumps(self.exporter.targets()).encode())
        elif path == "/-/healthy":
            self._answer(200, "text/plain; charset=utf-8", b"ok\n")
        else:
            self._answer(404, "text/plain; charset=utf-8", b"/metrics, /sd or /-/healthy\n")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """stderr belongs to the run's progress."""
