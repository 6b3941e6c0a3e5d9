"""Shared pieces of the rehearsal tests: trained models, cases, and one run of an arm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.models import Models, load_models
from server_adapters.rehearsal.serve import RehearsalServer
from server_adapters.rehearsal.simulate import (
    Case,
    Simulation,
    SimulationPlan,
    Stage,
    corpus_cases,
    simulate,
)
from server_adapters.rehearsal.types import TASK_TYPES, EngineConfig, SamplingParams

MakeCases = Callable[..., tuple[Case, ...]]
RunArm = Callable[..., Simulation]


@pytest.fixture(scope="session")
def models() -> Models:
    return load_models()


@pytest.fixture(scope="session")
def make_cases(models: Models) -> MakeCases:
    def make(per_task: int, *, seed: int = 0, **sampling: object) -> tuple[Case, ...]:
        params = SamplingParams(**{"temperature": 0.8, "max_tokens": 64, **sampling})
        return tuple(corpus_cases(models, dict.fromkeys(TASK_TYPES, per_task), params, seed))

    return make


@pytest.fixture(scope="session")
def run_arm(models: Models) -> RunArm:
    def run(config: EngineConfig, cases: tuple[Case, ...], *, concurrency: int = 8, seed: int = 5) -> Simulation:
        return simulate(SimulationPlan({"arm": config}, (Stage(cases, concurrency=concurrency),)), seed, models)

    return run


@dataclass
class Live:
    """A server in this event loop, and a client of it."""

    server: RehearsalServer
    http: httpx.AsyncClient

    async def post(self, path: str, body: Any, **more: Any) -> httpx.Response:
        return await self.http.post(path, json=body, **more)

    async def raw(self, body: dict[str, Any], path: str = "/v1/completions") -> bytes:
        """The whole body of a streamed answer."""
        answer = await self.http.post(path, json={"stream": True, **body})
        assert answer.status_code == 200, answer.text
        return answer.content

    async def pieces(self, body: dict[str, Any], path: str = "/v1/completions") -> list[bytes]:
        """The HTTP chunks of a streamed answer, one for each write of the server."""
        async with self.http.stream("POST", path, json={"stream": True, **body}) as answer:
            return [piece async for piece in answer.aiter_raw()]

    async def events(self, body: dict[str, Any], path: str = "/v1/completions") -> list[Any]:
        """The payloads of a streamed answer; "[DONE]" as text."""
        return payloads(await self.raw(body, path))

    async def truth(self) -> dict[str, Any]:
        told: dict[str, Any] = (await self.http.get("/rehearsal/truth")).json()
        return told

    async def metrics(self) -> dict[str, float]:
        """Series of /metrics by their whole name with labels."""
        lines = (await self.http.get("/metrics")).text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a condition, half a minute at most."""
        for _ in range(3000):
            if await holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("the condition never held")

    async def truth_has(self, part: str, key: str) -> None:
        """Wait until a count of the truth is above zero."""

        async def above() -> bool:
            return bool((await self.truth())[part][key])

        await self.until(above)

    async def fault(self, name: str, **options: Any) -> None:
        answer = await self.http.post("/rehearsal/faults", json={"name": name, **options})
        assert answer.status_code == 200, answer.text


def payloads(body: bytes) -> list[Any]:
    blocks = [block for block in body.split(b"\n\n") if block.startswith(b"data: ")]
    return [json.loads(block[6:]) if block[6:7] == b"{" else block[6:].decode() for block in blocks]


StartServer = Callable[..., Awaitable[Live]]


@pytest.fixture
async def start_server(models: Models) -> AsyncIterator[StartServer]:
    """start_server(spec=…, and other fields of RehearsalConfig) -> Live; 20 times real time unless said otherwise."""
    started: list[Live] = []

    async def start(**fields: Any) -> Live:
        config = RehearsalConfig(**{"spec": "draft:k=4", "model": "8b", "speed": 20.0, **fields})
        server = RehearsalServer(config, models)
        await server.start()
        live = Live(server, httpx.AsyncClient(base_url=server.url, timeout=30))
        started.append(live)
        return live

    yield start
    for live in started:
        await live.http.aclose()
        await live.server.stop()
