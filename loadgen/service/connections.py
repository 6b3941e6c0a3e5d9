"""Connections at the door: how many there are, and of whom, before anything is read from them."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.service.limits import source_of

#: Bytes of an answer that the kernel takes for a client that reads none: the rest waits here, where it is seen.
SEND_BUFFER_BYTES = 128 << 10
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 5\r\nconnection: close\r\n"
    b"content-length: 29\r\n\r\ntoo many connections are open\n"
)
Peer = tuple[str, int]


@dataclass(slots=True)
class _Open:
    """`known`: a token was shown on it, and was right."""

    connection: weakref.ref[socket.socket]
    source: str
    counted: bool
    known: bool = False

    @property
    def gone(self) -> bool:
        found = self.connection()
        return found is None or found.fileno() == -1


class Connections:
    """`most` in all; of one source, `most_unknown` on which no token was shown yet. `proxies` stand for many: theirs
    are counted in all only. On the service's loop only."""

    def __init__(self, most: int, most_unknown: int, proxies: Sequence[str], refused: Callable[[], None]) -> None:
        self._most = most
        self._most_unknown = most_unknown
        self._proxies = [ipaddress.ip_network(text) for text in proxies]
        self._refused = refused
        self._open: dict[Peer, _Open] = {}

    def admit(self, connection: socket.socket, peer: Peer) -> bool:
        """Whether there is room for it. TLS has not begun."""
        self._open = {at: one for at, one in self._open.items() if not one.gone}
        source = source_of(peer[0])
        unknown = sum(one.counted and not one.known and one.source == source for one in self._open.values())
        counted = not self._is_proxy(peer[0])
        if len(self._open) >= self._most or (counted and unknown >= self._most_unknown):
            self._refused()
            return False
        self._open[peer] = _Open(weakref.ref(connection), source, counted)
        return True

    def known(self, peer: Peer | None) -> None:
        """A token was shown on this connection, and is right."""
        found = self._open.get((peer[0], peer[1])) if peer is not None else None
        if found is not None:
            found.known = True

    def _is_proxy(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self._proxies if network.version == found.version)


class Listener(socket.socket):
    """A listening socket that accepts what is admitted; the rest is closed at once, without TLS with a word."""

    #: None: everybody is welcome
    connections: Connections | None = None
    speaks_tls = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises ConnectionAbortedError for one that is not admitted: to the event loop it is gone already."""
        connection, address = super().accept()
        if self.connections is None or self.connections.admit(connection, (str(address[0]), int(address[1]))):
            return connection, address
        if not self.speaks_tls:
            with contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.send(_FULL)
        connection.close()
        raise ConnectionAbortedError
