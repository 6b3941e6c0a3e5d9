"""In the process of a canary's monitor: who is told what it sees, and how its webhooks connect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx

from loadgen.control import CanaryStanding
from loadgen.experiment import Checks
from loadgen.scenario import PinnedTransport
from loadgen.service.runner.messages import Begun
from loadgen.service.runner.outbox import Outbox

Client = Callable[[str, float], AbstractAsyncContextManager[httpx.AsyncClient]]


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


def client_to(addresses: Mapping[str, str]) -> Client:
    """Connects to hosts that were checked, at the address that was checked, and to no other."""

    def client(url: str, timeout_s: float) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        context = httpx.create_ssl_context(trust_env=False)
        transport = PinnedTransport(addresses, verify=context, only=True)
        return httpx.AsyncClient(transport=transport, timeout=timeout_s, follow_redirects=False, trust_env=False)

    return client
