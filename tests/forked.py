"""What a forked rehearsal server runs: see the fixture `rehearsal`."""

import os
from multiprocessing.connection import Connection

from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import serve


def serve_until_closed(config: RehearsalConfig, pipe: Connection, environ: dict[str, str]) -> None:
    """Tells its URL, and ends when the other end of the pipe does. `environ`: the process that is forked from has
    that of the test that came first."""
    os.environ.clear()
    os.environ.update(environ)
    serve(config, pipe.send, until_eof=pipe.fileno())
