"""A sweep over k = 0, 1, 2, 4 with a draft model, unattended, on real vLLM servers that it starts and stops; killed
with SIGKILL in the middle, and resumed.

python benchmarks/sweep_vllm.py [--out DIR] [--cases 24]

Needs `make vllm` once. Prints what the sweep said, what was kept over the kill, and how long it took.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loadgen.record import REQUESTS

KS = [0, 1, 2, 4]


def scenario(port: int, cases: int) -> dict[str, Any]:
    lengths = {"input_len": {"kind": "uniform", "low": 24, "high": 64}, "output_len": {"kind": "fixed", "value": 48}}
    return {
        "version": 1,
        "name": "k-vllm",
        "description": "draft lengths of the tiny models on this CPU",
        "objective": "throughput",
        "environment": "disposable",
        "seed": 5,
        "arms": {"server": {"url": f"http://127.0.0.1:{port}"}},
        "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
        "load": [{"kind": "concurrency", "concurrency": 2, "cases": cases}],
        "warmup": {"warmup_requests": 4},
        "scrape": {"interval_s": 0.5},
        "sweep": {
            "over": {"k": KS},
            "repeats": 1,
            "launch": {"kind": "vllm", "cpu": True, "speculative_config": {"method": "draft_model"}},
        },
    }


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", type=Path)
    made.add_argument("--cases", type=int, default=24)
    options = made.parse_args()
    out = options.out or Path(mkdtemp(prefix="specload-sweep-"))
    out.mkdir(parents=True, exist_ok=True)
    file = out / "k.yaml"
    file.write_text(yaml.safe_dump(scenario(free_port(), options.cases), sort_keys=False))
    begin = time.monotonic()
    folder, before = killed_in_the_middle(file, out)
    killed_s = time.monotonic() - begin
    print(f"killed after {killed_s:.0f} s with the visits {words(before)}", flush=True)
    done = subprocess.run([*SPECLOAD, "sweep", str(file), "--resume", str(folder)], text=True, stdout=subprocess.PIPE)
    took_s = time.monotonic() - begin
    print(done.stdout)
    after = state(folder)
    print(f"exit code {done.returncode} after {took_s:.0f} s in all, with the visits {words(after)}")
    problems = what_is_wrong(before, after, folder)
    print("\n".join(problems) or "what was measured before the kill was kept, and nothing of it was made again")
    return int(bool(problems) or done.returncode != 0)


SPECLOAD = [sys.executable, "-m", "loadgen"]


def killed_in_the_middle(file: Path, out: Path) -> tuple[Path, dict[str, Any]]:
    """SIGKILL once the second visit has written requests; the sweep's directory and its state then."""
    process = subprocess.Popen([*SPECLOAD, "sweep", str(file), "--out", str(out)])
    try:
        while process.poll() is None:
            time.sleep(0.2)
            for folder in out.glob("*-sweep-*"):
                second = list((folder / "points").glob("001-*/*/requests*.arrow"))
                if any(s.stat().st_size > REQUESTS.serialize().size for s in second):
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()
                    return folder, state(folder)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    raise SystemExit(f"the sweep ended before it could be killed, with {process.returncode}")


def what_is_wrong(before: dict[str, Any], after: dict[str, Any], folder: Path) -> list[str]:
    problems = []
    for was, now in zip(before["visits"], after["visits"], strict=True):
        tries = was["attempts"]
        if tries and tries[-1]["state"] == "done" and now["attempts"] != tries:
            problems.append(f"visit {was['number']} was done and was made again")
        if tries and tries[-1]["state"] == "running":
            kept = now["attempts"][0]
            if kept["state"] != "interrupted" or not (folder / str(kept["directory"]) / "manifest.json").is_file():
                problems.append(f"visit {was['number']} was cut, and its run is not kept and marked: {kept}")
        if now["attempts"][-1]["state"] != "done":
            problems.append(f"visit {now['number']} is not done: {now['attempts'][-1]['reason']}")
    return problems


def words(found: dict[str, Any]) -> str:
    return ", ".join(f"k={v['values']['k']} {v['attempts'][-1]['state'] if v['attempts'] else 'pending'}"
                     for v in found["visits"])  # fmt: skip


def state(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "sweep.json").read_bytes())
    return found


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
    return port


if __name__ == "__main__":
    sys.exit(main())
