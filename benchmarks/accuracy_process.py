"""Processes of the accuracy benchmark: the truth server, and a tool whose whole family is counted and ended.

Linux only: /proc, sessions, CPU affinity and the sub-reaper (a tool's orphans become our children, so that their CPU
time is not lost)."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE_S = 0.25
_PR_SET_CHILD_SUBREAPER = 36
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Pinning:
    """Cores of server and client; None: not pinned, for the reason given."""

    server: int | None
    client: int | None
    text: str


@dataclass(frozen=True)
class Measured:
    """One tool's run. `cpu_s`: user + system of all its processes; `peak_rss_bytes`: largest sum over them (pages
    they share count in each), sampled; `processes`: most at once; `machine_busy_s`: CPU time of all meanwhile."""

    code: int
    timed_out: bool
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    processes: int
    machine_busy_s: float


def pinning(wanted: bool = True) -> Pinning:
    """Server on the first core this process may use, client on the second."""
    if not wanted:
        return Pinning(None, None, "not pinned (asked for): server and client share all cores")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return Pinning(None, None, f"NOT pinned: only {len(cores)} core may be used, server and client share it")
    return Pinning(cores[0], cores[1], f"server pinned to core {cores[0]}, clients to core {cores[1]}")


def prepare() -> None:
    """Adopt orphans, and lift the limit on open files as far as allowed."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """What is started inside inherits the core."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def build_server(source: Path, target: Path) -> None:
    """make; RuntimeError with the compiler's words."""
    done = subprocess.run(
        ["make", "-s", "-C", str(source), f"OUT={target.resolve()}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"the truth server cannot be built: {done.stderr.strip()}")


class TruthServer:
    """A fresh server on a free port for one cell."""

    def __init__(self, binary: Path, flags: Sequence[str], core: int | None) -> None:
        with on_core(core):
            self._process = subprocess.Popen(
                [str(binary), "--port", "0", *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("port "):
            raise RuntimeError("the truth server did not start")
        self.port = int(line.split()[1])

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats", timeout=10) as answer:
            return dict(json.load(answer))

    def __enter__(self) -> TruthServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(10)
        if self._process.stdout is not None:
            self._process.stdout.close()


def run_measured(argv: list[str], env: Mapping[str, str], core: int | None, timeout_s: float, log: Path) -> Measured:
    """Run a tool in a session of its own; end the whole session after `timeout_s`, and always at the end."""
    busy_before, begun = _machine_busy_s(), time.monotonic()
    with log.open("wb") as file, on_core(core):
        process = subprocess.Popen(
            argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    session, peak, most, cpu_s, code, timed_out = process.pid, 0, 1, 0.0, None, False
    try:
        while code is None and not timed_out:
            time.sleep(SAMPLE_S)
            rss = _session_rss(session)
            peak, most = max(peak, sum(rss.values())), max(most, len(rss))
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                code, cpu_s = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
            timed_out = code is None and time.monotonic() - begun > timeout_s
        wall_s = time.monotonic() - begun
    finally:
        # The rest of the family may take a moment to go by itself; its CPU time counts, too.
        rest_s, status_of_first = _end_session(session, patience_s=0.0 if timed_out or code is None else 3.0)
        process.returncode = code if code is not None else status_of_first
    cpu_s += rest_s
    busy_s = _machine_busy_s() - busy_before
    return Measured(process.returncode, timed_out, wall_s, cpu_s, peak, most, busy_s)


def _end_session(session: int, patience_s: float) -> tuple[float, int]:
    """End what is left of a session: first by itself, then asked, then killed. Its CPU seconds, the leader's code."""
    cpu_s, code = 0.0, -signal.SIGKILL
    for name, wait_s in ((None, patience_s), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        for pid in _session_rss(session) if name else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, name)  # type: ignore[arg-type]
        until = time.monotonic() + wait_s
        while True:
            for pid, status, used_s in _reap(session):
                cpu_s += used_s
                code = os.waitstatus_to_exitcode(status) if pid == session else code
            if not _session_rss(session) and not _session_rss(session, ended=True):
                return cpu_s, code
            if time.monotonic() > until:
                break
            time.sleep(0.05)
    return cpu_s, code


def _reap(session: int) -> Iterator[tuple[int, int, float]]:
    """Ended children of ours that belong to the session: pid, status, CPU seconds."""
    for pid in _session_rss(session, ended=True):
        with contextlib.suppress(ChildProcessError):
            gone, status, usage = os.wait4(pid, os.WNOHANG)
            if gone:
                yield gone, status, usage.ru_utime + usage.ru_stime


def _session_rss(session: int, ended: bool = False) -> dict[int, int]:
    """Resident bytes of every living (or: every ended, not yet reaped) process of a session."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[3]) == session and (fields[0] == b"Z") == ended:
            found[int(name)] = int(fields[21]) * _PAGE
    return found


def _machine_busy_s() -> float:
    """CPU seconds of the whole machine outside idle and waiting, since boot."""
    user, nice, system, _idle, _iowait, irq, softirq = (
        int(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    )
    return (user + nice + system + irq + softirq) / _TICK
