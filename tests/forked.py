"""What is forked from a process in which everything is imported already: rehearsal servers and the command line.

An import of the whole program takes more than a second of a core, and so does that of each process that a run starts.
See the fixtures `rehearsal`, `forked_children` and `cli`."""

from __future__ import annotations

import asyncio
import io
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from types import ModuleType
from typing import Any

from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import serve

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["tests.forked_preload"])


def serve_until_closed(config: RehearsalConfig, pipe: Connection) -> None:
    """Tells its URL, and ends when the other end of the pipe does."""
    serve(config, pipe.send, until_eof=pipe.fileno())


def instead_of_spawn(_method: str | None = None) -> ForkServerContext:
    """In place of multiprocessing.get_context: a run's workers and its scraper are forked, too. They are then in
    nobody's process group, and know nothing of the environment of who starts them."""
    return FORKING


@dataclass(frozen=True)
class Asked:
    """One command. `before`: called in its process first of all. `forked`: its children are, too."""

    args: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    before: Callable[[], object] | None
    forked: bool


def run_command(asked: Asked, out: Connection, err: Connection) -> None:
    """`specload` in a session of its own, as a shell would start it."""
    os.setsid()
    os.chdir(asked.folder)
    os.environ.clear()
    os.environ.update(asked.environment)
    tempfile.tempdir = None  # the environment may name another
    for pipe, fd in ((out, 1), (err, 2)):
        os.dup2(pipe.fileno(), fd)
        pipe.close()
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8")  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(open(2, "wb", 0, closefd=False), encoding="utf-8", write_through=True)  # noqa: SIM115
    sys.argv = ["specload", *asked.args]
    sys.modules["__main__"] = ModuleType("__main__")  # spawned children import nothing of pytest
    if asked.before is not None:
        asked.before()
    if asked.forked:
        share_the_server()
    from loadgen.cli import main

    main()


def share_the_server() -> None:
    """Children of this forked process are forked by the server that forked it: Python would start another one."""
    from multiprocessing import forkserver

    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[attr-defined]
    multiprocessing.get_context = instead_of_spawn  # type: ignore[assignment]


class Command:
    """A command that runs: `pid`, `stdout` and `stderr` as those of an asyncio process."""

    def __init__(self, process: ForkServerProcess, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self.stdout, self.stderr = stdout, stderr
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    async def wait(self) -> int:
        await asyncio.to_thread(self._process.join)
        code = self._process.exitcode
        assert code is not None
        return code

    def signal_group(self, number: int) -> None:
        """As a terminal would: to it, and to the children that it has spawned."""
        os.killpg(self.pid, number)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Nothing of it is left, however the test has ended."""
        if self._process.exitcode is None:
            with suppress(ProcessLookupError):
                self.signal_group(signal.SIGKILL)
            self._process.kill()  # where it has no group yet
            self._process.join()
        self._process.close()


async def started(asked: Asked) -> Command:
    """Start a command; `end` belongs to it."""
    (out, theirs_out), (err, theirs_err) = FORKING.Pipe(duplex=False), FORKING.Pipe(duplex=False)
    process = FORKING.Process(target=run_command, args=(asked, theirs_out, theirs_err))
    process.start()
    theirs_out.close()
    theirs_err.close()
    return Command(process, await _reader(out), await _reader(err))


async def _reader(pipe: Connection) -> asyncio.StreamReader:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    file: Any = os.fdopen(os.dup(pipe.fileno()), "rb", 0)
    pipe.close()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    return reader
