"""Chunks/s one rehearsal server streams, its lag and memory, up to where it says `saturated`.

    python benchmarks/rehearsal_rate.py [--streams 256] [--seconds 5] [--spec draft:k=4] [--speeds 1,2,4,8]

A raw socket reader counts events; the server is a process of its own. Each row is one speed factor, so that the
load asked for doubles from row to row."""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import time
from urllib.parse import urlsplit

import httpx

from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import rehearsal_server_sync

PROMPT = "Explain how a bridge carries a load, and tell the story of one that did not."


def connect(host: str, port: int, seed: int) -> socket.socket:
    """One request, sent and not read."""
    body = json.dumps(
        {"prompt": PROMPT, "max_tokens": 3800, "ignore_eos": True, "stream": True, "seed": seed, "temperature": 0.8}
    ).encode()
    connection = socket.create_connection((host, port))
    head = f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n"
    connection.sendall(f"{head}content-type: application/json\r\n\r\n".encode() + body)
    connection.setblocking(False)
    return connection


def count_events(connections: list[socket.socket], seconds: float) -> tuple[int, float]:
    """Events that arrive within about `seconds`, and how long it really was. The first second is not counted."""
    selector = selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection, selectors.EVENT_READ)
    started = time.monotonic() + 1.0
    events, now = 0, time.monotonic()
    while now < started + seconds:
        for key, _ in selector.select(0.1):
            data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
            if now >= started:
                events += data.count(b"data: {")
        now = time.monotonic()
    selector.close()
    return events, now - started


def measure(config: RehearsalConfig, streams: int, seconds: float) -> None:
    with rehearsal_server_sync(config) as url:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        assert host is not None
        assert port is not None
        connections = [connect(host, port, seed) for seed in range(streams)]
        events, took_s = count_events(connections, seconds)
        page = httpx.get(f"{url}/metrics", timeout=30).text
        for connection in connections:
            connection.close()
    told = {line.split(" ")[0]: float(line.split(" ")[1]) for line in page.splitlines() if line[:1] in "rp"}
    mean_ms = 1e3 * told["rehearsal:lag_seconds_total"] / max(told["rehearsal:lagged_outputs_total"], 1.0)
    print(
        f"{config.speed:6g} {events / took_s:10.0f} {mean_ms:10.1f} {1e3 * told['rehearsal:lag_max_seconds']:10.1f} "
        f"{told['rehearsal:forgone_seconds_total']:9.2f} {int(told['rehearsal:saturated']):9d} "
        f"{told['process_resident_memory_bytes'] / 1e6:7.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--spec", default="draft:k=4")
    parser.add_argument("--speeds", default="1,2,4,8")
    asked = parser.parse_args()
    print(" speed   chunks/s  lag ms mean  lag ms max forgone s saturated  RSS MB")
    for speed in map(float, asked.speeds.split(",")):
        config = RehearsalConfig(
            spec=asked.spec, model="8b", draft_model="0.5b", speed=speed, max_num_seqs=asked.streams, jitter=0.0
        )
        measure(config, asked.streams, asked.seconds)


if __name__ == "__main__":
    main()
