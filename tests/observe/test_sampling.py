"""Samples of an arm's hardware from the scraping process, against a real exporter's page and a real process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from loadgen.clock import now_ns
from loadgen.observe import ScrapeArm, Scraper, TelemetrySample, TelemetrySources

PAGE = (Path(__file__).resolve().parents[1] / "data" / "telemetry" / "dcgm.txt").read_bytes()


class Exporter:
    """`answer`: the next pages' status line and body."""

    def __init__(self) -> None:
        self.answer = ("200 OK", PAGE)
        self.heads: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                status, body = self.answer
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


@pytest.fixture
async def exporter() -> AsyncIterator[Exporter]:
    made = Exporter()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
    yield made
    server.close()


async def test_every_source_is_sampled_failures_too_and_gets_no_secret(exporter: Exporter) -> None:
    """One process for all of it: an exporter, this test's own process, and a GPU that is not there."""
    samples: list[TelemetrySample] = []
    sources = TelemetrySources(
        nvml=(0,), gpu_metrics_urls=(exporter.url,), devices=(0,), pid=os.getpid(), interval_s=0.1
    )
    headers = {"Authorization": SecretStr("Bearer s3cret")}
    arm = ScrapeArm("a", "vllm", "m", (), headers, telemetry=sources)
    scraper = Scraper([arm], 60.0, 5.0, on_sample=samples.append)
    before = now_ns()
    await scraper.start()

    async def until(reason: str | None, source: str) -> TelemetrySample:
        async with asyncio.timeout(20):
            while True:
                found = [s for s in samples if s.source == source and s.reason == reason]
                if len(found) > 1:
                    return found[-1]
                await asyncio.sleep(0.02)

    try:
        page = await until(None, exporter.url)
        assert {r.name: r.value for r in page.readings}["memory_used_bytes"] == 71234 * 2**20
        assert "DCGM_FI_PROF_DRAM_ACTIVE" in page.absent["dram_active_ratio"]
        assert before <= page.asked_ns <= page.answered_ns <= now_ns()
        process = await until(None, f"pid {os.getpid()}")
        assert {r.name: r.value for r in process.readings}["process_rss_bytes"] > 10 * 2**20
        await until("NVMLError_LibraryNotFound: NVML Shared Library Not Found", "nvml")
        exporter.answer = ("500 Internal Server Error", b"")
        await until("HTTP 500", exporter.url)
        exporter.answer = ("200 OK", b"<html>")
        await until("the page is HTML or XML, not Prometheus text", exporter.url)
        assert {s.arm for s in samples} == {"a"}
        assert not any("s3cret" in head or "uthorization" in head for head in exporter.heads)
    finally:
        await scraper.stop()
