"""Seeded mutations of whole answers through the response parser and the reader of events, until a limit.

    python benchmarks/fuzz_answer.py [--cases 200000] [--seconds 120] [--seed 0]

A case is a good answer (streamed in chunks, with a length, until the end of the connection; with interim answers,
trailers, extensions), broken in a few places, cut into reads at random. Whatever comes, the parser may only raise what
a cut or malformed answer raises, what is read then is one attempt with one outcome, no case takes more than a second,
the body is never longer than its limit, and memory does not grow with the number of cases. Where the C reader is built,
it must make the same exchange of the case's reads. The same seed and number are the same case:
`--seed S --first N --cases 1` runs one again.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpcore
import psutil

from loadgen.drive import Attempt, Exchange, Outcome, Sent, read_exchange
from loadgen.drive.kernel.answer import MAX_LOOSE_BYTES, Answer
from loadgen.drive.kernel.aside import NO_STAMP, make_reader
from loadgen.drive.kernel.clock_offset import WallOffset
from loadgen.drive.kernel.side_reader import SideReader
from loadgen.drive.kernel.stamps import Stamper
from loadgen.drive.transport import BodyTooLarge, WireLimits
from loadgen.plan import Case
from server_adapters import adapter_named
from server_adapters.base import Sampling

if TYPE_CHECKING:
    from loadgen.drive.kernel._reader import Reader

READER, STAMPER = make_reader(), Stamper(WallOffset())
LIMITS = WireLimits(max_body_bytes=64 * 1024)
CASE_S = 1.0
#: resident memory may rise by so much after the first cases
WARM_CASES = 1000
GROWTH_BYTES = 32 * 2**20
ADAPTER = adapter_named("vllm")
CASE = Case(0, "measure", 0, "c0", 0, "code", 16, 16, 0, 0, None, False, True)
SENT = Sent(0, "base", "http://r", 0, 1, CASE, "id", True, Sampling(), 16, 0, 1)
EVENTS = [
    b'data: {"id":"x","choices":[{"index":0,"text":" the","token_ids":[7],"finish_reason":null}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"\xc3\xa9"},"finish_reason":null}]}\r\n\r\n',
    b": keep-alive\n\n",
    b'event: x\nid: 1\nretry: 5\ndata: {"choices":[],\ndata: "usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n',
    b'data: {"error":{"message":"no","type":"x","code":500}}\n\n',
    b'data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}\r\r',
    b"data: [DONE]\n\n",
]
SCRAPS = [
    *(b"\r\n", b"\n\n", b"\r", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"HTTP/1.1 ", b"data:", b"\x00"),
    *(b"content-length: 99999999999999999999\r\n", b"transfer-encoding: gzip\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"),
    *(b"HTTP/1.1 101 x\r\n\r\n", b'{"a":' * 600, b"9" * 5000, b"\xef\xbb\xbf", b"1e999", b"\xff\xfe"),
    b'"usage":{"completion_tokens":-5}',
]


def whole_answer(rng: random.Random) -> bytes:
    """A good one."""
    body = b"".join(rng.choice(EVENTS[:4]) for _ in range(rng.randrange(12))) + b"".join(EVENTS[-2:])
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    if rng.random() < 0.1:
        head = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + head
    framing = rng.randrange(4)
    if framing == 0:
        return head + b"content-length: %d\r\n\r\n" % len(body) + body
    if framing == 1:
        return head + b"connection: close\r\n\r\n" + body
    chunks, extension = b"", rng.choice([b"", b"", b";a=b"])
    while body:
        size = rng.randrange(1, 300)
        part, body = body[:size], body[size:]
        chunks += b"%x%s\r\n%s\r\n" % (len(part), extension, part)
    return head + b"transfer-encoding: chunked\r\n\r\n" + chunks + rng.choice([b"0\r\n\r\n", b"0\r\nx-sum: 1\r\n\r\n"])


def mutated(message: bytes, rng: random.Random) -> bytes:
    """The message with a few bytes changed, taken out, doubled, or with scraps put in."""
    data = bytearray(message)
    for _ in range(rng.choice([0, 1, 1, 2, 3, 8])):
        at, size = rng.randrange(len(data) + 1), rng.randrange(1, 40)
        match rng.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + size]
            case 2:
                data[at:at] = data[at : at + size] * rng.choice([1, 2, 50])
            case 3:
                data[at:at] = rng.choice(SCRAPS)
            case _:
                data[at:at] = rng.randbytes(size)
    return bytes(data)


def reads_of(message: bytes, rng: random.Random) -> Iterator[bytes]:
    """Cut at random: all at once, byte by byte in part, or in pieces."""
    widest = rng.choice([1, 7, 100, 1500, 70_000])
    while message:
        size = rng.randrange(1, widest + 1)
        yield message[:size]
        message = message[size:]


def run_case(seed: int, number: int) -> Attempt:
    """Raises AssertionError where a rule is broken, and whatever the parser should not raise."""
    rng = random.Random(f"{seed}-{number}")
    message, reads, stamp = mutated(whole_answer(rng), rng), [], 1
    for data in reads_of(message, rng):
        stamp += rng.randrange(3)  # some reads share their stamp
        reads.append((data, None if rng.random() < 0.05 else stamp))
    exchange = taken(reads, None)
    check(exchange, len(message))
    if READER is not None:
        by_c = taken([(data, stamp or 0) for data, stamp in reads], READER)
        fed = taken([(data, stamp or 0) for data, stamp in reads], None)
        assert by_c == fed, "the C reader makes another exchange"
    attempt = read_exchange(exchange, SENT, ADAPTER, str)
    assert attempt.outcome is not Outcome.CLIENT_FAULT, attempt.error_message
    assert list(attempt.ledger.arrival_ns) == sorted(attempt.ledger.arrival_ns)
    return attempt


def taken(reads: list[tuple[bytes, int | None]], reader: Reader | None) -> Exchange:
    """The exchange that these reads make. With a reader, those after the head are put aside first, as sockets' are."""
    exchange = Exchange(sent_ns=1)
    answer = Answer(exchange, LIMITS)
    side = None if reader is None else SideReader(reader, 0, STAMPER)
    try:
        feed(answer, exchange, reads, reader, side)
        if not answer.done:
            answer.eof()
    except (httpcore.RemoteProtocolError, BodyTooLarge) as error:
        assert not exchange.complete
        exchange.failure = Outcome.TRUNCATED if answer.closed else Outcome.MALFORMED
        exchange.failure_detail = f"http: {error}"
    finally:
        if side is not None:
            side.end()
    answer.close()
    exchange.end_ns = None if answer.closed else answer.last_ns  # the end of the connection is seen at no fixed time
    return exchange


