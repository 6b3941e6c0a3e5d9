"""Bystanders of our own: fixed prompts with known answers, asked all the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from loadgen.experiment.anomalies.known import FEWEST_CHARS, Known, crossed, least_crossed
from loadgen.experiment.anomalies.server import Server

#: Between two questions of one asker: witnesses are bystanders, not load.
PAUSE_S = 0.1


class Witnesses:
    """Learns what each prompt is answered with until `settle`, and says of every answer what became of it.

    Events `witness`: `number` of the prompt, `seen`: same (one of the answers from before), new, crossed (with another
    request), failed; before `settle`: learned, or failed.
    """

    def __init__(
        self,
        server: Server,
        prompts: Sequence[str],
        marker: str,
        within_s: float,
        note: Callable[..., None],
        ended: Callable[[int, bool], None] = lambda _at_ns, _failed: None,
    ) -> None:
        """`ended(at, failed)`: told of every answer."""
        self._server, self._prompts, self._marker, self._within_s = server, tuple(prompts), marker, within_s
        self._note, self._ended = note, ended
        #: characters of another's answer that are no chance; known once it is settled
        self.least = FEWEST_CHARS
        self._answers: dict[int, set[str]] = {i: set() for i in range(len(prompts))}
        self._settled = False
        self._turn = 0

    async def work(self, at_once: int) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(self._ask())

    def settle(self) -> int:
        """The time before is over. How many prompts have answers that no other prompt has, and long enough for a piece
        of them to be no chance: only those can tell."""
        self._settled = True
        told = [i for i, mine in self._answers.items() if mine and not mine & self._of_others(i)]
        for i in self._answers.keys() - set(told):
            self._answers[i] = set()
        self.least = least_crossed(tuple(self._answers.values()))
        return sum(any(len(text) >= self.least for text in self._answers[i]) for i in told)

    def _of_others(self, number: int) -> set[str]:
        return {text for i, texts in self._answers.items() if i != number for text in texts}

    async def _ask(self) -> None:
        while True:
            number, self._turn = self._turn % len(self._prompts), self._turn + 1
            known = await self._server.ask(self._prompts[number], self._within_s)
            self._ended(known.ended_ns, known.text is None)
            self._note(
                "witness", known.ended_ns, number=number, seen=self._seen(number, known), s=round(known.seconds, 6),
                digest=known.digest, failed=known.failed,
            )  # fmt: skip
            await asyncio.sleep(PAUSE_S)

    def _seen(self, number: int, known: Known) -> str:
        if known.text is None:
            return "failed"
        if not self._settled:
            self._answers[number].add(known.text)
            return "learned"
        mine = self._answers[number]
        if known.text in mine:
            return "same"
        return "crossed" if crossed(known.text, mine, self._of_others(number), self._marker, self.least) else "new"
