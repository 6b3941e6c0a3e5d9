"""The service's side of one run's process."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import IO, Literal

from pydantic import ValidationError

from loadgen.redact import Redactor, printable
from loadgen.service.runner.messages import UP, Ended, Start, Stop, Up
from loadgen.service.runner.spawner import Spawner

log = logging.getLogger("specload.service.run")

MODULE = "loadgen.service.runner.child"
#: Of one message: a metrics page whole.
LONGEST_LINE = 32 * 2**20
MOST_LOGGED = 2000


class RunProcess:
    """Started with `start`, told with `stop`; `wait` tells everything it says, and how it ended. In a session of its
    own: a Ctrl-C of the service's terminal is the service's business."""

    def __init__(self, start: Start, redact: Redactor, hear: Callable[[Up], None], spawner: Spawner) -> None:
        self._start = start
        self._redact = redact
        self._hear = hear
        self._spawner = spawner
        self._process: subprocess.Popen[bytes] | None = None
        self._stdin: asyncio.WriteTransport | None = None
        #: told before there was anybody to tell
        self._waiting: list[Stop] = []
        self._stops = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        self._process = await self._spawner.start([sys.executable, "-m", MODULE])
        loop = asyncio.get_running_loop()
        self._stdin, _ = await loop.connect_write_pipe(asyncio.Protocol, self._process.stdin)
        self._write(self._start)
        for stop in self._waiting:
            self._write(stop)

    def stop(self, by: str) -> Literal["drain", "cut"]:
        """The first drains, the next ones cut; which it was. Also before `start`: it is told once it can be. `by`: in
        the words of the report."""
        self._stops += 1
        how: Literal["drain", "cut"] = "drain" if self._stops == 1 else "cut"
        stop = Stop(stop=how, by=by)
        if self._stdin is None:
            self._waiting.append(stop)
        else:
            self._write(stop)
        return how

    def drain(self, by: str) -> None:
        """As the first stop; nothing where it is being stopped already: what a user drains, nobody cuts by this."""
        if not self._stops:
            self.stop(by)

    def kill(self) -> None:
        """It does not end by itself. Its workers notice, and close their records."""
        if self._process is not None:
            self._process.kill()  # nothing where it has ended

    def _write(self, message: Start | Stop) -> None:
        if self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(message.model_dump_json().encode() + b"\n")

    async def wait(self) -> Ended | str:
        """Its last message, or why there is none."""
        assert self._process is not None
        ended, _ = await asyncio.gather(self._read(), self._log_stderr())
        code = await asyncio.to_thread(self._process.wait)
        if self._stdin is not None:
            self._stdin.close()
        if ended is not None:
            return ended
        how = (
            f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code} and without a word"
        )
        return f"the run's process {how}"

    async def _read(self) -> Ended | None:
        assert self._process is not None
        ended: Ended | None = None
        try:
            async for line in _lines(self._process.stdout):
                try:
                    message = UP.validate_json(line)
                except ValidationError:
                    log.error("run %s: a line that is no message was left out", self._start.run_id)
                    continue
                if isinstance(message, Ended):
                    ended = message
                else:
                    self._hear(message)
        except _TooLong:
            log.error(
                "run %s: a message of more than %d bytes: its process is killed", self._start.run_id, LONGEST_LINE
            )
            self.kill()
        return ended

    async def _log_stderr(self) -> None:
        assert self._process is not None
        try:
            async for line in _lines(self._process.stderr):
                text = printable(self._redact(line.decode("utf-8", "replace").rstrip()))
                log.warning("run %s: %s", self._start.run_id, text[:MOST_LOGGED])
        except _TooLong:
            log.error("run %s: a line of more than %d bytes on stderr: its process is killed",
                      self._start.run_id, LONGEST_LINE)  # fmt: skip
            self.kill()


class _TooLong(Exception):
    """A line of more than LONGEST_LINE bytes."""


async def _lines(pipe: IO[bytes] | None) -> AsyncIterator[bytes]:
    """Until its end, which is closed afterwards. Raises _TooLong."""
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    try:
        async for line in reader:
            yield line
    except ValueError:  # what StreamReader says of its limit
        raise _TooLong from None
    finally:
        transport.close()