def feed(
    answer: Answer, exchange: Exchange, reads: list[tuple[bytes, int | None]], reader: Reader | None,
    side: SideReader | None,
) -> None:  # fmt: skip
    begun = side is None
    for data, stamp in reads:
        if side is not None and reader is not None and side.on:
            if why := reader.put(0, data, NO_STAMP if stamp is None else stamp):
                side.give(answer, why)
        else:
            answer.feed(data, stamp)
            if not begun and exchange.status is not None and not answer.done:
                begun = True
                assert side is not None
                side.begin(answer, data)
        if answer.done:
            return
    if side is not None and side.on:
        side.give(answer)


def check(exchange: Exchange, size: int) -> None:
    """What holds of every exchange, whatever was fed."""
    ends, stamps = list(exchange.piece_end), list(exchange.piece_ns)
    assert ends == sorted(set(ends))
    assert stamps == sorted(set(stamps))
    assert len(ends) == len(stamps)
    assert len(exchange.body) == (ends[-1] if ends else 0) <= size
    assert len(exchange.body) <= LIMITS.max_body_bytes + 70_000  # one read beyond
    assert sum(len(k) + len(v) for k, v in exchange.headers.items()) <= MAX_LOOSE_BYTES + 70_000


def main() -> None:
    options = _options()
    signal.signal(signal.SIGALRM, _hang)
    outcomes: Counter[str] = Counter()
    process, begun, settled, number = psutil.Process(), time.monotonic(), 0, options.first
    for number in range(options.first, options.first + options.cases):
        signal.setitimer(signal.ITIMER_REAL, CASE_S)
        try:
            outcomes[run_case(options.seed, number).outcome] += 1
        except BaseException:
            print(f"FAILED: --seed {options.seed} --first {number} --cases 1", file=sys.stderr)
            raise
        signal.setitimer(signal.ITIMER_REAL, 0)
        if number - options.first == WARM_CASES:
            settled = process.memory_info().rss
        if time.monotonic() - begun > options.seconds:
            break
    done, grown = number - options.first + 1, process.memory_info().rss - settled if settled else 0
    print(f"{done:,} cases in {time.monotonic() - begun:.0f} s, no crash, none longer than {CASE_S:g} s")
    print(", ".join(f"{count:,} {name}" for name, count in outcomes.most_common()))
    told = f"{grown / 2**20:+.1f} MiB, allowed {GROWTH_BYTES / 2**20:+.0f}" if settled else "not told: too few cases"
    print(f"resident memory after the first {WARM_CASES:,} cases: {told}")
    if grown > GROWTH_BYTES:
        sys.exit("memory GREW")


def _hang(*_: object) -> None:
    raise TimeoutError(f"a case took more than {CASE_S:g} s")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mutated answers through the response parser")
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
