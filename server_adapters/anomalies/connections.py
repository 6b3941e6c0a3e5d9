"""Anomalies of the connection: slow and endless bodies, disconnects, request ids, HTTP that is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from server_adapters.anomalies.bodies import EITHER, SERVED
from server_adapters.anomalies.types import (
    Anomaly,
    Await,
    Expected,
    Group,
    Leave,
    Pause,
    Script,
    Send,
    Setting,
    Step,
)
from server_adapters.anomalies.wire import PATHS, answered, asked, body_of, encoded, head, stream_of

#: We go before the end, and what has come by then must be the beginning of a success.
LEFT = Expected(frozenset({200}), left=True)
#: A server may answer what it makes of it, refuse it, or close.
ANY_REFUSAL = Expected(
    frozenset({400, 404, 405, 408, 411, 413, 414, 417, 422, 431, 501, 505}), closed=True
)  # fmt: skip
ONCE = Expected(ANY_REFUSAL.statuses | {200}, closed=True)
#: A request that never ends may be given up by the server at any time, or never.
UNFINISHED = Expected(frozenset({400, 408, 413}), closed=True, timeout=True)
UNFINISHED_S = 5.0
#: Connections of a storm.
STORM = 20


def connections() -> Iterator[Anomaly]:
    yield from _slow()
    yield from _disconnects()
    yield from _ids()
    yield from _http()


def _one(group: Group) -> Callable[..., Anomaly]:
    def make(
        name: str, what: str, how: Callable[[Setting], Script], expected: Expected, *rows: str
    ) -> Anomaly:  # fmt: skip
        return Anomaly(name, group, what, how, expected, rows)

    return make


def _good(setting: Setting) -> tuple[bytes, bytes]:
    """Head and body of a small good request."""
    data = encoded(body_of(setting))
    return head(setting, len(data)), data


def _slowly(setting: Setting) -> Script:
    first, data = _good(setting)
    return Script((Send(first), Send(data[:60], every_s=0.05), Send(data[60:]), Await("end")))


def _slow_head(setting: Setting) -> Script:
    first, data = _good(setting)
    return Script((Send(first[:60], every_s=0.05), Send(first[60:] + data), Await("end")))


def _endless_body(setting: Setting) -> Script:
    first, data = _good(setting)
    longer = first.replace(f"content-length: {len(data)}".encode(), f"content-length: {len(data) + 1000}".encode())
    return Script((Send(longer + data), Await("end")), answer_s=UNFINISHED_S)


def _endless_head(setting: Setting) -> Script:
    first, _ = _good(setting)
    return Script((Send(first[:-2]), Await("end")), answer_s=UNFINISHED_S)


def _slow() -> Iterator[Anomaly]:
    one = _one("slow")
    yield one("slow_body", "a body whose first 60 bytes take 3 s", _slowly, SERVED)
    yield one("slow_head", "headers whose first 60 bytes take 3 s", _slow_head, SERVED)
    yield one("endless_body", "a body of fewer bytes than it says", _endless_body, UNFINISHED)
    yield one("endless_head", "headers that do not end", _endless_head, UNFINISHED)
    yield one("unread_answer", "a stream that nobody reads for 3 s",
              lambda s: Script((Send(stream_of(s)), Pause(3.0), Await("body"), Leave(reset=True))), LEFT)  # fmt: skip


def _cut(share_of_head: float, share_of_body: float = 0.0, reset: bool = False) -> Callable[[Setting], Script]:
    def make(setting: Setting) -> Script:
        first, data = _good(setting)
        sent = first[: int(len(first) * share_of_head)] + data[: int(len(data) * share_of_body)]
        return Script(((Send(sent), Pause(0.1)) if sent else ()) + (Leave(reset),))

    return make


def _leaving(*steps: Step, connections: int = 1, reset: bool = False) -> Callable[[Setting], Script]:
    """A long stream that is asked for and left after `steps`."""
    return lambda setting: Script((Send(stream_of(setting)), *steps, Leave(reset)), connections)


def _disconnects() -> Iterator[Anomaly]:
    one = _one("disconnect")
    read = (Await("body"), Pause(0.2))
    yield one("leave_connected", "nothing is sent", _cut(0), LEFT)
    yield one("leave_in_head", "gone within the headers", _cut(0.5), LEFT)
    yield one("leave_in_body", "gone within the body", _cut(1, 0.5), LEFT)
    yield one("reset_in_body", "reset within the body", _cut(1, 0.5, reset=True), LEFT)
    yield one("leave_before_answer", "gone when all is sent", _leaving(), LEFT, "H20")
    yield one("leave_after_head", "gone with the head of the answer", _leaving(Await("head")), LEFT, "H20")
    yield one("leave_in_stream", "gone in the middle of a stream", _leaving(*read), LEFT, "H20")
    yield one("reset_in_stream", "reset in the middle of a stream", _leaving(*read, reset=True), LEFT, "H20")
    yield one(
        "storm_before_answer", f"{STORM} at once, gone when all is sent", _leaving(connections=STORM), LEFT, "H20"
    )
    yield one("storm_in_stream", f"{STORM} streams at once, all left", _leaving(*read, connections=STORM), LEFT, "H20")
    yield one("storm_reset", f"{STORM} streams at once, all reset",
              _leaving(*read, connections=STORM, reset=True), LEFT, "H20")  # fmt: skip


def _with_id(value: str, connections: int = 1) -> Callable[[Setting], Script]:
    def make(setting: Setting) -> Script:
        script = asked(setting, {"max_tokens": 32}, extra=(f"x-request-id: {value}",))
        return Script(script.steps, connections)

    return make


def _ids() -> Iterator[Anomaly]:
    one = _one("ids")
    yield one("id_twice", "two requests with one id at once", _with_id("specload-same-id", 2), EITHER, "A25")
    yield one("id_long", "an id of 8,000 letters", _with_id("i" * 8000), ONCE)
    yield one("id_odd", "an id of quotes, commas and percent signs", _with_id('";,%0d%0a%00{}'), EITHER)


def _smuggled(setting: Setting, lines: tuple[str, ...], data: bytes) -> Script:
    return answered(head(setting, None, extra=lines) + data)


def _hidden(setting: Setting) -> bytes:
    """A harmless request, to be hidden in another one's body."""
    return f"GET {setting.path}/health HTTP/1.1\r\nhost: {setting.host}\r\n\r\n".encode("latin-1")


