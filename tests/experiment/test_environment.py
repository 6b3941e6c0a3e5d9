"""Arms that are not alike, end to end on rehearsal servers: `check` and `run` name what differs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from pydantic import SecretStr

from loadgen.analyze import EXPECTED_KEYS, Difference, Summary
from loadgen.experiment import RunOptions, check, run_scenario
from loadgen.experiment.environment import DECLARED, Probed, capture
from loadgen.experiment.network import Way
from loadgen.plan import Plan, Segment
from loadgen.record import open_run
from loadgen.redact import Redactor
from loadgen.scenario import Arm, load_scenario
from server_adapters import adapter_named
from server_adapters.base import Fact, Target
from server_adapters.probing import NOTHING_KNOWN
from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.serve import RehearsalServer

Serve = Callable[..., Awaitable[str]]
pytestmark = pytest.mark.usefixtures("forked_children")


class Quiet:
    """A progress display that shows nothing."""

    def started(self, plan: Plan, path: Path, notes: tuple[str, ...]) -> None: ...

    def segment(self, segment: Segment, number: int, total: int) -> None: ...

    def ended(self, requests: int, failed: int) -> None: ...

    def live(self, segment: Segment, live: Any) -> None: ...

    def say(self, text: str) -> None: ...


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """serve(fields of RehearsalConfig) -> URL; four times real time, so that streams still take a while."""
    servers: list[RehearsalServer] = []

    async def start(**fields: Any) -> str:
        server = RehearsalServer(RehearsalConfig(**{"model": "8b", "speed": 4.0, **fields}))
        await server.start()
        servers.append(server)
        return server.url

    yield start
    for server in servers:
        await server.stop()


def scenario(folder: Path, arms: dict[str, Any], **changes: Any) -> Path:
    lengths = {"input_len": {"kind": "fixed", "value": 60}, "output_len": {"kind": "fixed", "value": 8}}
    content = {
        "version": 1,
        "name": "alike",
        "environment": "disposable",
        "arms": {name: arm if isinstance(arm, dict) else {"url": arm} for name, arm in arms.items()},
        "workload": {"endpoint": "chat", "tasks": [{"task_type": "code", **lengths}]},
        "load": [{"kind": "concurrency", "concurrency": 2, "cases": 8}],
        "warmup": {"warmup_requests": 0},
        "repeats": 1,
        "comparison": {"blocks": 1},
        "scrape": {"interval_s": 0.5},
    }
    content["workload"] |= changes.pop("workload", {})
    file = folder / "alike.yaml"
    file.write_text(yaml.safe_dump({**content, **changes}))
    return file


async def looked_at(folder: Path, arms: dict[str, Any]) -> dict[str, Difference]:
    found = await check(load_scenario(scenario(folder, arms)))
    return {d.key: d for d in found.environment}


def inconclusive(found: dict[str, Difference]) -> set[str]:
    return {key for key, d in found.items() if d.rule == "inconclusive"}


async def test_arms_that_differ_in_speculation_alone_are_alike(serve: Serve, tmp_path: Path) -> None:
    """The check of a sound comparison finds nothing that would keep it from a verdict."""
    found = await looked_at(tmp_path, {"baseline": await serve(), "candidate": await serve(spec="draft:k=4")})
    assert inconclusive(found) == set()
    assert {"speculation.method", "speculation.k"} <= {k for k, d in found.items() if d.rule == "may_differ"}


async def test_two_arms_on_one_server_find_no_load_of_others(serve: Serve, tmp_path: Path) -> None:
    """Our own probes are no background load."""
    url = await serve()
    assert inconclusive(await looked_at(tmp_path, {"baseline": url, "candidate": url})) == set()


@pytest.mark.parametrize(
    ("option", "keys"),
    [
        ({"dtype": "float16"}, {"model.dtype"}),
        ({"template": "system"}, {"template.ids"}),
        ({"generation_config": "temperature=0.6"}, {"sampling.generation_config", "sampling.override"}),
        ({"max_num_seqs": 64}, {"scheduling.max_num_seqs"}),
        ({"hardware": "a100"}, {"gpu.name"}),
        ({"enable_prefix_caching": False}, {"kv_cache.prefix_caching"}),
        ({"faults": ("buffering_proxy:hold_s=5",)}, {"network.buffering"}),
        ({"faults": ("wrong_tokenizer",)}, {"tokenizer.ids", "template.ids"}),
    ],
)
async def test_what_differs_is_named(serve: Serve, tmp_path: Path, option: dict[str, Any], keys: set[str]) -> None:
    """H9, H15: dtype, template, sampling default, flags, GPU, buffering: each by its own key, and by no other."""
    arms = {"baseline": await serve(), "candidate": await serve(spec="draft:k=4", **option)}
    assert inconclusive(await looked_at(tmp_path, arms)) == keys


async def test_parameters_that_one_arm_refuses_are_named(serve: Serve, tmp_path: Path) -> None:
    """H10: logit_bias is refused with speculation; each arm's own words are kept."""
    arms = {"baseline": await serve(), "candidate": await serve(spec="draft:k=4")}
    extra = {"sampling": {"temperature": 0.8, "extra": {"logit_bias": {"5": 1.0}}}}
    found = {d.key: d for d in (await check(load_scenario(scenario(tmp_path, arms, **extra)))).environment}
    assert found["sampling.refused"].rule == "inconclusive"
    assert "not yet supported with speculative decoding" in found["sampling.refused"].values["candidate"][0]


