"""A real run with live metrics, as a process: scraped while it runs, after its end, and as a file."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from loadgen.record import open_run

Hostile = Callable[..., Awaitable[Any]]


def values(page: str) -> dict[str, float]:
    rows = (line.rsplit(" ", 1) for line in page.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, value in rows}


def total(found: dict[str, float], name: str, *labels: str) -> float:
    return sum(v for k, v in found.items() if k.split("{")[0] == name and all(label in k for label in labels))


async def test_a_run_is_seen_live_and_the_last_values_are_those_of_its_records(
    hostile: Hostile,
    command: Callable[..., Awaitable[Any]],
    scenario: Callable[..., Path],
    the_run: Callable[[], tuple[Path, Any]],
    tmp_path: Path,
) -> None:
    """G18, G19: every scrape holds what came before, the last one all of it; --linger keeps it there until it was seen,
    and Ctrl-C ends that without changing the exit code."""
    server = await hostile(
        pause_s=0.05, misbehave=lambda n, _h: b"HTTP/1.1 500 -\r\ncontent-length: 0\r\n\r\n" if n == 9 else None
    )
    file = scenario({"url": server.url}, load=[{"kind": "concurrency", "concurrency": 2, "cases": 24}])
    process = await command(
        "run", file, "--out", "runs", "--metrics-port", "0", "--linger", "300", "--textfile", "last.prom",
        env={"COLUMNS": "200"},
    )  # fmt: skip
    seen: list[dict[str, float]] = []
    async with asyncio.timeout(120), httpx.AsyncClient(trust_env=False) as client:
        url = re.search(r"http://\S+", (await process.stderr.readline()).decode())
        assert url is not None

        async def scrape() -> None:
            while True:
                seen.append(values((await client.get(url[0])).text))
                await asyncio.sleep(0.2)

        scraping = asyncio.create_task(scrape())
        async for line in process.stderr:
            if b"metrics stay at" in line:
                break
        scraping.cancel()
        await asyncio.gather(scraping, return_exceptions=True)
        last = values((await client.get(url[0])).text)
        os.kill(process.pid, signal.SIGINT)
        await process.stderr.read()
        code = await process.wait()
    path, manifest = the_run()
    rows = [r for r in open_run(path).requests.to_pylist() if r["phase"] == "measure"]
    ok = [r for r in rows if r["outcome"] == "ok"]
    assert (len(rows), len(ok)) == (24, 23)
    assert total(last, "specload_requests_total", 'outcome="ok"') == 23
    assert total(last, "specload_requests_total", 'outcome="http_error"') == 1
    assert total(last, "specload_sent_requests_total") == 24
    assert abs(total(last, "specload_ttft_seconds_sum") - sum(r["ttft_s"] for r in ok)) < 1e-6
    assert total(last, "specload_output_tokens_total") == sum(r["output_len"] or 0 for r in rows)
    assert total(last, "specload_run_active") == 0
    summary = json.loads((path / "summary.json").read_bytes())
    state = {"valid": 1, "invalid": 0, "doubtful": -1}[summary["validity"]["state"]]
    assert last[f'specload_run_validity{{run_id="{manifest["run_id"]}"}}'] == state
    ended = [total(one, "specload_requests_total") for one in seen if one]
    assert ended == sorted(ended)
    assert ended[0] == 0
    assert any(0 < n < 24 for n in ended)
    assert any(total(one, "specload_inflight_requests") > 0 for one in seen)
    assert values((tmp_path / "last.prom").read_text()) == last
    assert code in (0, 98)


def test_linger_needs_a_port(specload: Callable[..., Any], scenario: Callable[..., Path]) -> None:
    """Asked before the server is: nothing listens there."""
    done = specload("run", scenario({"url": "http://127.0.0.1:1"}), "--linger", "5")
    assert done.returncode == 2
    assert "--linger has no meaning without --metrics-port" in done.stderr
