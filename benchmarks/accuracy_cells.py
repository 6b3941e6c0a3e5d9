"""The cells of the accuracy benchmark: what is measured, in which order, and about how long it takes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["steady", "short", "stall", "errors", "rate"]
#: Seconds from start to first request and after the last, on one core of two.
START_S = {"specload": 3.0, "vllm": 9.0, "aiperf": 10.0, "guidellm": 19.0}
#: Client time per chunk and per request where the client is the limit, µs: for the expected duration only.
CHUNK_US = {"specload": 25.0, "vllm": 25.0, "aiperf": 60.0, "guidellm": 70.0}
REQUEST_US = {"specload": 500.0, "vllm": 400.0, "aiperf": 1800.0, "guidellm": 5700.0}
MOST_CELL_S = 180.0


@dataclass(frozen=True)
class Condition:
    """One load on one fresh truth server.

    `short` is `steady` with a single round of requests: the difference of the two has no start-up in it.
    `stall`: one stall of a second in the middle of every stream; `errors`: every tenth request ends in an error
    object in the middle of its stream; `rate`: no waiting at all, four tokens a request.
    """

    kind: Kind
    streams: int
    tokens_per_chunk: int
    tokens: int
    requests: int
    first_ms: float = 50.0
    gap_ms: float = 20.0

    @property
    def id(self) -> str:
        times = "" if (self.first_ms, self.gap_ms) == (50.0, 20.0) else f"-{self.first_ms:g}-{self.gap_ms:g}"
        return f"{self.kind}-c{self.streams}-k{self.tokens_per_chunk}-t{self.tokens}-n{self.requests}{times}"

    @property
    def chunks(self) -> int:
        return self.requests * -(-self.tokens // self.tokens_per_chunk)

    @property
    def ideal_s(self) -> float:
        """Seconds the streams take when the client costs nothing."""
        per_stream_ms = self.first_ms + self.gap_ms * (self.tokens / self.tokens_per_chunk - 0.5)
        stall_s = 1.0 if self.kind == "stall" else 0.0
        return -(-self.requests // self.streams) * (per_stream_ms / 1e3 + stall_s)

    def server_flags(self) -> list[str]:
        """`--phase` spreads the streams over the gap, as TTFT over [first, first + gap]; without gaps there is none."""
        flags = ["--ttft", f"{self.first_ms:g}", "--itl", f"{self.gap_ms:g}", "--tpc", str(self.tokens_per_chunk)]
        flags += ["--phase"] if self.gap_ms else []
        flags += ["--stall-ms", "1000"] if self.kind == "stall" else []
        return flags + (["--error-every", "10"] if self.kind == "errors" else [])


def expected_s(condition: Condition, family: str) -> float:
    """About how long a cell takes on two cores."""
    busy_s = (condition.chunks * CHUNK_US[family] + condition.requests * REQUEST_US[family] / 4) / 1e6
    return START_S[family] + max(condition.ideal_s, busy_s)


def limit_s(condition: Condition, family: str) -> float:
    """After this a tool is ended: it did not finish."""
    return min(MOST_CELL_S, 40.0 + 3.0 * expected_s(condition, family))


def grid(
    levels: Sequence[int], seconds: float, special_level: int, rate_requests: int, kinds: Iterable[str]
) -> list[Condition]:
    """Every condition, the most telling first, so that a run that is cut by its budget has those.

    `seconds`: streaming time of a steady cell up to 256 streams; above, two rounds of requests.
    """
    wanted = set(kinds)
    by_weight = sorted(levels, key=lambda n: ([256, 1024].index(n) if n in (256, 1024) else 2, n))

    def steady(kind: Kind, streams: int, per_chunk: int, rounds: int) -> Condition:
        return Condition(kind, streams, per_chunk, 256, streams * rounds)

    def rounds(streams: int) -> int:
        return max(2, round(seconds / 5.2)) if streams <= 256 else 2

    first = [n for n in by_weight if n in (256, 1024)]
    later = [n for n in by_weight if n not in first]
    order = [steady(kind, n, 1, rounds(n) if kind == "steady" else 1) for n in first for kind in _PAIR]
    order += [steady("steady", n, 1, rounds(n)) for n in later if n <= 256]
    order.append(Condition("stall", special_level, 1, 64, 2 * special_level))
    order.append(Condition("errors", special_level, 1, 64, 2 * special_level))
    order.append(Condition("rate", 64, 1, 4, rate_requests, 0.0, 0.0))
    order += [steady("steady", n, 1, rounds(n)) for n in later if n > 256]
    order += [steady("steady", n, 4, 2) for n in by_weight]
    order += [steady("short", n, 1, 1) for n in later]
    return [c for c in order if c.kind in wanted]


_PAIR: tuple[Kind, Kind] = ("steady", "short")
