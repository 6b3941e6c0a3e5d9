"""`specload …` in processes of their own, forked from one that has imported everything: a command's imports take more
than a second of one core, and the suite starts hundreds. What is forked is as `python -m loadgen` would be: its
`__main__`, arguments, environment, folder, session and standard streams. That command itself is in tests/test_cli.py.

`python -m tests.zygote SOCKET` forks; `Zygote` asks it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 1 << 20


class Forked:
    """A command that runs. Its end is told by the process that forked it."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        said = link.recv(64)
        if not said:
            raise RuntimeError("the process to fork from has gone")
        self.pid = int(said)
        self.returncode: int | None = None

    def wait(self, timeout_s: float) -> int:
        """Its exit code, negative for a signal. TimeoutError: it goes on."""
        if self.returncode is None:
            self._link.settimeout(timeout_s)
            said = self._link.recv(64)
            if not said:
                raise RuntimeError("the process to fork from has gone")
            self.returncode = int(said)
            self._link.close()
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait(60)


class Zygote:
    """The process that is forked from, until `close`."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zygote")
        self._path = str(Path(self._folder.name) / "socket")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._path)
        listener.listen()
        command = [sys.executable, "-m", "tests.zygote", str(listener.fileno())]
        self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL)
        listener.close()

    def start(
        self,
        args: Sequence[str | Path],
        *,
        cwd: Path,
        out: int,
        err: int,
        env: Mapping[str, str] | None = None,
        new_session: bool = False,
    ) -> Forked:
        """`out`, `err`: descriptors; the caller keeps its own. `env`: beside this process's environment."""
        environ = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        asked: dict[str, Any] = {
            "args": [str(a) for a in args], "cwd": str(cwd), "env": environ, "new_session": new_session,
        }  # fmt: skip
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(120)
        link.connect(self._path)
        socket.send_fds(link, [json.dumps(asked).encode()], [out, err])
        return Forked(link)

    def run(
        self, args: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """To its end, as subprocess.run does with captured output."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            forked = self.start(args, cwd=cwd, out=out.fileno(), err=err.fileno(), env=env)
            try:
                code = forked.wait(timeout_s)
            finally:
                forked.kill()
            said = [(file.seek(0), file.read().decode())[1] for file in (out, err)]
        return subprocess.CompletedProcess([str(a) for a in args], code, *said)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._folder.cleanup()


def serve(listener: socket.socket) -> None:
    """Forks until it is terminated. Returns in a forked process only, which then is the command."""
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    links: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([listener, woken], [], [])
        if woken in ready:
            os.read(woken, LONGEST)
            tell_ends(links)
        if listener in ready:
            link, _ = listener.accept()
            data, fds, _, _ = socket.recv_fds(link, LONGEST, 2)
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for other in (listener, link, *links.values()):
                    other.close()
                os.close(woken)
                os.close(wake)
                become(json.loads(data), fds)
                return
            for fd in fds:
                os.close(fd)
            links[pid] = link
            link.send(b"%d" % pid)


def tell_ends(links: dict[int, socket.socket]) -> None:
    while links:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with links.pop(pid) as link:
            try:
                link.send(b"%d" % os.waitstatus_to_exitcode(status))
            except OSError:  # nobody waits for it any more
                continue


def become(asked: dict[str, Any], fds: list[int]) -> None:
    if asked["new_session"]:
        os.setsid()
    for fd, at in zip(fds, (1, 2), strict=True):
        os.dup2(fd, at)
        os.close(fd)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["specload", *asked["args"]]
    spec = importlib.util.find_spec("loadgen.__main__")  # what a run spawns imports its parent's __main__ by this name
    assert spec is not None
    main = types.ModuleType("__main__")
    main.__spec__, main.__file__, main.__package__ = spec, spec.origin, "loadgen"
    sys.modules["__main__"] = main


if __name__ == "__main__":
    import loadgen.cli.entry  # noqa: F401

    for name in (signal.SIGINT, signal.SIGTERM):
        assert signal.getsignal(name) in (signal.SIG_DFL, signal.default_int_handler)
    serve(socket.socket(fileno=int(sys.argv[1])))
    from loadgen.cli import main

    main()
