"""What a forked rehearsal server runs: see the fixture `rehearsal`."""

import os
from multiprocessing.connection import Connection

from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import serve


def serve_until_closed(config: RehearsalConfig, pipe: Connection, environ: dict[str, str]) -> None:
    """Tells its URL, and ends when the other end of the pipe does. The process forked from has the environment of the test
    that came first: this one's own is `environ`."""
    os.environ.clear()
    os.environ.update(environ)
    serve(config, pipe.send, until_eof=pipe.fileno())