async def test_declared_facts_are_compared_and_marked(serve: Serve, tmp_path: Path) -> None:
    url = await serve()
    arms = {
        "baseline": {"url": url, "facts": {"driver": "550.1", "price_per_gpu_hour": 2.5}},
        "candidate": {"url": url, "facts": {"driver": "560.2", "price_per_gpu_hour": 2.5, "gpu": "H200"}},
    }
    loaded = load_scenario(scenario(tmp_path, arms))
    found = await check(loaded)
    assert found.ready is not None
    facts = found.ready.arms["candidate"].facts.environment
    assert facts["gpu.driver"] == Fact("560.2", DECLARED)
    assert facts["facts.price_per_gpu_hour"].value == 2.5
    assert facts["gpu.name"].value == "NVIDIA H100 80GB HBM3 (simulated)", "the server's word stands"
    assert facts["facts.gpu"] == Fact("H200", DECLARED)
    unlike = {d.key: d for d in found.environment}
    assert unlike["gpu.driver"].rule == "inconclusive"
    assert "facts.price_per_gpu_hour" not in unlike


async def test_a_declared_difference_passes(serve: Serve, tmp_path: Path) -> None:
    arms = {
        "baseline": await serve(),
        "candidate": {"url": await serve(dtype="float16"), "declared_differences": ["model.dtype"]},
    }
    found = await looked_at(tmp_path, arms)
    assert found["model.dtype"].rule == "declared"
    assert inconclusive(found) == set()


async def test_every_expected_fact_has_a_value_and_source_or_a_reason(serve: Serve, tmp_path: Path) -> None:
    url = await serve(spec="ngram:k=3", dev_mode=False)
    found = await check(load_scenario(scenario(tmp_path, {"candidate": url})))
    assert found.ready is not None
    facts = found.ready.arms["candidate"].facts.environment
    assert set(EXPECTED_KEYS) <= set(facts) | {"load.foreign"}
    for key, fact in facts.items():
        assert (fact.value is None) == (fact.source is None) == (fact.reason is not None), key
    assert facts["model.dtype"].reason is not None
    assert "facts: {model.dtype: …}" in facts["model.dtype"].reason
    assert facts["speculation.k"] == Fact(3, "/metrics positions")
    assert facts["kv_cache.prefix_caching"] == Fact(True, "/metrics cache_config_info")
    assert facts["host.cpu_count"].value >= 1


