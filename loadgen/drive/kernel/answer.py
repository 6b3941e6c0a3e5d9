"""One HTTP/1.1 answer: bytes of the wire in, body, pieces and stamps of an exchange out. No sockets.

llhttp finds the framing; the body is appended as it comes and not looked at.
"""

from __future__ import annotations

from array import array

import httpcore
import httptools

from loadgen.clock import now_ns
from loadgen.drive.kernel.aside import CHUNKED, NO_STAMP, OPEN, SIZED, Aside, Framing
from loadgen.drive.transport import BodyTooLarge, WireLimits, joined_headers
from loadgen.drive.types import Exchange

#: bytes in a row that bring no body: head, interim answers, trailers, chunk extensions. As h11's limit of the head
MAX_LOOSE_BYTES = 100 * 1024
#: reads of one body: with the body limit this bounds the memory of a stream (16 bytes each)
MAX_PIECES = 4_000_000

_BODYLESS = frozenset({204, 304})


class Answer:
    """Feeds on what the socket gave until `done`. A piece is one arrival: reads of the same stamp are one piece.

    Stamps never fall: bytes that overtook others on the network could not be read before those, so
    their arrival is that of the last to come.

    `keep_alive`: HTTP lets the connection be used again, and nothing came after the message. `done`: the
    message has ended, at `last_ns`. `feed` and `eof` raise `httpcore.RemoteProtocolError` (`closed` says whether the
    peer's end was the reason) or `BodyTooLarge`. Call `close` in the end: it breaks a reference cycle.
    """

    __slots__ = (
        "_add_end",
        "_add_ns",
        "_body",
        "_end",
        "_exchange",
        "_framed",
        "_head_only",
        "_headers",
        "_interim",
        "_kernel",
        "_limits",
        "_loose",
        "_parser",
        "_piece_ns",
        "_pieces",
        "_stamped",
        "_user",
        "closed",
        "done",
        "keep_alive",
        "last_ns",
        "on_body",
    )

    def __init__(self, exchange: Exchange, limits: WireLimits, method: str = "POST", stamped: bool = True) -> None:
        """`stamped`: the kernel has been asked for stamps, so that those which do not come are missing."""
        self.done = False
        self.closed = False
        self.keep_alive = False
        self._exchange = exchange
        self._body = exchange.body
        self.on_body = exchange.body.extend
        self._limits = limits
        self._head_only = method == "HEAD"
        self._headers: list[tuple[bytes, bytes]] = []
        self._interim = False
        self._framed = False  # the head says where the body ends
        self._end = -1  # length of the body, once it has ended
        self._piece_ns = -1
        self._pieces = 0
        self._add_ns = exchange.piece_ns.append
        self._add_end = exchange.piece_end.append
        self._loose = 0
        self.last_ns = 0
        self._stamped = stamped
        self._kernel = 0
        self._user = 0
        self._parser = httptools.HttpResponseParser(self)
        # What RFC 9112 lets a client take, as the plain wire does: bare LF (2.2), folded lines (5.2), a length beside
        # chunks (6.3; the connection is not used again)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_chunked_length=True, lenient_optional_cr_before_lf=True
        )

    def feed(self, data: bytes, kernel_ns: int | None) -> int:
        """Take one read. `kernel_ns` is its stamp, None: the kernel gave none. Returns the stamp it has got."""
        if kernel_ns is None:
            self._user += 1
            stamp_ns = now_ns()
        else:
            self._kernel += 1
            stamp_ns = kernel_ns
        if stamp_ns < self.last_ns:
            stamp_ns = self.last_ns
        else:
            self.last_ns = stamp_ns
        before = len(self._body)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.keep_alive = False
            self._account(before, len(data))
            if not self.done:
                raise httpcore.RemoteProtocolError(f"not HTTP/1.1: {error.__context__ or error}") from error
            return stamp_ns
        self._account(before, len(data))
        return stamp_ns

    def _account(self, before: int, read: int) -> None:
        """What a read of `read` bytes has added to a body of `before`: a piece, within the limits."""
        size = self._size()
        if size > before:
            stamp_ns = self.last_ns
            if stamp_ns == self._piece_ns:
                self._exchange.piece_end[-1] = size
            else:
                self._piece_ns = stamp_ns
                self._add_ns(stamp_ns)
                self._add_end(size)
                self._pieces += 1
        self._limit(size, before, read)

    def _size(self) -> int:
        size = len(self._body)
        if size > self._end >= 0:  # the body of a message nobody asked for
            size = self._end
            del self._body[size:]
        return size

    def _limit(self, size: int, before: int, read: int) -> None:
        if size > before:
            self._loose = 0
            if size > self._limits.max_body_bytes:
                raise BodyTooLarge(f"more than {self._limits.max_body_bytes} bytes")
            if self._pieces > MAX_PIECES:
                raise BodyTooLarge(f"in more than {MAX_PIECES} pieces")
        elif not self.done:
            self._loose += read
            if self._loose > MAX_LOOSE_BYTES:
                raise httpcore.RemoteProtocolError(f"{self._loose} bytes of head, trailers or chunk headers in a row")

    # ---------------------------------------------------------------- reads that the C reader has made

    def framing(self, read: bytes) -> Framing | None:
        """How the body goes on after `read`, which brought the end of the head. None: the C reader cannot follow it."""
        headers, size, limit = self._exchange.headers, len(self._body), self._limits.max_body_bytes
        if "transfer-encoding" in headers:
            at = read.find(b"\r\n\r\n")
            return None if at < 0 or "content-length" in headers else (CHUNKED, 0, read[at + 4 :], size, limit)
        if not self._framed:
            return OPEN, 0, b"", size, limit
        length = headers.get("content-length", "")
        left = int(length) - size if length.isascii() and length.isdigit() and len(length) < 19 else 0
        return (SIZED, left, b"", size, limit) if left > 0 else None

    def feed_aside(self, aside: Aside, plain: bool) -> bool:
        """`feed` of all the reads that are aside; what is raised is the same. `plain`: none of them is odd or has
        no stamp. False: the C reader has not followed the framing, and must not go on."""
        piece_ns = array("q", aside.piece_ns)
        if not plain or (piece_ns and piece_ns[0] < self.last_ns):
            at, reads = 0, array("q", aside.reads)
            for stamp_ns, size in zip(reads[::2], reads[1::2], strict=True):
                self.feed(aside.raw[at : at + size], None if stamp_ns == NO_STAMP else stamp_ns)
                at += size
        else:
            before = len(self._body)
            self._kernel += aside.number
            self.last_ns = max(self.last_ns, aside.last_ns)
            try:
                self._parser.feed_data(aside.raw)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                self.keep_alive = False
                self._account_aside(before, aside, piece_ns)
                if not self.done:
                    raise httpcore.RemoteProtocolError(f"not HTTP/1.1: {error.__context__ or error}") from error
            else:
                self._account_aside(before, aside, piece_ns)
        return len(self._body) == aside.body

    def _account_aside(self, before: int, aside: Aside, piece_ns: array[int]) -> None:
        """As `_account`. Where llhttp finds another body than the C reader did, all of it came by the last stamp."""
        size = self._size()
        if size > before:
            exchange, piece_end = self._exchange, array("q", aside.piece_end)
            if size != aside.body:
                piece_ns, piece_end = array("q", [self.last_ns]), array("q", [size])
            if piece_ns[0] == self._piece_ns:
                exchange.piece_end[-1] = piece_end[0]
                del piece_ns[0], piece_end[0]
            exchange.piece_ns.extend(piece_ns)
            exchange.piece_end.extend(piece_end)
            self._piece_ns = exchange.piece_ns[-1]
            self._pieces += len(piece_ns)
        self._limit(size, before, len(aside.raw))

    def eof(self) -> None:
        """The peer has closed: the end of a body without a length of its own, a cut of any other."""
        self.closed = True
        self.keep_alive = False
        self.last_ns = now_ns()
        if self._exchange.status is None or self._framed:
            raise httpcore.RemoteProtocolError("the peer closed the connection before the end of its answer")
        self._finish()

    def close(self) -> None:
        """Write down where the stamps came from, and let go of the parser."""
        exchange = self._exchange
        if self._kernel:
            exchange.timestamp_source = "kernel_partial" if self._user else "kernel"
        if self._stamped:
            exchange.missing_stamps = self._user
        del self._parser

    # ---------------------------------------------------------------- called by llhttp

    def on_message_begin(self) -> None:
        if self.done:
            self.keep_alive = False  # bytes after the end: nothing was asked that they could answer

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange.status is None:  # later ones are trailers
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.done:
            return
        status = self._parser.get_status_code()
        if status < 100 or status == 101:
            raise ValueError(f"status {status}, which was not asked for")
        self._interim = 100 <= status < 200
        if self._interim:
            self._headers.clear()
            return
        exchange, headers = self._exchange, joined_headers(self._headers)
        self._headers.clear()
        exchange.status, exchange.headers, exchange.headers_ns = status, headers, self.last_ns
        coding = headers.get("transfer-encoding", "chunked").lower()
        if coding != "chunked":
            raise ValueError(f"transfer-encoding {coding}")
        chunked, sized = "transfer-encoding" in headers, "content-length" in headers
        self._framed = status in _BODYLESS or chunked or sized
        self.keep_alive = self._framed and not (chunked and sized) and self._parser.should_keep_alive()
        if self._head_only:
            self.keep_alive = False
            self._finish()

    def on_message_complete(self) -> None:
        if not self.done and not self._interim:
            self._finish()

    def _finish(self) -> None:
        self.done = True
        self._end = len(self._body)
        self._exchange.complete = True
