"""What a forked rehearsal server runs: see the fixture `rehearsal`."""

from multiprocessing.connection import Connection

from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import serve


def serve_until_closed(config: RehearsalConfig, pipe: Connection) -> None:
    """Tells its URL, and ends when the other end of the pipe does."""
    serve(config, pipe.send, until_eof=pipe.fileno())
