"""Is a server alive? Asked the way its family has for it, and where it must serve again, of a small request."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

import httpx

from loadgen.experiment.preflight import ReadyArm
from server_adapters.base import Ask, Endpoint, Target, TargetError
from server_adapters.probing import address, ask_server

#: A health route answers at once; a server that is busy may take its time over a request.
ROUTE_S, TRIAL_S = 3.0, 15.0
_TOKENS = 2
_NO_SUCH_ROUTE = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class Health:
    """`how`: what was asked and what came, a short sentence. `sure`: its health route says that it is dead, or nobody
    takes a connection: a server that is alive does neither, while any may fail a request, or be slow."""

    alive: bool
    how: str
    sure: bool = False


async def look(arm: ReadyArm, endpoint: Endpoint, *, trial: bool) -> Health:
    """Of an arm: alive where any of its replicas is. `trial`: a small request must succeed as well."""
    found = Health(False, "the arm has no replica")
    async with arm.client(TRIAL_S) as client:
        for target in arm.targets:
            found = await _target(client, arm, target, endpoint, trial)
            if found.alive:
                break
    return found


async def _target(client: httpx.AsyncClient, arm: ReadyArm, target: Target, endpoint: Endpoint, trial: bool) -> Health:
    route = await _route(client, arm, target)
    if route is not None and not (route.alive and trial):
        return route
    return await _trial(client, arm, target, endpoint)


async def _route(client: httpx.AsyncClient, arm: ReadyArm, target: Target) -> Health | None:
    """By its health route; None where it has none."""
    path = arm.adapter.health_path
    if path is None:
        return None
    try:
        status = (await client.get(address(target, path), timeout=ROUTE_S)).status_code
    except httpx.TimeoutException:
        return Health(False, f"GET {path}: no answer within {ROUTE_S:g} s")
    except httpx.HTTPError as error:
        return Health(False, f"GET {path}: {type(error).__name__}", sure=isinstance(error, httpx.ConnectError))
    if status in _NO_SUCH_ROUTE:
        return None
    return Health(status < 500, f"GET {path}: {status}", sure=status >= 500)


async def _trial(client: httpx.AsyncClient, arm: ReadyArm, target: Target, endpoint: Endpoint) -> Health:
    unique = f"probe-{uuid.uuid4().hex}"
    ask = Ask(endpoint, arm.model, "one two three", _TOKENS, replace(arm.adapter.probe_sampling, temperature=0.0),
              False, unique, cache_salt=unique)  # fmt: skip
    request = arm.adapter.build(ask, arm.capabilities)
    try:
        answer = await ask_server(
            client, target, "POST", address(target, request.path), content=request.body, headers=dict(request.headers)
        )
    except TargetError as error:
        return Health(False, f"a small request: {error}")
    return Health(answer.status_code == 200, f"a small request: {answer.status_code}")
