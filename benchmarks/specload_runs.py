"""Whole runs of specload for the benchmarks: the scenario against the truth server, the process and its children."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from accuracy_process import Measured, on_core, run_measured

from loadgen.record import RunData, open_run

PROJECT = Path(__file__).resolve().parent.parent


def scenario(port: int, load: dict[str, Any], tokens: int, **more: Any) -> dict[str, Any]:
    """Prompts of 32 tokens on completions, no warm-up, no metrics page: the truth server counts."""
    task = {
        "task_type": "short_qa",
        "input_len": {"kind": "fixed", "value": 32},
        "output_len": {"kind": "fixed", "value": tokens},
    }
    return {
        "version": 1,
        "name": "benchmark",
        "environment": "disposable",
        "arms": {"truth": {"url": f"http://127.0.0.1:{port}", "metrics_urls": []}},
        "workload": {"endpoint": "completions", "tasks": [task]},
        "warmup": {"warmup_requests": 0},
        "scrape": {"idle_wait_s": 0},
        "load": [load],
        **more,
    }


def command(content: dict[str, Any], folder: Path, transport: str, workers: int, *more: str) -> list[str]:
    file = folder / "scenario.yaml"
    file.write_text(json.dumps(content, indent=2))
    options = ["--out", str(folder / "runs"), "--json", "--transport", transport, "--workers", str(workers)]
    return [sys.executable, "-m", "loadgen", "run", str(file), *options, *more]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PROJECT)}


@dataclass(frozen=True)
class Whole:
    """A run that has ended. `measured`: CPU and memory of all its processes."""

    path: Path
    code: int
    measured: Measured | None

    @property
    def summary(self) -> dict[str, Any]:
        return dict(json.loads((self.path / "summary.json").read_bytes()))

    @property
    def run(self) -> RunData:
        return open_run(self.path)

    def client(self, name: str) -> float | None:
        """A number of the run's self-check."""
        value: float | None = self.summary["validity"]["client"][name]["value"]
        return value


def run(
    content: dict[str, Any],
    folder: Path,
    core: int | None,
    *,
    transport: str = "kernel",
    workers: int = 1,
    timeout_s: float = 170.0,
) -> Whole:
    """Run it, counted. RuntimeError, with what it said, where it wrote no summary."""
    folder.mkdir(parents=True)
    measured = run_measured(
        command(content, folder, transport, workers), environment(), core, timeout_s, folder / "log"
    )
    return Whole(_path(folder), measured.code, measured)


def _path(folder: Path) -> Path:
    found = list(folder.glob("runs/*/summary.json"))
    if not found:
        raise RuntimeError(f"specload wrote no summary: {(folder / 'log').read_text(errors='replace')[-2000:]}")
    return found[0].parent


class Running:
    """A run in progress, for benchmarks that watch it or do something to it. Ended with the block, whatever happens."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def processes(self) -> dict[str, psutil.Process]:
        """By what they do: coordinator, worker N, scraper."""
        found = {"coordinator": psutil.Process(self._process.pid)}
        for child in found["coordinator"].children():
            with contextlib.suppress(psutil.Error):
                if name := role(child.cmdline(), [Path(file.path).name for file in child.open_files()]):
                    found[name] = child
        return found

    def phase_lines(self) -> list[dict[str, Any]]:
        """Segments begun and ended so far."""
        files = list(self._folder.glob("runs/*/phases.jsonl"))
        lines = files[0].read_bytes().split(b"\n")[:-1] if files else []
        return [json.loads(line) for line in lines]

    def until_begun(self, timeout_s: float = 60.0) -> None:
        """Until the first segment's time zero."""
        limit = time.monotonic() + timeout_s
        while not (lines := self.phase_lines()) or time.monotonic_ns() < lines[0]["started_ns"]:
            if not self.alive or time.monotonic() > limit:
                said = (self._folder / "log").read_text(errors="replace")
                raise RuntimeError(f"the run did not begin: {said[-2000:]}")
            time.sleep(0.02)

    def end(self, timeout_s: float) -> Whole:
        code = self._process.wait(timeout_s)
        return Whole(_path(self._folder), code, None)


@contextlib.contextmanager
def running(
    content: dict[str, Any],
    folder: Path,
    core: int | None,
    *more: str,
    transport: str = "kernel",
    workers: int = 1,
) -> Iterator[Running]:
    """`more`: options of the command."""
    folder.mkdir(parents=True)
    with (folder / "log").open("wb") as log, on_core(core):
        process = subprocess.Popen(
            command(content, folder, transport, workers, *more), env=environment(), stdin=subprocess.DEVNULL,
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield Running(process, folder)
    finally:
        if process.poll() is None:
            process.kill()  # its workers end with its pipes
        process.wait()


def role(cmdline: Sequence[str], files: Sequence[str]) -> str | None:
    """What a child of the coordinator does. None: multiprocessing's own helper."""
    if any("resource_tracker" in word for word in cmdline):
        return None
    numbers = [name.removeprefix("requests-").removesuffix(".arrow") for name in files if name.startswith("requests-")]
    return f"worker {numbers[0]}" if numbers else "scraper"
