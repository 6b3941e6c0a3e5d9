"""The gateway of examples/nginx as a process of its own: the files as they are, with other ports."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "nginx"


@dataclass(frozen=True)
class Gateway:
    """In front of two servers. `folder` has the files; nginx is on the way to the speculating one."""

    folder: Path
    url: str
    speculating: str
    fallback: str

    def arm(self, **more: Any) -> dict[str, Any]:
        """The arm of a drill's scenario."""
        pages = [f"{url}/metrics" for url in (self.speculating, self.fallback)]
        return {"url": self.url, "metrics_urls": pages, "served_by_header": "X-Served-By", **more}

    def drill(self, **more: Any) -> dict[str, Any]:
        """The section `drill` of a scenario, with the switch of the example."""
        call = {"kind": "command", "command": ["sh", str(self.folder / "switch.sh")], "timeout_s": 20}
        return {
            "switch": {"off": call, "on": call},
            **{
                side: {"metrics_urls": [f"{url}/metrics"], "served_by": [url.removeprefix("http://")]}
                for side, url in (("speculating", self.speculating), ("fallback", self.fallback))
            },
            **more,
        }


@contextmanager
def gateway(folder: Path, nginx: str, port: int, speculating: str, fallback: str) -> Iterator[Gateway]:
    """Runs it until the end of the block; `folder` is empty. `speculating`, `fallback`: base URLs."""
    for name in ("nginx.conf", "speculating.conf", "fallback.conf", "switch.sh"):
        text = (EXAMPLE / name).read_text()
        for was, now in (
            ("127.0.0.1:8080", f"127.0.0.1:{port}"),
            ("127.0.0.1:8001", speculating.removeprefix("http://")),
            ("127.0.0.1:8002", fallback.removeprefix("http://")),
        ):
            text = text.replace(was, now)
        (folder / name).write_text(text)
    shutil.copy(folder / "speculating.conf", folder / "upstream.conf")
    # a worker of another user could not read a test's folder
    options = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
    with (folder / "said.log").open("wb") as log:
        process = subprocess.Popen(
            [nginx, "-p", str(folder), "-c", "nginx.conf", "-g", options], stdout=log, stderr=log
        )
    try:
        _answers(f"http://127.0.0.1:{port}/health", process, folder)
        yield Gateway(folder, f"http://127.0.0.1:{port}", speculating, fallback)
    finally:
        process.terminate()
        process.wait(20)


def _answers(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    for _ in range(300):
        assert process.poll() is None, (folder / "said.log").read_text()
        try:
            if httpx.get(url, timeout=2, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("the gateway never answered")
