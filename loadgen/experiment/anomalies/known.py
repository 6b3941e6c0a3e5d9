"""Requests whose answers are known: the witnesses beside the load, and the known-good probe after each anomaly."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from dataclasses import dataclass, replace

import httpx

from loadgen.clock import now_ns
from loadgen.experiment.preflight import ReadyArm
from server_adapters.base import Ask, Endpoint, Target, TargetError
from server_adapters.probing import address, ask_server

#: So many characters of another request's answer in one's own are no chance.
_CROSSED_CHARS = 32


@dataclass(frozen=True, slots=True)
class Known:
    """One answer to a fixed greedy request. `text` None: there was none, for `failed`."""

    begun_ns: int
    ended_ns: int
    text: str | None
    failed: str | None = None

    @property
    def seconds(self) -> float:
        return (self.ended_ns - self.begun_ns) / 1e9

    @property
    def digest(self) -> str | None:
        """Stands for the text, which is not stored."""
        return (
            None if self.text is None else hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        )


class Asker:
    """Asks one server greedily, each time without what its prefix cache knows."""

    def __init__(
        self, client: httpx.AsyncClient, arm: ReadyArm, target: Target, endpoint: Endpoint, tokens: int
    ) -> None:
        self._client, self._arm, self._target, self._endpoint, self._tokens = client, arm, target, endpoint, tokens

    async def ask(self, prompt: str, within_s: float) -> Known:
        """Never raises but for cancellation."""
        unique, begun_ns = f"probe-{uuid.uuid4().hex}", now_ns()
        sampling = replace(self._arm.adapter.probe_sampling, temperature=0.0)
        ask = Ask(self._endpoint, self._arm.model, prompt, self._tokens, sampling, False, unique, cache_salt=unique)
        try:
            async with asyncio.timeout(within_s):
                text, failed = await self._answer(ask)
        except TimeoutError:
            text, failed = None, f"no answer within {within_s:g} s"
        return Known(begun_ns, now_ns(), text, failed)

    async def _answer(self, ask: Ask) -> tuple[str | None, str | None]:
        request = self._arm.adapter.build(ask, self._arm.capabilities)
        try:
            answer = await ask_server(
                self._client, self._target, "POST", address(self._target, request.path),
                content=request.body, headers=dict(request.headers),
            )  # fmt: skip
        except TargetError as error:
            return None, str(error)
        if answer.status_code != 200:
            return None, f"status {answer.status_code}"
        try:
            chunk = self._arm.adapter.parse_body(answer.content)
        except ValueError as error:
            return None, str(error)
        if chunk.error is not None:
            return None, f"an error in a 200: {chunk.error.kind}"
        return chunk.answer + chunk.reasoning, None


def crossed(text: str, own: set[str], others: set[str], marker: str) -> bool:
    """Whether an answer holds an anomaly's marker, or goes on like another request's known answer where its own do not.

    What follows the common beginning with its nearest own answer must be, for 32 characters, a part of an
    other's answer and of no own one's."""
    if marker in text:
        return True
    if not own:  # nothing to be unlike
        return False
    at = max((_common(text, one) for one in own), default=0)
    rest = text[at : at + _CROSSED_CHARS]
    if len(rest) < _CROSSED_CHARS or any(rest in one for one in own):
        return False
    return any(rest in other for other in others)


def _common(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
