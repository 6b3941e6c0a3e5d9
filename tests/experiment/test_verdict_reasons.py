"""`specload run` on rehearsal servers that are not alike: exit code 98, and verdict.json says why."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import RehearsalServer

Cli = Callable[..., Awaitable[Any]]
#: met by any server: whatever keeps the run from passing is no number
EASY = ["ttft_s: max<100", "total_time_s: max<100"]


@asynccontextmanager
async def server(spec: str = "off", **fields: Any) -> AsyncIterator[str]:
    """Its URL; four times as fast as the hardware it rehearses."""
    played = RehearsalServer(RehearsalConfig(spec=spec, model="8b", speed=4.0, **fields))
    await played.start()
    try:
        yield played.url
    finally:
        await played.stop()


async def verdict_of(cli: Cli, folder: Path, name: str, arms: dict[str, str], **workload: Any) -> tuple[Any, Any]:
    """How the command ended, and verdict.json of its run."""
    lengths = {"input_len": {"kind": "fixed", "value": 60}, "output_len": {"kind": "fixed", "value": 8}}
    content = {
        "version": 1,
        "name": name,
        "environment": "disposable",
        "arms": {arm: {"url": url} for arm, url in arms.items()},
        "workload": {"endpoint": "chat", "tasks": [{"task_type": "code", **lengths}], **workload},
        "load": [{"kind": "concurrency", "concurrency": 2, "cases": 8}],
        "repeats": 1,
        "comparison": {"blocks": 1},
        "thresholds": EASY,
        "warmup": {"warmup_requests": 0},
        "scrape": {"interval_s": 0.5},
    }
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(content))
    ended = await cli("run", file, "--out", folder / name)
    (path,) = [p for p in (folder / name).iterdir() if p.is_dir()]
    assert (path / "report.html").exists()
    return ended, json.loads((path / "verdict.json").read_bytes())


def named(verdict: Any) -> dict[str, str]:
    """Key of each difference that stands in the way, with the sentence."""
    said = [text.removeprefix("environment: ") for text in verdict["obstacles"] if text.startswith("environment: ")]
    return {text.split(" ", 1)[0]: text for text in said}


async def test_dtype_template_and_sampling_default_are_named(cli: Cli, tmp_path: Path) -> None:
    """H9, H15: three candidates, each unlike the baseline in one thing; every threshold is met, and still no pass."""
    async with AsyncExitStack() as servers:
        unlike: dict[str, dict[str, Any]] = {
            "baseline": {}, "half": {"dtype": "float16"}, "worded": {"template": "system"},
            "cooler": {"generation_config": "temperature=0.6"},
        }  # fmt: skip
        arms = {name: await servers.enter_async_context(server(**fields)) for name, fields in unlike.items()}
        ended, verdict = await verdict_of(cli, tmp_path, "unlike", arms)
    assert ended.code == 98, ended.said
    assert verdict["verdict"] == "inconclusive"
    assert [t["ok"] for t in verdict["thresholds"]] == [True] * 6
    found = named(verdict)
    assert set(found) == {
        "model.dtype", "template.ids", "requests.prompt_tokens", "sampling.generation_config", "sampling.override"
    }  # fmt: skip
    assert "half: float16" in found["model.dtype"]
    assert "0.6" in found["sampling.override"]
    assert set(verdict["obstacles"]) <= set(verdict["reasons"])
    assert "VERDICT: INCONCLUSIVE" in ended.out
    assert "model.dtype" in ended.out


async def test_a_warm_prefix_cache_on_one_arm_is_in_the_verdict(cli: Cli, tmp_path: Path) -> None:
    """H12: the candidate has answered the very same prompts before."""
    async with server() as one, server("draft:k=4") as other:
        await verdict_of(cli, tmp_path, "before", {"candidate": other}, cache="warm")
        arms = {"baseline": one, "candidate": other}
        ended, verdict = await verdict_of(cli, tmp_path, "after", arms, cache="warm")
    assert ended.code == 98, ended.said
    assert verdict["verdict"] == "inconclusive"
    assert [t["ok"] for t in verdict["thresholds"]] == [True, True]
    found = named(verdict)
    assert set(found) == {"requests.cache_hit_share"}
    assert "the cache of candidate was warm" in found["requests.cache_hit_share"]
