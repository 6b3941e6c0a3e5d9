"""What is forked from a process that has imported it: see the fixtures `rehearsal` and `forked_children`."""

import multiprocessing
import os
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext

from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import serve

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["tests.forked_preload"])


def instead_of_spawn(_method: str | None = None) -> ForkServerContext:
    """In place of multiprocessing.get_context: a run's workers and its scraper are forked, too. They are then in
    nobody's process group, and know nothing of the environment of who starts them."""
    return FORKING


def serve_until_closed(config: RehearsalConfig, pipe: Connection, environ: dict[str, str]) -> None:
    """Tells its URL, and ends when the other end of the pipe does. `environ`: the process that is forked from has
    that of the test that came first."""
    os.environ.clear()
    os.environ.update(environ)
    serve(config, pipe.send, until_eof=pipe.fileno())
