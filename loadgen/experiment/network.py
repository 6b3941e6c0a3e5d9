"""The way to a server, measured before any load: its round trip, who stands between, and whether streams are held."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import httpx
import numpy as np

from loadgen.clock import now_ns
from server_adapters.base import Adapter, Ask, Capabilities, Endpoint, Fact, Target, TargetError
from server_adapters.probing import address, ask_server, headers_of

#: Small requests on one connection; the first one, which opens it, is not counted.
ROUND_TRIPS = 8
#: Long enough that even a fast server needs a while for it.
STREAM_TOKENS = 64
STREAM_TIMEOUT_S = 60.0
_PROMPT = "Count from one to one hundred in words, one word a line, and write nothing else."
#: Headers whose value names a hop; of the others only the name is kept, since their values change.
_NAMING = ("via", "server", "x-powered-by")
_OF_GATEWAYS = (
    "cf-ray", "cf-cache-status", "x-envoy-", "x-amz", "x-goog-", "x-azure-", "x-cache", "x-served-by", "x-kong-",
    "x-litellm-", "x-varnish", "x-forwarded-", "x-proxy-", "fly-request-id", "x-vercel-", "x-akamai-", "age",
)  # fmt: skip
#: A stream with fewer events, or that is over sooner, shows nothing.
LEAST_EVENTS, LEAST_S = 8, 0.05
#: The whole stream within this share of the time it took: it was held to the end.
HELD_SHARE = 0.03
#: So many events come together on average where a stream is held in between.
CLUMP_EVENTS = 8
NONE, CLUMPS, HELD = "none", "in clumps", "held to the end"


@dataclass(frozen=True)
class Way:
    """What measuring one way needs of an arm."""

    adapter: Adapter
    target: Target
    model: str
    capabilities: Capabilities
    endpoint: Endpoint


async def round_trip(client: httpx.AsyncClient, target: Target) -> dict[str, Fact]:
    """Least time of several GET /v1/models, s (the least is the path, the rest is the server's and our own load),
    and the hops that name themselves in the answers' headers."""
    times: list[int] = []
    hops: set[str] = set()
    try:
        for _ in range(ROUND_TRIPS + 1):
            begun = now_ns()
            answer = await ask_server(client, target, "GET", address(target, "/v1/models"))
            times.append(now_ns() - begun)
            hops |= set(_hops(answer.headers))
    except TargetError as error:
        reason = f"GET /v1/models was not answered: {error}"
        return {"network.round_trip_s": Fact(None, None, reason), "network.gateway": Fact(None, None, reason)}
    least, most = min(times[1:]) / 1e9, max(times[1:]) / 1e9
    source = f"least of {ROUND_TRIPS} GET /v1/models on one connection (longest {most:.4f} s)"
    return {
        "network.round_trip_s": Fact(round(least, 6), source),
        "network.gateway": Fact(sorted(hops), "headers of the answers"),
    }


def _hops(headers: httpx.Headers) -> list[str]:
    """`name: value` of headers that name a server, the bare name of a gateway's others."""
    named = [f"{name}: {headers[name]}" for name in _NAMING if name in headers]
    return named + [name for name in headers if name.startswith(_OF_GATEWAYS)]


async def buffering(client: httpx.AsyncClient, way: Way) -> Fact:
    """Does a streamed answer come as it is made? One that seems held is asked for once more: a stall of this
    machine looks the same."""
    first = await _stream(client, way)
    if first.value in (None, NONE):
        return first
    second = await _stream(client, way)
    return first if second.value is None else second


async def _stream(client: httpx.AsyncClient, way: Way) -> Fact:
    unique = f"probe-{uuid.uuid4().hex}"
    ask = Ask(
        way.endpoint, way.model, _PROMPT, STREAM_TOKENS, way.adapter.probe_sampling, True, unique, cache_salt=unique
    )
    request = way.adapter.build(ask, way.capabilities)
    headers = {**request.headers, **headers_of(way.target)}
    times: list[int] = []
    begun = now_ns()
    try:
        async with (
            asyncio.timeout(STREAM_TIMEOUT_S),
            client.stream("POST", address(way.target, request.path), content=request.body, headers=headers) as response,
        ):
            if response.status_code != 200:
                return Fact(None, None, f"the test stream was answered with HTTP {response.status_code}")
            async for piece in response.aiter_raw():
                times += [now_ns()] * piece.count(b"data:")
    except (httpx.HTTPError, TimeoutError) as error:
        return Fact(None, None, f"the test stream did not end well ({type(error).__name__})")
    return judge(begun, times)


def judge(sent_ns: int, event_ns: Sequence[int]) -> Fact:
    """`none`, `in clumps` or `held to the end` from the arrival times of the events of one stream; None: cannot be
    told, for the reason."""
    events = len(event_ns)
    if events < LEAST_EVENTS:
        return Fact(None, None, f"the test stream had {events} events, too few to tell")
    total = (event_ns[-1] - sent_ns) / 1e9
    if total < LEAST_S:
        return Fact(None, None, f"the test stream was over after {1e3 * total:.0f} ms, too soon to tell")
    span = (event_ns[-1] - event_ns[0]) / 1e9
    together = max(span / (10 * events), 1e-4)
    arrivals = 1 + int((np.diff(np.asarray(event_ns)) / 1e9 > together).sum())
    source = f"a stream of {events} events: {arrivals} arrivals over {span:.3f} s, {total:.3f} s after the request"
    if span <= HELD_SHARE * total:
        return Fact(HELD, source)
    return Fact(CLUMPS if arrivals <= max(2, events / CLUMP_EVENTS) else NONE, source)
