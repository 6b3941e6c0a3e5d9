"""The server that anomalies are sent to, as this experiment asks it: one place for all that goes over the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import httpx

from loadgen.experiment.anomalies.known import Asker, Known
from loadgen.experiment.anomalies.sending import Place, Reply, send
from loadgen.experiment.health import Health, look
from loadgen.experiment.preflight import ReadyArm
from server_adapters.anomalies import Script
from server_adapters.base import CollectionError, Endpoint, Target, TargetError
from server_adapters.probing import ask_server


class Server(Protocol):
    """None of these raises but for cancellation."""

    async def ask(self, prompt: str, within_s: float) -> Known:
        """A fixed greedy request."""

    async def send(self, script: Script) -> Sequence[Reply]:
        """An anomaly's bytes, on all its connections."""

    async def busy(self) -> float | None:
        """Requests that run and wait, over the server's metrics pages; None where they do not tell."""

    async def look(self) -> Health:
        """Does it live, and serve a small request?"""


@dataclass(frozen=True)
class FirstReplica:
    """Of an arm. `answer_s`: an anomaly without a whole answer for so long is given up."""

    client: httpx.AsyncClient
    arm: ReadyArm
    target: Target
    endpoint: Endpoint
    asker: Asker
    place: Place
    answer_s: float

    async def ask(self, prompt: str, within_s: float) -> Known:
        return await self.asker.ask(prompt, within_s)

    async def send(self, script: Script) -> Sequence[Reply]:
        return await send(self.place, script, self.answer_s)

    async def busy(self) -> float | None:
        total, told = 0.0, False
        for url in self.target.metrics_urls:
            try:
                page = self.arm.adapter.parse_metrics((await ask_server(self.client, self.target, "GET", url)).text)
            except (TargetError, CollectionError):
                return None
            values = [s.value for s in page.series if s.name in ("running", "waiting")]
            total, told = total + sum(values), told or bool(values)
        return total if told else None

    async def look(self) -> Health:
        return await look(self.arm, self.endpoint, trial=True)
