"""A user's command that ends by itself, run under the guard of launch_guard.py: nothing of its process group stays
behind, also where this process is killed meanwhile."""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from server_adapters.launch import environment

#: Of what a command says, its first so many bytes are kept.
KEPT_BYTES = 16 * 1024
#: Between SIGTERM and SIGKILL, where it took too long.
TERM_S = 1.0
#: For the guard to end, after that.
_MARGIN_S = 20.0
_NOT_STARTED = 127


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command went. `begin_ns` (CLOCK_MONOTONIC): it was started. `status`: its exit status, 128 + number where
    a signal ended it, 127 where it could not be started; None: it took too long and was ended. `said`: both its
    outputs, as they came, unmasked."""

    begin_ns: int
    took_s: float
    status: int | None
    said: str


async def run_guarded(command: str | Sequence[str], env: Mapping[str, str], timeout_s: float) -> Ran:
    """Run it: a list as it is, a text by /bin/sh. `env` is added to this process's environment. Cancelled, it ends the
    command and waits for that. Raises OSError where not even the guard can be started."""
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    guard = await asyncio.create_subprocess_exec(
        sys.executable, "-I", str(Path(__file__).with_name("launch_guard.py")), str(TERM_S), "", *words,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=environment(env), start_new_session=True,
    )  # fmt: skip
    assert guard.stdout is not None
    said = bytearray()
    reading = asyncio.create_task(_read(guard, said))
    begin_ns = time.monotonic_ns()
    status: int | None = None
    try:
        async with asyncio.timeout(timeout_s):
            await guard.stdout.readline()  # the command's process id: it runs
            begin_ns = time.monotonic_ns()
            status = await guard.wait()
    except TimeoutError:
        pass
    finally:
        await asyncio.shield(_end(guard, reading))
    took_s = (time.monotonic_ns() - begin_ns) / 1e9
    return Ran(begin_ns, took_s, status, said.decode("utf-8", "replace"))


async def _read(guard: asyncio.subprocess.Process, said: bytearray) -> None:
    """All of it, so that the command never waits for us; the beginning is kept."""
    assert guard.stderr is not None
    while data := await guard.stderr.read(65_536):
        said += data[: KEPT_BYTES - len(said)]


async def _end(guard: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
    """End of file on its input: the guard ends the command's group, then itself."""
    assert guard.stdin is not None
    guard.stdin.close()
    try:
        async with asyncio.timeout(TERM_S + _MARGIN_S):
            await guard.wait()
            await reading
    except TimeoutError:
        reading.cancel()
        with suppress(ProcessLookupError):
            guard.kill()
        await guard.wait()
