"""Clients that go at every stage: the rehearsal engine counts of them what a real vLLM counts."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from server_adapters.launch import LaunchedServer
from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import rehearsal_server_sync

pytestmark = pytest.mark.vllm

COUNTED = ("vllm:request_success_total", 'http_requests_total{handler="/v1/completions"')
LONG = {"prompt": "def add(numbers):", "max_tokens": 1500, "ignore_eos": True}


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with rehearsal_server_sync(RehearsalConfig("draft:k=4", model="8b", served_model_name="tiny")) as url:
        yield url


def request(**more: object) -> bytes:
    content = json.dumps({**LONG, **more}).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    )
    return f"{head}\r\n\r\n".encode() + content


def head_only(whole: bytes) -> bytes:
    return whole[: whole.index(b"\r\n\r\n") + 4]


def page(url: str) -> dict[str, float]:
    lines = httpx.get(f"{url}/metrics", timeout=30).text.splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def told(url: str, before: dict[str, float]) -> dict[str, float]:
    """What rose, of requests finished and answered."""
    return {
        n: v - before.get(n, 0.0) for n, v in page(url).items() if n.startswith(COUNTED) and v != before.get(n, 0.0)
    }


def counts(url: str, sent: bytes, *, reads: bool) -> dict[str, float]:
    """Send, read the first bytes of the answer where asked, go; wait until it is counted and nothing runs."""
    before = page(url)
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(sent)
        if reads:
            client.recv(1000)
    deadline = time.monotonic() + 30
    while not told(url, before) or any(v for n, v in page(url).items() if n.startswith("vllm:num_requests_running")):
        assert time.monotonic() < deadline, "it was never counted, or runs on"
        time.sleep(0.05)
    return told(url, before)


STAGES: dict[str, tuple[Callable[[], bytes], bool]] = {
    "before the body": (lambda: head_only(request()), False),
    "inside the body": (lambda: request()[:-20], False),
    "before the answer": (lambda: request(stream=True), False),
    "inside the stream": (lambda: request(stream=True), True),
    "before a whole answer": (request, False),
    "not at all": (lambda: request(max_tokens=1), True),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_client_that_goes(vllm_draft: LaunchedServer, ours: str, stage: str) -> None:
    """H20: the request ends at once. vLLM 0.32 counts no aborted request among the finished."""
    make, reads = STAGES[stage]
    real = counts(vllm_draft.url, make(), reads=reads)
    assert counts(ours, make(), reads=reads) == real
    finished = sum(v for name, v in real.items() if name.startswith("vllm:"))
    assert finished == (1 if stage == "not at all" else 0)
