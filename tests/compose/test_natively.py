"""What compose would run is run, without containers: the same commands, the same files, other ports and paths."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import Callable
from typing import Any, Protocol

import httpx
import pytest
import yaml

from loadgen.export import RULE_FILES

ENGINES = ("baseline", "candidate")


class Running(Protocol):
    native: Any

    async def start(self, name: str) -> asyncio.subprocess.Process: ...


def health_check(stages: list[list[tuple[str, str]]]) -> list[str]:
    """The Dockerfile's, with this Python."""
    (text,) = [rest for instruction, rest in stages[-1] if instruction == "HEALTHCHECK"]
    command: list[str] = json.loads(text.split("CMD", maxsplit=1)[1])
    assert command[0] == "python"
    return [sys.executable, *command[1:]]


async def healthy(stack: Running, name: str, command: list[str]) -> bool:
    environment = stack.native.environment(name)
    check = await asyncio.create_subprocess_exec(*command, env=environment, stdout=DEVNULL, stderr=DEVNULL)
    return await check.wait() == 0


@pytest.mark.slow
async def test_the_stack_of_compose_runs(
    stack: Running, stages: list[list[tuple[str, str]]], until: Callable[..., Any]
) -> None:
    """G23: every target answers, rules are loaded, Alertmanager is found, and the accepted tokens of a run arrive:
    from the engines' own pages, from the exporter and from the run."""
    check = health_check(stages)
    prometheus = httpx.AsyncClient(base_url=stack.native.url("prometheus", 9090), timeout=10)
    manager = httpx.AsyncClient(base_url=stack.native.url("alertmanager", 9093), timeout=10)
    async with prometheus, manager:
        assert not await healthy(stack, "baseline", check)
        for name in (*ENGINES, "prometheus", "alertmanager"):
            await stack.start(name)
        for name in ENGINES:  # what depends_on waits for
            await until(lambda name=name: healthy(stack, name, check), f"{name} is healthy", 60)
        for name in ("watch", "run", "service"):
            await stack.start(name)

        async def asked(path: str, **parameters: str) -> Any:
            return (await prometheus.get(f"/api/v1/{path}", params=parameters)).json()["data"]

        async def all_up() -> bool:
            targets = (await asked("targets"))["activeTargets"]
            return {target["health"] for target in targets} == {"up"} and len(targets) == 5

        await until(all_up, "all targets are up", 60)
        found = (await asked("targets"))["activeTargets"]
        assert {(target["labels"]["job"], target["labels"].get("arm")) for target in found} == {
            ("inference", "baseline"), ("inference", "candidate"), ("specload", None), ("specload-watch", None),
        }  # fmt: skip

        for job, query in {
            "inference": 'vllm:spec_decode_num_accepted_tokens_total{arm="candidate"} > 0',
            "specload-watch": 'specload_accepted_tokens_total{job="specload-watch",arm="candidate"} > 0',
            "specload": 'sum(specload_accepted_tokens_total{job="specload",arm="candidate"}) > 0',
        }.items():

            async def arrived(query: str = query) -> bool:
                return bool((await asked("query", query=query))["result"])

            await until(arrived, f"accepted tokens from {job}", 60)
        assert not (await asked("query", query='specload_accepted_tokens_total{arm="baseline",job="specload-watch"}'))[
            "result"
        ]  # it does not speculate: absent, not 0

        groups = {group["name"] for group in (await asked("rules"))["groups"]}
        files = [
            yaml.safe_load((stack.native.root("prometheus") / "etc/prometheus" / n).read_text()) for n in RULE_FILES
        ]
        assert groups == {group["name"] for file in files for group in file["groups"]}
        assert [a["url"] for a in (await asked("alertmanagers"))["activeAlertmanagers"]] == [
            f"{stack.native.url('alertmanager', 9093)}/api/v2/alerts"
        ]
        for client, name in ((prometheus, "prometheus"), (manager, "alertmanager")):
            probe = stack.native.services[name]["healthcheck"]["test"][-1]
            assert (await client.get(stack.native.text(name, probe))).status_code == 200
        assert await healthy(stack, "watch", check)
        assert await healthy(stack, "service", check)
        assert await healthy(stack, "run", check)
        logs = {name: (stack.native.root(name) / "log").read_text() for name in ("prometheus", "alertmanager")}
        assert not [line for log in logs.values() for line in log.splitlines() if "level=error" in line]
