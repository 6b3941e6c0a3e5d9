"""Work that takes seconds of CPU: plans, summaries, comparisons. In one process of low priority, one job at a time, so
that neither the service's answers nor a load that is being driven wait for it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import Lock
from typing import Any

from loadgen.errors import ScenarioError, SpecloadError, StorageError, TargetUnusable
from loadgen.processes import ignore_signals, signals_held

#: Lower than anything that measures.
NICE = 10
JOB_TIMEOUT_S = 120.0
#: Jobs that may wait: more would be answered too late.
MOST_WAITING = 50
_ERRORS: tuple[type[SpecloadError], ...] = (ScenarioError, TargetUnusable, StorageError)

Job = Callable[..., Any]


class Busy(Exception):
    """Too many jobs wait."""


class JobFailed(Exception):
    """The job has a fault, took too long or its process died; the message is for the log."""


class Background:
    """`run(job, *arguments)`: the job is a module's function, and what crosses can be pickled."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: of its own: what waits here must not keep others from the threads that all share
        self._threads = ThreadPoolExecutor(1, "specload-background")
        self._waiting = 0
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    async def run(self, job: Job, *arguments: Any, timeout_s: float = JOB_TIMEOUT_S) -> Any:
        """What the job returns. Raises what it raises of our own errors; else Busy or JobFailed."""
        if self._waiting >= MOST_WAITING:
            raise Busy
        self._waiting += 1
        try:
            work = asyncio.get_running_loop().run_in_executor(self._threads, self._run, job, arguments, timeout_s)
            return await work
        finally:
            self._waiting -= 1

    def _run(self, job: Job, arguments: tuple[Any, ...], timeout_s: float) -> Any:
        with self._lock:
            pipe = self._started()
            try:
                pipe.send((job, arguments))
                if not pipe.poll(timeout_s):
                    raise JobFailed(f"{job.__name__} took longer than {timeout_s:g} s")
                ok, value = pipe.recv()
            except (EOFError, OSError) as error:
                self._end()
                raise JobFailed(f"the process of {job.__name__} died") from error
            except JobFailed:
                self._end()
                raise
        if ok:
            return value
        if isinstance(value, SpecloadError):
            raise value
        raise JobFailed(str(value))

    def _started(self) -> Connection:
        if self._pipe is None or self._process is None or not self._process.is_alive():
            spawn = multiprocessing.get_context("spawn")
            ours, theirs = spawn.Pipe()
            self._process = spawn.Process(target=serve_jobs, args=(theirs,), name="specload-background", daemon=True)
            with signals_held():
                self._process.start()
            theirs.close()
            self._pipe = ours
        return self._pipe

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process, self._pipe = None, None

    def close(self) -> None:
        """A job that runs is given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._process is not None:
            self._process.kill()
        with self._lock:
            self._end()


def serve_jobs(pipe: Connection) -> None:
    """Entry of the process; the end of the service ends it."""
    ignore_signals()
    os.nice(NICE)
    while True:
        try:
            job, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = True, job(*arguments)
        except _ERRORS as error:
            answer = False, error
        except Exception:
            answer = False, traceback.format_exc()
        try:
            pipe.send(answer)
        except OSError:
            return
