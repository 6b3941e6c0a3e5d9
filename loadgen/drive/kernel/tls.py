"""TLS without a socket: `ssl.MemoryBIO` between the wire's bytes and the plain ones.

What a read of the socket decrypts gets the stamp of that read: the one that completed the record.
"""

from __future__ import annotations

import ssl

_RECORD_BYTES = 256 * 1024


class Tls:
    """One client-side session. Certificate checks are the context's; `server_hostname` is checked and sent as SNI."""

    def __init__(self, context: ssl.SSLContext, server_hostname: str) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)

    def shake(self) -> bool:
        """One step of the handshake; True when it is done. Raises ssl.SSLError. `to_send` may have bytes after it."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def feed(self, data: bytes) -> None:
        """Bytes from the socket; empty = the peer has closed."""
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def decrypt(self, data: bytes) -> tuple[bytes, bool]:
        """What `data` completes, and whether the session has ended. Empty: part of a record, or one without data."""
        self._incoming.write(data)
        plain = []
        try:
            while piece := self._object.read(_RECORD_BYTES):
                plain.append(piece)
        except ssl.SSLWantReadError:
            return b"".join(plain), False
        except ssl.SSLZeroReturnError:
            pass
        return b"".join(plain), True

    def encrypt(self, data: bytes) -> bytes:
        """All of `data` as records, whatever else was to be sent before them."""
        view, at = memoryview(data), 0
        while at < len(view):
            at += self._object.write(view[at:])
        return self.to_send()

    def to_send(self) -> bytes:
        """What the session itself wants to say."""
        return self._outgoing.read()
