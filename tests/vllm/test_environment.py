"""What is captured of a real vLLM, with and without its development routes."""

import asyncio
from typing import Any

import pytest
import yaml

from loadgen.experiment import CheckReport, check
from loadgen.scenario import load_scenario
from server_adapters.launch import LaunchedServer, VllmCpu
from server_adapters.model_files import template_hash, tokenizer_hash

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def looked_at(
    vllm_off: LaunchedServer, vllm_draft: LaunchedServer, tmp_path_factory: pytest.TempPathFactory
) -> CheckReport:
    lengths = {"input_len": {"kind": "fixed", "value": 40}, "output_len": {"kind": "fixed", "value": 8}}
    content = {
        "version": 1,
        "name": "alike",
        "environment": "disposable",
        "arms": {"baseline": {"url": vllm_off.url}, "candidate": {"url": vllm_draft.url}},
        "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
        "load": [{"kind": "concurrency", "concurrency": 1, "cases": 4}],
    }
    file = tmp_path_factory.mktemp("environment") / "alike.yaml"
    file.write_text(yaml.safe_dump(content))
    return asyncio.run(check(load_scenario(file)))


def values(report: CheckReport, arm: str) -> dict[str, Any]:
    assert report.ready is not None
    return {key: fact.value for key, fact in report.ready.arms[arm].facts.environment.items()}


def test_a_server_with_development_routes_tells_all(looked_at: CheckReport, vllm_cpu: VllmCpu) -> None:
    """H15: engine, dtypes, draft, sampling methods, kernels, flags; hashes of its model folders."""
    told = values(looked_at, "candidate")
    expected = {
        "engine.name": "vllm",
        "engine.version": "0.32.0",
        "model.weights": str(vllm_cpu.target),
        "model.dtype": "float32",
        "model.quantization": "not set",
        "model.max_len": 2048,
        "kv_cache.dtype": "auto",
        "kv_cache.prefix_caching": True,
        "kernels.enforce_eager": True,
        "parallel.tensor": 1,
        "scheduling.async": False,
        "scheduling.chunked_prefill": True,
        "device": "cpu",
        "speculation.on": True,
        "speculation.method": "draft_model",
        "speculation.k": 4,
        "speculation.draft_model": str(vllm_cpu.draft),
        "speculation.draft_dtype": "float32",
        "speculation.draft_sample_method": "greedy",
        "speculation.rejection_sample_method": "standard",
        "sampling.generation_config": "auto",
        "tokenizer.sha256": tokenizer_hash(str(vllm_cpu.target)).value,
        "template.sha256": template_hash(str(vllm_cpu.target)).value,
        "speculation.draft_tokenizer_sha256": tokenizer_hash(str(vllm_cpu.draft)).value,
        "load.running": 0.0,
        "load.waiting": 0.0,
        "network.buffering": "none",
        "network.gateway": ["server: uvicorn"],
    }
    assert {key: told.get(key) for key in expected} == expected
    assert told["tokenizer.sha256"] is not None
    assert told["tokenizer.sha256"] == told["speculation.draft_tokenizer_sha256"], "one tokenizer for both models"
    assert isinstance(told["sampling.defaults"], dict)
    assert told["scheduling.max_num_seqs"] > 0
    assert told["host.cpu_count"] >= 1
    assert 0 < told["network.round_trip_s"] < 5


def test_a_server_without_them_tells_what_production_does(looked_at: CheckReport, vllm_cpu: VllmCpu) -> None:
    told = values(looked_at, "baseline")
    expected = {
        "engine.version": "0.32.0",
        "model.weights": str(vllm_cpu.target),
        "speculation.on": False,
        "parallel.tensor": 1,
        "kv_cache.dtype": "auto",
        "kv_cache.block_size": 128,
        "kv_cache.prefix_caching": True,
        "model.dtype": None,
        "tokenizer.sha256": tokenizer_hash(str(vllm_cpu.target)).value,
    }
    assert {key: told.get(key) for key in expected} == expected


def test_token_ids_agree_and_nothing_is_in_the_way_of_a_verdict(looked_at: CheckReport) -> None:
    one, other = values(looked_at, "baseline"), values(looked_at, "candidate")
    assert one["tokenizer.ids"] is not None
    assert (one["tokenizer.ids"], one["template.ids"]) == (other["tokenizer.ids"], other["template.ids"])
    assert [d.key for d in looked_at.environment if d.rule == "inconclusive"] == []
