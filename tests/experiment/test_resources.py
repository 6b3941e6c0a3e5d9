"""A real run on the rehearsal engine beside a GPU exporter's page whose counters move: energy and cost by hand."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from loadgen.analyze import analyze
from loadgen.record import open_run
from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import rehearsal_server

WATTS, PRICE, MIB = 450.0, 7.2, 2**20


@pytest.fixture
async def exporter() -> AsyncIterator[str]:
    """dcgm-exporter's families for two GPUs that draw 150 and 300 W for ever."""

    def page() -> bytes:
        lines = []
        for gpu, watts in (("0", 150.0), ("1", 300.0)):
            labels = f'{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100",Hostname="node"}}'
            values = {
                "DCGM_FI_DEV_FB_USED": 71234,
                "DCGM_FI_DEV_GPU_UTIL": 80,
                "DCGM_FI_PROF_DRAM_ACTIVE": 0.625,
                "DCGM_FI_DEV_POWER_USAGE": watts,
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": round(5e6 + 1e3 * watts * time.monotonic()),
            }
            lines += [f"{name}{labels} {value}" for name, value in values.items()]
        return "\n".join([*lines, ""]).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                body = page()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
    server.close()


async def test_energy_and_cost_of_a_real_run(
    cli: Callable[..., Awaitable[Any]],
    scenario: Callable[..., Path],
    the_run: Callable[[], tuple[Path, dict[str, Any]]],
    exporter: str,
) -> None:
    """H17: the recorded samples give what a meter at the wall would: 450 W for as long as the window lasts."""
    async with rehearsal_server(RehearsalConfig(spec="off", model="8b", hardware="a100", speed=2.0)) as url:
        telemetry = {
            "gpu_metrics_urls": [exporter], "pid": os.getpid(), "interval_s": 0.1, "price_per_gpu_hour": PRICE
        }  # fmt: skip
        lengths = {"input_len": {"kind": "fixed", "value": 30}, "output_len": {"kind": "fixed", "value": 64}}
        file = scenario(
            {"url": url, "telemetry": telemetry},
            workload={"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
            load=[{"kind": "concurrency", "concurrency": 2, "cases": 16}],
            scrape={"interval_s": 0.2, "timeout_s": 2, "idle_wait_s": 0},
        )
        ended = await cli("run", file, "--out", "runs", "--textfile", "last.prom")
    assert ended.code in (0, 98), ended.said
    path, _ = the_run()
    run = open_run(path)
    summary = analyze(run)
    assert json.loads((path / "summary.json").read_bytes())["resources"] == json.loads(
        summary.resources.model_dump_json(by_alias=True)
    )
    arm, rates = summary.resources.arms["base"], summary.arms["base"].overall.throughput
    use = arm.overall
    joules, tokens = use.energy_joules, use.output_tokens.value
    assert joules.low is not None
    assert joules.high is not None
    assert joules.low <= WATTS * use.window_s <= joules.high
    assert joules.value == pytest.approx(WATTS * use.window_s, rel=0.05)
    assert rates.net_tokens_per_s.value is not None
    assert tokens == pytest.approx(rates.net_tokens_per_s.value * use.window_s)
    assert use.joules_per_output_token.value == pytest.approx(WATTS / rates.net_tokens_per_s.value, rel=0.05)
    assert (arm.gpus.value, arm.devices) == (2.0, ["0", "1"])
    per_million = 2 * PRICE / 3600 / rates.net_tokens_per_s.value * 1e6
    assert use.cost_per_million_output_tokens.value == pytest.approx(per_million)
    assert use.memory_peak_bytes.value == 2 * 71234 * MIB
    assert (use.dram_active.value, use.power_watts.value) == pytest.approx((0.625, WATTS))
    assert arm.background_power_watts.value == pytest.approx(WATTS)
    assert arm.kv_capacity_tokens.value is not None
    assert use.process_rss_peak_bytes.value is not None
    peaks = set(run.requests["gpu_mem_peak_bytes"].to_pylist())
    assert peaks <= {2 * 71234 * MIB, None}
    assert 2 * 71234 * MIB in peaks
    assert "Resources and cost" in ended.out
    page = (path.parent.parent / "last.prom").read_text()
    assert 'specload_run_kv_capacity_tokens{arm="base"' in page
    assert f'specload_gpu_power_watts{{arm="base",source="{exporter}"}} 450.0' in page