async def test_local_model_folders_are_hashed(tmp_path: Path) -> None:
    """Draft and target tokenizers by hash where they can be read; sampling defaults from generation_config.json."""
    target, draft = tmp_path / "target", tmp_path / "draft"
    for folder, text in ((target, b"{}"), (draft, b"[]")):
        folder.mkdir()
        (folder / "tokenizer.json").write_bytes(text)
        (folder / "config.json").write_bytes(b"{}")
    (target / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    (target / "generation_config.json").write_text(json.dumps({"top_k": 20, "temperature": 0.6, "eos_token_id": 2}))
    told = {
        "model.weights": str(target), "tokenizer.name": str(target), "speculation.draft_model": str(draft),
        "sampling.generation_config": "auto", "speculation.on": True,
    }  # fmt: skip
    facts = await captured("http://127.0.0.1:9", told)
    hashes = [f"sha256:{hashlib.sha256(text).hexdigest()[:16]}" for text in (b"{}", b"[]", b'"{{ messages }}"')]
    keys = ("tokenizer.sha256", "speculation.draft_tokenizer_sha256", "template.sha256")
    assert [facts[key].value for key in keys] == hashes
    assert facts["sampling.defaults"] == Fact({"temperature": 0.6, "top_k": 20}, "generation_config.json")


async def test_a_path_of_another_machine_is_not_looked_for_here(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    facts = await captured("http://192.0.2.1:9", {"model.weights": str(tmp_path)})
    assert (facts["tokenizer.sha256"].value, facts["host.cpu_count"].value) == (None, None)


async def test_secrets_and_control_characters_do_not_get_in() -> None:
    """I2: what a server says is masked and printable, key by key."""
    told = {"sampling.override": {"note": "key s3cret-value-1\x1b[2J"}, "engine.build": ["s3cret-value-1"]}
    facts = await captured("http://127.0.0.1:9", told, secret="s3cret-value-1")
    assert facts["sampling.override"].value == {"note": "key ***�[2J"}
    assert facts["engine.build"].value == ["***"]


async def captured(url: str, told: dict[str, Any], secret: str = "") -> dict[str, Fact]:
    """Facts of an arm that cannot be reached: what its adapter tells is `told`."""
    adapter = adapter_named("vllm")

    async def environment(client: httpx.AsyncClient, target: Target) -> dict[str, Fact]:
        return {key: Fact(value, "told") for key, value in told.items()}

    adapter.environment = environment  # type: ignore[method-assign]
    way = Way(adapter, Target(url, (), None, {}), "m", NOTHING_KNOWN, "chat")
    probed = Probed("a", Arm(url=url), way, 1, (), lambda: httpx.AsyncClient(timeout=0.2, trust_env=False))
    found = await capture([probed], Redactor([SecretStr(secret)] if secret else []))
    return found["a"]


async def ran(file: Path, out: Path) -> tuple[Summary, Path]:
    result = await run_scenario(load_scenario(file), RunOptions(out), Quiet())
    assert result.state == "finished"
    return result.summary, result.path


async def test_a_run_keeps_the_environment_and_names_the_template(serve: Serve, tmp_path: Path) -> None:
    """The template shows in the prompt token counts too, case by case; all of it is in the run directory."""
    arms = {"baseline": await serve(), "candidate": await serve(spec="draft:k=4", template="system")}
    summary, path = await ran(scenario(tmp_path, arms), tmp_path / "runs")
    (pair,) = summary.equality.prompt_tokens
    assert (pair.cases, pair.mismatched, pair.same_text) == (8, 8, True)
    assert {e.arm - e.baseline for e in pair.examples} == {pair.median_difference}
    assert {d.key for d in summary.environment if d.rule == "inconclusive"} == {
        "template.ids",
        "requests.prompt_tokens",
    }
    assert {h.arm for h in summary.equality.cache_hits} == {"baseline", "candidate"}
    assert {h.share.value for h in summary.equality.cache_hits} == {0.0}
    assert {s.value for s in summary.equality.foreign_share.values()} == {0.0}
    assert Summary.model_validate_json((path / "summary.json").read_bytes()) == summary
    manifest = open_run(path).manifest
    assert manifest.arms["candidate"].environment["network.buffering"].value == "none"


async def test_a_warm_cache_on_one_arm_is_caught(serve: Serve, tmp_path: Path) -> None:
    """H12: the candidate has answered the same prompts before; counters of both arms tell."""
    arms = {"baseline": await serve(), "candidate": await serve(spec="draft:k=4")}
    warm = {"workload": {"cache": "warm"}}
    await ran(scenario(tmp_path, {"candidate": arms["candidate"]}, **warm), tmp_path / "before")
    summary, _ = await ran(scenario(tmp_path, arms, **warm), tmp_path / "runs")
    shares = {h.arm: h.share.value for h in summary.equality.cache_hits}
    assert shares["baseline"] is not None
    assert shares["candidate"] is not None
    assert shares["baseline"] < 0.5 < shares["candidate"]
    (found,) = [d for d in summary.environment if d.rule == "inconclusive"]
    assert (found.key, found.values) == ("requests.cache_hit_share", shares)
    assert "the cache of candidate was warm" in found.text
