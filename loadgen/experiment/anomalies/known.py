"""Requests whose answers are known: the witnesses beside the load, and the known-good probe after each anomaly."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import httpx

from loadgen.clock import now_ns
from loadgen.experiment.preflight import ReadyArm
from server_adapters.base import Ask, Endpoint, Target, TargetError
from server_adapters.probing import address, ask_server

#: A piece of another request's answer is no chance from so many characters on, and so many more than the longest that
#: answers to different prompts share by themselves.
FEWEST_CHARS, MORE_CHARS = 32, 16


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


def crossed(text: str, own: set[str], others: set[str], marker: str, least: int = FEWEST_CHARS) -> bool:
    """Whether an answer holds an anomaly's marker, or goes on like another request's known answer where its own do not.

    What follows the common beginning with its nearest own answer must be, for `least` characters, a part of an
    other's answer and of no own one's."""
    if marker in text:
        return True
    if not own:  # nothing to be unlike
        return False
    at = max((_common(text, one) for one in own), default=0)
    rest = text[at : at + least]
    if len(rest) < least or any(rest in one for one in own):
        return False
    return any(rest in other for other in others)


def least_crossed(answers: Sequence[set[str]]) -> int:
    """So many characters of another's answer are no chance: more than any two prompts share by themselves."""
    return max(FEWEST_CHARS, longest_shared(answers) + MORE_CHARS)


def longest_shared(answers: Sequence[set[str]]) -> int:
    """Characters of the longest text that stands in answers to two different prompts."""
    low, high = 0, max((len(text) for texts in answers for text in texts), default=0)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _share(answers, middle) else (low, middle - 1)
    return low


def _share(answers: Sequence[set[str]], length: int) -> bool:
    seen: set[str] = set()
    for texts in answers:
        mine = {text[i : i + length] for text in texts for i in range(len(text) - length + 1)}
        if not seen.isdisjoint(mine):
            return True
        seen |= mine
    return False


def _common(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
