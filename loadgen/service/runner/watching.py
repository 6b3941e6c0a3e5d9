"""In the process of a canary's monitor: who is told what it sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loadgen.control import CanaryStanding
from loadgen.experiment import Checks
from loadgen.service.runner.messages import Begun
from loadgen.service.runner.outbox import Outbox


class Watched:
    """`loadgen.experiment.CanaryWatch`. Windows are told by canary.json; what servers and hooks say goes to the log."""

    def __init__(self, outbox: Outbox, log: Callable[[str], None]) -> None:
        self._outbox, self._log = outbox, log

    def begun(self, folder: Path, checks: Checks) -> None:
        self._outbox.put(Begun(path=str(folder), segments=0, requests=None))

    def window(self, standing: CanaryStanding) -> None:
        """canary.json tells."""

    def say(self, text: str) -> None:
        self._log(text)
