"""Processes of runs are started at the priority that the service was started with; the service itself goes below that.

On Linux a thread has a priority of its own, and a process is born with that of the thread that starts it. Elsewhere the
service keeps its priority.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

#: Below whatever drives load; above the background process.
NICE = 5
#: Records are the service's own: answers and prompts may be in them.
UMASK = 0o077


class Spawner:
    """Its one thread is made with it: before the priority is lowered."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "specload-spawner")
        self._thread.submit(lambda: None).result()

    async def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """With pipes for stdin, stdout and stderr, in a session of its own. Raises OSError."""

        def popen() -> subprocess.Popen[bytes]:
            pipe = subprocess.PIPE
            return subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True, umask=UMASK
            )

        return await asyncio.get_running_loop().run_in_executor(self._thread, popen)

    def close(self) -> None:
        self._thread.shutdown(wait=False)


def lower_priority() -> None:
    """Of the calling thread, and of threads that it will make."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, 0, min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, 19))
