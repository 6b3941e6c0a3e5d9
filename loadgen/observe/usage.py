"""Memory and CPU of a server's processes on this machine (psutil). Runs in the scraping process."""

from __future__ import annotations

import psutil

from server_adapters.telemetry import Look, Reading

SERVER = "server"


class ProcessReader:
    """The process `pid` and all its descendants. CPU time counts what ended children had used when last seen, and never
    goes back; resident memory is summed, so that pages they share count once in each. Never raises."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._root: psutil.Process | None = None
        self._cpu_s: dict[tuple[int, float], float] = {}

    def read(self) -> Look:
        source = f"pid {self._pid}"
        rss, unseen = 0, 0
        try:
            if self._root is None:
                self._root = psutil.Process(self._pid)
            family = [self._root, *self._root.children(recursive=True)]
            if self._root.status() == psutil.STATUS_ZOMBIE:
                raise psutil.NoSuchProcess(self._pid)
        except psutil.Error as error:
            return Look(source, (), dict.fromkeys(("process_rss_bytes", "process_cpu_seconds"), _reason(error)))
        for process in family:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    rss += process.memory_info().rss
                    self._cpu_s[process.pid, process.create_time()] = times.user + times.system
            except psutil.NoSuchProcess:
                continue
            except psutil.Error:
                unseen += 1
        if unseen:
            why = f"{unseen} of {len(family)} processes of the server may not be looked at"
            return Look(source, (), dict.fromkeys(("process_rss_bytes", "process_cpu_seconds"), why))
        readings = (
            Reading("process_cpu_seconds", SERVER, sum(self._cpu_s.values())),
            Reading("process_rss_bytes", SERVER, float(rss)),
        )
        return Look(source, readings)


def _reason(error: psutil.Error) -> str:
    if isinstance(error, psutil.NoSuchProcess):
        return f"there is no process {error.pid} on this machine (any more)"
    return f"{type(error).__name__}: {error}"