def _chunked(data: bytes, size: str | None = None) -> bytes:
    return f"{size or format(len(data), 'x')}\r\n".encode() + data + b"\r\n0\r\n\r\n"


def _http() -> Iterator[Anomaly]:
    one = _one("http")
    te = "transfer-encoding: chunked"

    def both(setting: Setting) -> Script:
        data = _chunked(_good(setting)[1])
        return _smuggled(setting, (f"content-length: {len(data)}", te), data)

    def short_length(setting: Setting) -> Script:
        return _smuggled(setting, ("content-length: 4", te), _chunked(_good(setting)[1]) + _hidden(setting))

    def two_lengths(setting: Setting) -> Script:
        data = _good(setting)[1]
        return _smuggled(setting, (f"content-length: {len(data)}", "content-length: 3"), data)

    def lined(line: str) -> Callable[[Setting], Script]:
        """A good request with one more header line."""
        return lambda s: answered(head(s, len(_good(s)[1]), extra=(line,)) + _good(s)[1])

    def started(line: str, data: bytes = b"") -> Callable[[Setting], Script]:
        """Another request line, in which {path} is the endpoint's."""
        return lambda s: answered(
            head(s, len(data), start=line.replace("{path}", f"{s.path}{PATHS[s.endpoint]}")) + data
        )

    yield one("http_chunked", "a body in chunks, as it should be",
              lambda s: _smuggled(s, (te,), _chunked(_good(s)[1])), SERVED)  # fmt: skip
    yield one("http_length_and_chunked", "content-length and chunks", both, ONCE)
    yield one("http_hidden_request", "a short content-length, chunks, and a request behind them", short_length, ONCE)
    yield one("http_two_lengths", "two content-lengths", two_lengths, ANY_REFUSAL)
    yield one("http_negative_length", "content-length: -1",
              lambda s: _smuggled(s, ("content-length: -1",), _good(s)[1]), ANY_REFUSAL)  # fmt: skip
    yield one("http_chunk_no_size", "a chunk size that is none",
              lambda s: _smuggled(s, (te,), _chunked(_good(s)[1], "zz")), ANY_REFUSAL)  # fmt: skip
    yield one("http_chunk_huge_size", "a chunk size of 2^64",
              lambda s: _smuggled(s, (te,), _chunked(_good(s)[1], "1" + "0" * 16)), ANY_REFUSAL)  # fmt: skip
    yield one("http_pipelined", "two requests in one write",
              lambda s: answered(_hidden(s) + b"".join(_good(s))), ONCE)  # fmt: skip
    yield one("http_header_64_kb", "a header of 64 KB", lined("x-long: " + "a" * 65_536), ONCE)
    yield one("http_headers_many", "1,000 headers", lined("\r\n".join(f"x-{i}: {i}" for i in range(1000))), ONCE)
    yield one("http_space_before_colon", "a space before a header's colon", lined("x-odd : 1"), ONCE)
    yield one("http_folded_header", "a header on two lines", lined("x-odd: 1\r\n 2"), ONCE)
    yield one("http_nul_in_header", "NUL in a header", lined("x-odd: a\x00b"), ONCE)
    yield one("http_two_hosts", "two host headers", lined("host: elsewhere.invalid"), ONCE)
    yield one("http_method", "a method that is none", started("BREW {path} HTTP/1.1"), ANY_REFUSAL)
    yield one("http_version", "HTTP/9.9", started("POST {path} HTTP/9.9"), ANY_REFUSAL)
    yield one("http_line", "a request line of one word", started("HELLO"), ANY_REFUSAL)
    yield one("http_path_up", "a path that climbs", started("GET /v1/../../../etc/passwd HTTP/1.1"), ANY_REFUSAL)
    yield one("http_get", "GET where POST is asked for", started("GET {path} HTTP/1.1"), ANY_REFUSAL)
    yield one("http_tls_hello", "the first bytes of TLS", lambda s: answered(bytes.fromhex("16030100050100000100")),
              Expected(ANY_REFUSAL.statuses, closed=True, timeout=True))  # fmt: skip
