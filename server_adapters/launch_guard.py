"""The guard of one server: a program of its own, started by launch.py with `python -I`.

    launch_guard.py STOP_TIMEOUT_S STOP_COMMAND COMMAND [ARGUMENT...]

It starts the command in a new session, so in a process group of its own. With an empty STOP_COMMAND the
command is the server, and it is stopped by ending its whole group: SIGTERM, at most STOP_TIMEOUT_S seconds,
then SIGKILL. Otherwise the command must return 0 when it has started the server elsewhere, and the server is
stopped by running STOP_COMMAND in a shell.

The server is stopped when standard input, a pipe held open by the launcher, reaches end of file (the launcher
wants it, or died, however it died) or on SIGTERM. The guard also ends when the command failed or the server
ended by itself; nothing of its group stays behind then.

Standard output: the process id of the command, and "ended" where it ended by itself, each on a line. Standard
error: the log, for the command too. Where that is a pipe to the launcher, which may die, the guard itself passes on
what is said, and goes on reading without the launcher: a server or a stop command must not end or hang by its output.
Exit status: after a stop 0, else that of STOP_COMMAND, 1 if something survived; without a stop that of the
command, 128 + signal number if a signal ended it, 127 if it could not be started.
The command gets a temporary folder of its own in TMPDIR (vLLM leaves sockets there), removed at the end.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
KILL_WAIT_S = 10.0
POLL_S = 0.05
#: What a stop command that took too long has between SIGTERM and SIGKILL.
STOP_COMMAND_TERM_S = 1.0
#: For the last lines to reach the launcher.
LAST_WORDS_S = 1.0


def become_subreaper() -> None:
    """Adopt grandchildren whose parent died, so that they can be reaped here and do not stay as zombies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(child: subprocess.Popen[bytes]) -> None:
    """Reap what has ended: the child through its Popen, then adopted processes."""
    if child.poll() is None:
        return
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def signal_group(pgid: int, number: int) -> bool:
    """False if no process is left in the group; number 0 only asks."""
    try:
        os.killpg(pgid, number)
    except (ProcessLookupError, PermissionError):  # PermissionError: only zombies are left (macOS)
        return False
    return True


def end_group(child: subprocess.Popen[bytes], stop_timeout_s: float) -> bool:
    """True if nothing of the child's group is left."""
    for number, timeout_s in ((signal.SIGTERM, stop_timeout_s), (signal.SIGKILL, KILL_WAIT_S)):
        signal_group(child.pid, number)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            reap(child)
            if not signal_group(child.pid, 0):
                return True
            time.sleep(POLL_S)
    return False


def wait_for_end(child: subprocess.Popen[bytes], stays: bool, signals: int) -> bool:
    """Block until a stop is asked for (True) or the child ended (False; with `stays`, only if it failed)."""
    while True:
        status = child.poll()
        if status is not None and (status != 0 or not stays):
            return False
        ready, _, _ = select.select([0, signals], [], [])
        if 0 in ready and not os.read(0, 4_096):
            return True
        if signals in ready and signal.SIGTERM in os.read(signals, 4_096):
            return True


def run_stop_command(command: str, timeout_s: float) -> int:
    """Its exit status; 1 if it took too long: nothing of its session stays then."""
    child = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=2, start_new_session=True)
    try:
        return child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        print(f"the stop command took longer than {timeout_s:g} s", file=sys.stderr)
        end_group(child, STOP_COMMAND_TERM_S)
        return 1


def pass_on(source: int, to: int) -> None:
    """Until `source` ends. What cannot be written is read all the same."""
    while data := os.read(source, 65_536):
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(to, data) :]


def passing_on() -> threading.Thread:
    """From now on standard error is a pipe that this process reads."""
    launcher = os.dup(2)
    source, sink = os.pipe()
    os.dup2(sink, 2)
    os.close(sink)
    thread = threading.Thread(target=pass_on, args=(source, launcher), daemon=True)
    thread.start()
    return thread


def end_passing(thread: threading.Thread) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    thread.join(LAST_WORDS_S)


def tell(what: object) -> None:
    """One line to the launcher; if that is dead, standard input has ended, too, and says so."""
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"{what}\n".encode())


def guard(child: subprocess.Popen[bytes], stop_command: str, stop_timeout_s: float, signals: int) -> int:
    stopped = wait_for_end(child, bool(stop_command), signals)
    if not stopped:
        tell("ended")
    status = child.poll()
    if stop_command and status == 0:  # what the start command left in its group may be the server
        return run_stop_command(stop_command, stop_timeout_s)
    gone = end_group(child, stop_timeout_s)
    if not stopped:
        assert status is not None
        return status if status >= 0 else 128 - status
    if stop_command:
        return run_stop_command(stop_command, stop_timeout_s)
    return 0 if gone else 1


def main(argv: list[str]) -> int:
    stop_timeout_s, stop_command, command = float(argv[0]), argv[1], argv[2:]
    become_subreaper()
    signals, signals_in = os.pipe()
    os.set_blocking(signals_in, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(signals_in)
    passing = passing_on() if stat.S_ISFIFO(os.fstat(2).st_mode) else None
    folder = tempfile.mkdtemp(prefix="specload-guard-")
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=2, stderr=2, start_new_session=True,
            env={**os.environ, "TMPDIR": folder},
        )  # fmt: skip
        tell(child.pid)
        return guard(child, stop_command, stop_timeout_s, signals)
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if passing is not None:
            end_passing(passing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
