"""What else runs on the servers and on this machine at preflight."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import platform
import re
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil

from server_adapters.base import Adapter, CollectionError, Fact, Target, TargetError
from server_adapters.probing import ask_server

#: Our own probes may still be on their way out: so many looks, so far apart, before load is somebody else's.
LOOKS, PAUSE_S = 5, 0.2
_HERE = "this machine (the address is a loopback one; wrong where a tunnel ends here)"


async def background(client: httpx.AsyncClient, adapter: Adapter, target: Target) -> dict[str, Fact]:
    """Requests running and waiting, over all metrics pages of the arm and whatever the model; 0 if ever seen idle."""
    found: tuple[float, float] | str = "the arm has no metrics page"
    for look in range(LOOKS):
        if look:
            await asyncio.sleep(PAUSE_S)
        found = await _busy(client, adapter, target)
        if isinstance(found, str) or sum(found) == 0:
            break
    if isinstance(found, str):
        return {key: Fact(None, None, found) for key in ("load.running", "load.waiting")}
    return {
        "load.running": Fact(found[0], "/metrics at preflight"),
        "load.waiting": Fact(found[1], "/metrics at preflight"),
    }


async def _busy(client: httpx.AsyncClient, adapter: Adapter, target: Target) -> tuple[float, float] | str:
    sums = {"running": 0.0, "waiting": 0.0}
    if not target.metrics_urls:
        return "the arm has no metrics page"
    for url in target.metrics_urls:
        try:
            response = await ask_server(client, target, "GET", url)
            page = adapter.parse_metrics(response.text)
        except (TargetError, CollectionError) as error:
            return f"a metrics page cannot be read: {error}"
        if not {"running", "waiting"} <= {s.name for s in page.series}:
            return "a metrics page does not tell how many requests run and wait"
        for series in page.series:
            if series.name in sums:
                sums[series.name] += series.value
    return sums["running"], sums["waiting"]


def is_local(url: str) -> bool:
    """Whether the server is asked over the loopback interface."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def this_machine() -> dict[str, Fact]:
    """CPU, memory and load of the machine we run on: the server's too, where it is local."""
    count = psutil.cpu_count() or 1
    load = os.getloadavg()[0] / count
    return {
        "host.cpu_model": _cpu_model(),
        "host.cpu_count": Fact(count, _HERE),
        "host.memory_bytes": Fact(psutil.virtual_memory().total, _HERE),
        "load.host_per_cpu": Fact(round(load, 2), "one-minute load average per CPU of this machine"),
    }


def _cpu_model() -> Fact:
    try:
        found = re.search(r"(?m)^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    name = found[1].strip() if found else platform.processor()
    return Fact(name, _HERE) if name else Fact(None, None, "this machine does not name its processor")
