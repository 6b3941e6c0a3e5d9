"""For the whole suite: no skips in CI; and a real Prometheus with the committed files, for the tests that need one.

The command line without a process of its own is for tests that only read."""

import asyncio
import contextlib
import gc
import io
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from loadgen.export import RULE_FILES, Limits, Windows, rule_file
from server_adapters.rehearsal.config import RehearsalConfig
from tests.forked import FORKING, instead_of_spawn, serve_until_closed
from tests.zygote import Zygote

PROMETHEUS = Path(__file__).resolve().parents[1] / "grafana" / "prometheus"
#: (alert, scope)
Alert = tuple[str, str]
#: Job of prometheus.yml -> its targets, as file_sd has them.
Targets = Mapping[str, list[dict[str, Any]]]

# A suite starts hundreds of interpreters: none of them should compile what another has compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With SPECLOAD_NO_SKIP=1 (CI) a skipped test fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and os.environ.get("SPECLOAD_NO_SKIP") == "1":
        reporter.write_line(f"{len(skipped)} skipped, and SPECLOAD_NO_SKIP=1 allows none", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> None:
    """A process of this suite holds more than a gigabyte after some thousand tests, and a whole collection of it stops
    every loop for half a second, which tests of timing would see. What is alive between two modules is left out of
    collections, as in the workers of a run."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def specload(monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """specload(*args, cwd=None): the entry point without a process of its own; exit code and both outputs."""
    from loadgen.cli import main

    monkeypatch.setenv("COLUMNS", "200")

    def run(*args: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = ["specload", *map(str, args)]
        wrote = io.BytesIO(), io.BytesIO()
        out, err = (io.TextIOWrapper(raw, encoding="utf-8") for raw in wrote)
        with (
            monkeypatch.context() as patched,
            contextlib.chdir(cwd or os.curdir),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patched.setattr(sys, "argv", command)
            with pytest.raises(SystemExit) as ended:
                main()
            out.flush()
            err.flush()
        code = ended.value.code
        assert isinstance(code, int)
        return subprocess.CompletedProcess(command, code, wrote[0].getvalue().decode(), wrote[1].getvalue().decode())

    return run


@contextmanager
def _forked(config: RehearsalConfig) -> Iterator[str]:
    ours, theirs = FORKING.Pipe()
    server = FORKING.Process(target=serve_until_closed, args=(config, theirs, dict(os.environ)), daemon=True)
    server.start()
    theirs.close()
    try:
        assert ours.poll(60), "the rehearsal server said nothing in time"
        yield ours.recv()
    finally:
        ours.close()
        server.join(10)
        assert server.exitcode == 0, "the rehearsal server did not end with its user"
        server.close()


@pytest.fixture(scope="session")
def rehearsal() -> Callable[[RehearsalConfig], AbstractContextManager[str]]:
    """with rehearsal(config) as url: a rehearsal server in a process of its own, forked from one in which everything is
    imported and trained, which takes most of two seconds. The command that users start is tests/server_adapters'."""
    return _forked


@pytest.fixture
def forked_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers and scrapers of runs in this process are forked as rehearsal servers are: for tests in which their start
    is not the subject. Otherwise it takes each of them most of a second of a core."""
    monkeypatch.setattr(multiprocessing, "get_context", instead_of_spawn)


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """What `specload …` in a process of its own is forked from."""
    made = Zygote()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """Where a program of Debian's is. Without it its tests skip; with SPECLOAD_NO_SKIP=1 that is a failure."""

    def find(name: str) -> str:
        found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        if found is None:
            reason = f"no {name} (sh scripts/setup_{'nginx' if name == 'nginx' else 'prometheus'}.sh)"
            if os.environ.get("SPECLOAD_NO_SKIP") == "1":
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)
        return found

    return find


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    def find() -> int:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port: int = s.getsockname()[1]
        return port

    return find


async def _until(true: Callable[[], Any], what: str, limit_s: float = 30) -> Any:
    end = asyncio.get_running_loop().time() + limit_s
    while True:
        with contextlib.suppress(httpx.HTTPError):
            found = true()
            found = await found if asyncio.iscoroutine(found) else found
            if found:
                return found
        assert asyncio.get_running_loop().time() < end, f"not within {limit_s:g} s: {what}"
        await asyncio.sleep(0.2)


@pytest.fixture
def until() -> Callable[..., Any]:
    """await until(true, what): `true()`, awaited where it is a coroutine, until it is something; else it fails."""
    return _until


@dataclass
class Prometheus:
    """A real one that looks and evaluates at the interval of its windows. Alerts are those of `scope`."""

    client: httpx.AsyncClient
    folder: Path

    async def firing(self) -> set[Alert]:
        found = (await self.client.get("/api/v1/alerts")).json()["data"]["alerts"]
        return {(a["labels"]["alertname"], a["labels"]["scope"]) for a in found if a["state"] == "firing"}

    async def asked(self, query: str) -> list[tuple[dict[str, str], float]]:
        """(labels, value) of each series now."""
        answer = (await self.client.get("/api/v1/query", params={"query": query})).json()
        return [(one["metric"], float(one["value"][1])) for one in answer["data"]["result"]]

    async def looked(self, instances: int, times: int = 3) -> bool:
        """Whether so many targets of the job inference answered so often."""
        return len(await self.asked(f'sum_over_time(up{{job="inference"}}[5m]) >= {times}')) >= instances


def _write(folder: Path, targets: Targets, windows: Windows, limits: Limits) -> None:
    """The committed files with short times and these targets."""
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    interval = windows.interval
    config["global"] = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), interval)
    (folder / "targets").mkdir()
    for job in (*config["scrape_configs"], {"job_name": "alertmanager"}):
        name = job["job_name"]
        (folder / "targets" / f"{name}.yml").write_text(yaml.safe_dump(targets.get(name, [])))
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    for name in RULE_FILES:
        (folder / name).write_text(rule_file(name, windows, limits))


@pytest.fixture
def prometheus_over(
    program: Callable[[str], str], free_port: Callable[[], int]
) -> Callable[[Path, Targets, Windows, Limits], AbstractAsyncContextManager[Prometheus]]:
    """prometheus_over(empty folder, targets, windows, limits): runs the committed configuration, ready when it is."""

    @asynccontextmanager
    async def run(folder: Path, targets: Targets, windows: Windows, limits: Limits) -> AsyncIterator[Prometheus]:
        _write(folder, targets, windows, limits)
        port, log = free_port(), folder / "prometheus.log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                program("prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                "--web.listen-address", f"127.0.0.1:{port}", stdout=file, stderr=file, cwd=folder,
            )  # fmt: skip
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:

                async def ready() -> bool:
                    assert process.returncode is None, log.read_text()
                    return (await client.get("/-/ready")).status_code == 200

                await _until(ready, "Prometheus is ready")
                yield Prometheus(client, folder)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    return run
