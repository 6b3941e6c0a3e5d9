"""docker-compose.yml and the Dockerfile as data, and compose's services as processes of this machine."""

import asyncio
import contextlib
import os
import re
import shutil
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
#: Image -> what its entry point is here. Ours is the Dockerfile's `specload`; the others' are those of their images.
PROGRAMS = {"prom/prometheus": "prometheus", "prom/alertmanager": "prometheus-alertmanager"}
OURS = "specload"

Service = Mapping[str, Any]


@dataclass(frozen=True)
class Mount:
    """`source` is a path, or a volume's name where `bind` is false."""

    source: str
    target: str
    read_only: bool

    @property
    def bind(self) -> bool:
        return self.source.startswith((".", "/"))


def mounts(service: Service) -> list[Mount]:
    parts = [text.split(":") for text in service.get("volumes", [])]
    return [Mount(source, target, mode == ["ro"]) for source, target, *mode in parts]


def container_ports(service: Service) -> list[int]:
    return [int(text.split(":")[-1]) for text in service.get("ports", [])]


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    """docker-compose.yml with every variable at its default."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))
    return loaded


@pytest.fixture(scope="session")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


@pytest.fixture(scope="session")
def stages() -> list[list[tuple[str, str]]]:
    """The Dockerfile's stages, each a list of (instruction, what follows it)."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    found: list[list[tuple[str, str]]] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.strip():
            instruction, rest = line.split(maxsplit=1)
            if instruction == "FROM":
                found.append([])
            found[-1].append((instruction, rest))
    return found


@dataclass
class Native:
    """Services as processes: mounts become copies under `folder`, names and ports become free ones of 127.0.0.1; no
    more of their commands and files is changed."""

    services: Mapping[str, Service]
    folder: Path
    program: Callable[[str], str]
    free_port: Callable[[], int]
    ports: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ports = {
            (name, port): self.free_port()
            for name, service in self.services.items()
            for port in container_ports(service)
        }
        for name, service in self.services.items():
            (self.root(name) / "work").mkdir(parents=True)
            for mount in sorted(mounts(service), key=lambda mount: mount.target.count("/")):
                self._mount(name, mount)

    def root(self, name: str) -> Path:
        return self.folder / name

    def url(self, name: str, port: int) -> str:
        return f"http://127.0.0.1:{self.ports[name, port]}"

    def text(self, name: str, text: str) -> str:
        """`host:port` as the service called `name` means it -> where that is here."""

        def here(found: re.Match[str]) -> str:
            host = found[1] if found[1] in self.services else name
            return f"127.0.0.1:{self.ports.get((host, int(found[2])), found[2])}"

        hosts = "|".join(map(re.escape, (*self.services, "0.0.0.0", "127.0.0.1")))
        return re.sub(rf"(?<![\w.-])({hosts}):(\d+)", here, text)

    def command(self, name: str) -> list[str]:
        service = self.services[name]
        image = service["image"].split(":")[0]
        start = [sys.executable, "-m", "loadgen"] if image == OURS else [self.program(PROGRAMS[image])]
        return [*start, *(self._argument(name, text) for text in service["command"])]

    def environment(self, name: str) -> dict[str, str]:
        own = {key: self.text(name, value) for key, value in self.services[name].get("environment", {}).items()}
        return {**os.environ, "PYTHONPATH": str(ROOT), **own}

    def _argument(self, name: str, text: str) -> str:
        if text.isdigit() and (name, int(text)) in self.ports:
            return str(self.ports[name, int(text)])
        if text == "0.0.0.0":
            return "127.0.0.1"
        for mount in mounts(self.services[name]):
            text = re.sub(rf"(^|=){re.escape(mount.target)}(?=/|$)", rf"\g<1>{self.root(name)}{mount.target}", text)
        return self.text(name, text)

    def _mount(self, name: str, mount: Mount) -> None:
        target = self.root(name) / mount.target.lstrip("/")
        source = ROOT / mount.source
        if not mount.bind:
            target.mkdir(parents=True, exist_ok=True)
        elif source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            self._copy(name, source, target)
        else:
            shutil.rmtree(target, ignore_errors=True)  # what is mounted below hides what was there
            for file in source.rglob("*"):
                if file.is_file():
                    (target / file.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
                    self._copy(name, file, target / file.relative_to(source))

    def _copy(self, name: str, source: Path, target: Path) -> None:
        target.write_text(self.text(name, source.read_text(encoding="utf-8")), encoding="utf-8")


@dataclass
class Stack:
    native: Native
    closing: contextlib.AsyncExitStack
    processes: list[Process] = field(default_factory=list)

    async def start(self, name: str) -> Process:
        """The service's command with its environment; SIGTERM stops it at the end, of all."""
        with (self.native.root(name) / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *self.native.command(name), cwd=self.native.root(name) / "work", env=self.native.environment(name),
                stdin=DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.closing.push_async_callback(self._stopped, process)
        self.processes.append(process)
        return process

    async def _stopped(self, process: Process) -> None:
        """A run drains after the first signal and lingers after its report; the next ones end that."""
        while process.returncode is None:
            for one in self.processes:
                if one.returncode is None:
                    one.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 1)


@pytest.fixture
async def stack(
    services: dict[str, dict[str, Any]],
    tmp_path: Path,
    program: Callable[[str], str],
    free_port: Callable[[], int],
) -> AsyncIterator[Stack]:
    """Nothing is started yet."""
    async with contextlib.AsyncExitStack() as closing:
        yield Stack(Native(services, tmp_path, program, free_port), closing)
