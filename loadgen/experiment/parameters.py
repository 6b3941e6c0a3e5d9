"""Does a server take the scenario's sampling parameters? Asked before the load, of every arm."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import httpx

from loadgen.experiment.network import Way
from server_adapters.base import Ask, Fact, Sampling, TargetError
from server_adapters.probing import address, ask_server

_REFUSED = (400, 422)
_PROMPT = "one two three four five six"


async def refused(client: httpx.AsyncClient, way: Way, samplings: Sequence[Sampling]) -> Fact:
    """What the server says against each different set of parameters; [] where it takes them all."""
    different = [sampling for i, sampling in enumerate(samplings) if sampling not in samplings[:i]]
    said: list[str] = []
    for sampling in different:
        try:
            answer = await _ask(client, way, sampling)
        except (TargetError, ValueError) as error:
            return Fact(None, None, f"the scenario's sampling parameters could not be tried: {error}")
        if answer.status_code in _REFUSED:
            told = way.adapter.parse_error(answer.status_code, answer.content)
            said.append(f"{answer.status_code}: {told.message}")
        elif answer.status_code != 200:
            return Fact(None, None, f"a test request was answered with HTTP {answer.status_code}")
    return Fact(said, f"a request of one token with each of {len(different)} sets of parameters")


async def _ask(client: httpx.AsyncClient, way: Way, sampling: Sampling) -> httpx.Response:
    """`min_tokens` would contradict the one token asked for."""
    unique = f"probe-{uuid.uuid4().hex}"
    brief = replace(sampling, min_tokens=min(sampling.min_tokens, 1))
    ask = Ask(way.endpoint, way.model, _PROMPT, 1, brief, False, unique, cache_salt=unique)
    request = way.adapter.build(ask, way.capabilities)
    url = address(way.target, request.path)
    return await ask_server(client, way.target, "POST", url, content=request.body, headers=dict(request.headers))
