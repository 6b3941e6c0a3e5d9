"""How often one asker may ask, and who counts as one."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

#: Askers that are remembered: whoever has asked longest ago is forgotten first.
MOST_ASKERS = 10_000


class RateLimit:
    """A bucket for each asker that holds `per_minute` and fills steadily. Thread-safe. `now`: seconds, monotonic."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._per_s = per_minute / 60
        self._now = now
        self._lock = Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, asker: str) -> float | None:
        """None: go on; else seconds until it may ask again."""
        with self._lock:
            left = self._filled(asker)
            allowed = left >= 1.0
            self._keep(asker, left - 1.0 if allowed else left)
        return None if allowed else (1.0 - left) / self._per_s

    def give_back(self, asker: str) -> None:
        """What was taken is not to count."""
        with self._lock:
            self._keep(asker, min(self._most, self._filled(asker) + 1.0))

    def _filled(self, asker: str) -> float:
        left, at_s = self._left.get(asker, (self._most, self._now()))
        return min(self._most, left + (self._now() - at_s) * self._per_s)

    def _keep(self, asker: str, left: float) -> None:
        self._left[asker] = left, self._now()
        self._left.move_to_end(asker)
        while len(self._left) > MOST_ASKERS:
            self._left.popitem(last=False)


def source_of(address: str | None) -> str:
    """Whom an address stands for: an IPv6 network of 64 bits is one host's to choose from, and an IPv4 address in an
    IPv6 one is itself. What is no address is `unknown`."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
