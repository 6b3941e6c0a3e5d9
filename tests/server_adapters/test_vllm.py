"""vLLM: request extras, per-request statistics, and counters of every version."""

import dataclasses
from pathlib import Path
from typing import Any

import orjson
import pytest

from server_adapters.base import (
    CANONICAL,
    Ask,
    Chunk,
    CollectionError,
    MetricKind,
    MetricsPage,
    Sampling,
    ServerError,
    ServerTimings,
    SpecStats,
)
from server_adapters.probing import NOTHING_KNOWN
from server_adapters.vllm import VllmAdapter
from server_adapters.vllm_environment import counts_artefact, from_fingerprint, select
from server_adapters.vllm_families import read_page

DATA = Path(__file__).resolve().parents[1] / "data"
ADAPTER = VllmAdapter()
ALL = dataclasses.replace(
    NOTHING_KNOWN, version="0.32.0", stream_usage=True, continuous_usage=True, token_ids=True, cache_salt=True
)
ASK = Ask("completions", "m", "p", 16, Sampling(), True, "id-1", cache_salt="salt")


def served(name: str) -> str:
    return (DATA / "servers" / name).read_text()


def payloads(name: str) -> list[bytes]:
    lines = (DATA / "servers" / name).read_bytes().split(b"\n")
    return [line[6:] for line in lines if line.startswith(b"data: ") and line != b"data: [DONE]"]


def values(page: MetricsPage, name: str) -> list[float]:
    return [s.value for s in page.series if s.name == name]


def value(page: MetricsPage, name: str) -> float:
    (only,) = values(page, name)
    return only


# ------------------------------------------------------------------- asking


def body(ask: Ask, **capabilities: Any) -> Any:
    return orjson.loads(ADAPTER.build(ask, dataclasses.replace(ALL, **capabilities)).body)


def test_everything_that_counts_tokens_is_asked_for() -> None:
    """A24, B7, H9: usage, token ids, a salt, and neutral values for what a generation_config.json could set."""
    assert body(ASK) == {
        "model": "m",
        "prompt": "p",
        "max_tokens": 16,
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": 0,
        "top_k": -1,
        "min_tokens": 0,
        "ignore_eos": False,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "min_p": 0.0,
        "stream": True,
        "return_token_ids": True,
        "cache_salt": "salt",
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


def test_only_what_the_server_takes_is_asked_for() -> None:
    got = body(ASK, continuous_usage=False, token_ids=False, cache_salt=False)
    assert got["stream_options"] == {"include_usage": True}
    assert not {"return_token_ids", "cache_salt"} & got.keys()
    assert "stream_options" not in body(ASK, stream_usage=False)
    assert "stream_options" not in body(dataclasses.replace(ASK, stream=False))
    assert "cache_salt" not in body(dataclasses.replace(ASK, cache_salt=None))


def test_neutral_values_give_way_to_the_scenario() -> None:
    assert (
        body(dataclasses.replace(ASK, sampling=Sampling(extra={"repetition_penalty": 1.2})))["repetition_penalty"]
        == 1.2
    )
    with pytest.raises(ValueError, match="top_k"):
        body(dataclasses.replace(ASK, sampling=Sampling(extra={"top_k": 3})))


def test_structured_output_by_endpoint_and_version() -> None:
    schema = {"type": "object"}
    ask = dataclasses.replace(ASK, json_schema=schema)
    for version in ("0.32.0", "0.11.0rc2.dev3+g1a2b", None):
        assert body(ask, version=version)["structured_outputs"] == {"json": schema}
    assert body(ask, version="0.10.2")["guided_json"] == schema
    chat = body(dataclasses.replace(ask, endpoint="chat"), version="0.10.2")
    assert chat["response_format"]["json_schema"] == {"name": "answer", "schema": schema}
    assert not {"guided_json", "structured_outputs"} & chat.keys()


# --------------------------------------------------------- a real 0.32 stream


def test_a_real_stream() -> None:
    """B8, A22, A24: token ids and running usage on every chunk, statistics on the last."""
    chunks = [ADAPTER.parse_chunk(data) for data in payloads("vllm_0.32_sse_completions_spec.txt")]
    assert [len(c.token_ids or ()) for c in chunks] == [1, 2, 3, 5, 5, 2, 2, 0]
    assert [c.completion_tokens for c in chunks] == [1, 3, 6, 11, 16, 18, 20, 20]
    assert [c.has_choices for c in chunks] == [True] * 7 + [False]
    assert [c.finish_reason for c in chunks] == [None] * 6 + ["length", None]
    assert chunks[6].answer == "InfoInfo"
    last = chunks[-1]
    assert (last.prompt_tokens, last.cached_tokens, last.has_output, last.token_ids) == (9, 0, False, None)
    assert last.spec == SpecStats(6, 16, 24, 4, (0, 2, 1, 0, 3), (1, 2, 4, 4, 1, 4), (4,) * 6)
    assert last.timings == ServerTimings(
        queue_s=0.034200999948552635 / 1000, prefill_s=17.875201000038032 / 1000, decode_s=56.475879999993595 / 1000
    )


def test_a_dead_engine() -> None:
    """A1, A2, J2."""
    (data,) = payloads("vllm_0.32_sse_engine_death.txt")
    error = ServerError(
        500, "InternalServerError", "EngineCore encountered an issue. See stack trace (above) for the root cause."
    )
    assert ADAPTER.parse_chunk(data) == Chunk(error=error)


# ------------------------------------------------------ per-request statistics


def spec_of(**changes: Any) -> SpecStats | None:
    told: dict[str, Any] = {
        "mean_acceptance_length": 6.0909,
        "draft_acceptance_rate": 0.7273,
        "acceptance_histogram": [2, 3, 2, 2, 4, 0, 1, 19],
        "num_spec_steps": 33,
        "num_accepted_draft_tokens": 168,
        "num_draft_tokens": 231,
        "num_spec_tokens": 7,
    }
    data = orjson.dumps({"choices": [], "metrics": {"speculative_decoding": told | changes}})
    return ADAPTER.parse_chunk(data).spec


def test_summary() -> None:
    """D6, D22: a real request, 168 accepted in 33 rounds at k = 7."""
    assert spec_of() == SpecStats(33, 168, 231, 7, (2, 3, 2, 2, 4, 0, 1, 19))


def test_whole_body_has_them_too() -> None:
    data = orjson.dumps(
        {
            "choices": [{"text": "a"}],
            "metrics": {
                "speculative_decoding": {
                    "acceptance_histogram": [39, 1, 0, 3],
                    "num_spec_steps": 43,
                    "num_accepted_draft_tokens": 10,
                    "num_draft_tokens": 129,
                    "num_spec_tokens": 3,
                }
            },
        }
    )
    assert ADAPTER.parse_body(data).spec == SpecStats(43, 10, 129, 3, (39, 1, 0, 3))


def test_never_drafted() -> None:
    """D8: rounds 0, not an acceptance rate of 0."""
    got = spec_of(
        mean_acceptance_length=1.0,
        draft_acceptance_rate=0.0,
        acceptance_histogram=[0] * 8,
        num_spec_steps=0,
        num_accepted_draft_tokens=0,
        num_draft_tokens=0,
        per_step_accepted=None,
        per_step_drafted=None,
    )
    assert got == SpecStats(0, 0, 0, 7, (0,) * 8)


@pytest.mark.parametrize(
    "changes",
    [
        {"acceptance_histogram": [33]},
        {"acceptance_histogram": [2, 3, 2, 2, 4, 0, 1, "19"]},
        {"num_spec_steps": None},
        {"num_spec_steps": 33.5},
        {"num_draft_tokens": -1},
        {"num_accepted_draft_tokens": True},
        {"per_step_accepted": [1], "per_step_drafted": [4]},
        {"per_step_accepted": [1] * 33},
        {"per_step_accepted": [1] * 33, "per_step_drafted": [4] * 32},
        {"per_step_accepted": [5] * 33, "per_step_drafted": [4] * 33},
    ],
)
def test_statistics_that_cannot_be_true_are_absent(changes: dict[str, Any]) -> None:
    assert spec_of(**changes) is None


@pytest.mark.parametrize("metrics", [None, {}, [], "x", {"speculative_decoding": None}, {"queue_time_ms": "1"}])
def test_no_statistics(metrics: Any) -> None:
    """A24: absent with n > 1 or without the flag; never 0."""
    got = ADAPTER.parse_chunk(orjson.dumps({"choices": [], "metrics": metrics}))
    assert (got.spec, got.timings) == (None, None)


def test_times_without_speculation() -> None:
    got = ADAPTER.parse_chunk(orjson.dumps({"choices": [], "metrics": {"queue_time_ms": 250, "mean_itl_ms": 3}}))
    assert got.timings == ServerTimings(queue_s=0.25)


# ------------------------------------------------------------------- counters


def test_a_real_page() -> None:
    """D2: `_created` lines are no counts."""
    page = ADAPTER.parse_metrics(served("vllm_0.32_metrics_single.txt"))
    assert {n: value(page, n) for n in ("drafts", "draft_tokens", "accepted_tokens")} == {
        "drafts": 6,
        "draft_tokens": 24,
        "accepted_tokens": 16,
    }
    assert [(s.position, s.value) for s in page.series if s.name == "accepted_at"] == [(0, 6), (1, 4), (2, 3), (3, 3)]
    finished = {s.detail: s.value for s in page.series if s.name == "requests_finished"}
    assert finished == {"stop": 0, "length": 1, "abort": 0, "error": 0, "repetition": 0}
    assert {s.detail for s in page.series if s.name == "requests_rejected"} == {
        "max_num_queued_reqs",
        "max_num_queued_tokens",
    }
    assert {
        n: value(page, n) for n in ("generation_tokens", "prompt_tokens", "output_events", "engine_steps", "ttft_count")
    } == {"generation_tokens": 20, "prompt_tokens": 9, "output_events": 6, "engine_steps": 7, "ttft_count": 1}
    assert value(page, "output_events_sum") == 0.056475879999993595
    assert value(page, "tpot_sum") == 0.002972414736841768
    assert (value(page, "running"), value(page, "waiting"), value(page, "kv_usage")) == (0, 0, 0)
    assert (page.model_names, page.engines) == (("tiny",), ("0",))
    assert page.started_unix_s == 1795980265.6258628
    assert all(s.kind is CANONICAL[s.name] for s in page.series)
    assert not values(page, "prefix_cache_hits")


def test_a_page_of_several_api_servers() -> None:
    """D32, G24: no start time, and each server counts steps of its own."""
    text = served("vllm_0.32_metrics_multiproc_ngram.txt")
    page = ADAPTER.parse_metrics(text + 'vllm:iteration_tokens_total_count{engine="0",model_name="tiny"} 99.0\n')
    assert (value(page, "drafts"), value(page, "draft_tokens"), value(page, "accepted_tokens")) == (27, 85, 72)
    assert values(page, "accepted_at") == [25, 21, 14, 12]
    assert page.started_unix_s is None
    assert not values(page, "engine_steps")


def test_process_start_comes_before_creation() -> None:
    page = ADAPTER.parse_metrics(
        "process_start_time_seconds 1.79e+09\nvllm:prompt_tokens_created 1.7e+09\nvllm:prompt_tokens_total 3\n"
    )
    assert page.started_unix_s == 1.79e9


def test_data_parallel_engines() -> None:
    """D1, D2: PR#24049's eight engines, `_created` as a trap; every engine and position is a series of its own."""
    drafts = (22, 15, 29, 20, 25, 24, 27, 26)
    lines = ["# TYPE vllm:spec_decode_num_drafts_total counter"]
    for engine, n in enumerate(drafts):
        labels = f'engine="{engine}",model_name="m"'
        lines.append(f"vllm:spec_decode_num_drafts_total{{{labels}}} {n}.0")
        lines.append(f"vllm:spec_decode_num_drafts_created{{{labels}}} 1.7567e+09")
        lines += [
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{p}"}} {n - p}.0' for p in (0, 1)
        ]
    page = ADAPTER.parse_metrics("\n".join(lines) + "\n")
    assert sum(values(page, "drafts")) == 188
    assert [s.engine for s in page.series if s.name == "drafts"] == [str(e) for e in range(8)]
    assert sum(s.value for s in page.series if s.position == 1) == 180
    assert page.engines == tuple(str(e) for e in range(8))
    assert page.started_unix_s == 1.7567e9


def test_ten_and_more_engines_are_in_number_order() -> None:
    text = "".join(f'vllm:num_requests_running{{engine="{e}",model_name="m"}} 1\n' for e in (10, 2, 0))
    assert ADAPTER.parse_metrics(text).engines == ("0", "2", "10")


def test_two_models_stay_apart() -> None:
    """D31."""
    text = "".join(
        f'vllm:generation_tokens_total{{engine="0",model_name="{m}"}} {n}\n' for m, n in (("a", 1), ("b", 2))
    )
    page = ADAPTER.parse_metrics(text)
    assert {s.model: s.value for s in page.series} == {"a": 1, "b": 2}
    assert page.model_names == ("a", "b")


def test_labels_nobody_reads_are_summed_over() -> None:
    """D1: assigning instead of adding under-counts."""
    text = "".join(
        f'vllm:spec_decode_num_drafts_total{{engine="0",model_name="m",pod="{p}"}} 5\n'
        f'vllm:kv_cache_usage_perc{{engine="0",model_name="m",pod="{p}"}} 0.{p}\n'
        for p in (1, 4)
    )
    page = ADAPTER.parse_metrics(text)
    assert value(page, "drafts") == 10
    assert value(page, "kv_usage") == 0.4


L = 'engine="0",model_name="m"'
RENAMED = {
    "0.8.5": {
        "kv_usage": "gpu_cache_usage_perc",
        "prefix_cache_hits": "gpu_prefix_cache_hits_total",
        "prefix_cache_queries": "gpu_prefix_cache_queries_total",
        "output_events": "time_per_output_token_seconds_count",
        "output_events_sum": "time_per_output_token_seconds_sum",
    },
    "0.9.2": {
        "kv_usage": "kv_cache_usage_perc gpu_cache_usage_perc",
        "prefix_cache_hits": "prefix_cache_hits_total gpu_prefix_cache_hits_total",
        "output_events": "time_per_output_token_seconds_count",
    },
    "0.10.2": {
        "kv_usage": "kv_cache_usage_perc gpu_cache_usage_perc",
        "prefix_cache_queries": "prefix_cache_queries_total gpu_prefix_cache_queries_total",
        "output_events": "inter_token_latency_seconds_count time_per_output_token_seconds_count",
    },
    "0.11.0": {
        "kv_usage": "kv_cache_usage_perc",
        "tpot_count": "request_time_per_output_token_seconds_count",
        "output_events_sum": "inter_token_latency_seconds_sum time_per_output_token_seconds_sum",
    },
    "0.32.0": {
        "kv_usage": "kv_cache_usage_perc",
        "output_events": "inter_token_latency_seconds_count",
        "prompt_tokens_cached": "prompt_tokens_cached_total",
        "preemptions": "num_preemptions_total",
        "queue_sum": "request_queue_time_seconds_sum",
        "prefill_count": "request_prefill_time_seconds_count",
        "decode_sum": "request_decode_time_seconds_sum",
    },
}


@pytest.mark.parametrize("version", sorted(RENAMED))
@pytest.mark.parametrize("newest_first", [True, False])
def test_names_of_every_version(version: str, newest_first: bool) -> None:
    """G6: one quantity under two names on one page counts once."""
    lines = [f"vllm:{wire}{{{L}}} 0.25" for wires in RENAMED[version].values() for wire in wires.split()]
    page = ADAPTER.parse_metrics("\n".join(lines if newest_first else reversed(lines)) + "\n")
    assert {s.name: s.value for s in page.series} == dict.fromkeys(RENAMED[version], 0.25)
    assert len(page.series) == len(RENAMED[version])


def test_v0_speculation_is_not_v1s() -> None:
    """D11, D30: V0's "accepted" counts tokens after a rejected one; it must not pass under the same name."""
    told = {
        "spec_decode_draft_acceptance_rate": 0.5,
        "spec_decode_efficiency": 0.4,
        "spec_decode_num_accepted_tokens_total": 50,
        "spec_decode_num_draft_tokens_total": 100,
        "spec_decode_num_emitted_tokens_total": 70,
        "generation_tokens_total": 80,
    }
    text = "".join(f'vllm:{name}{{model_name="m"}} {number}\n' for name, number in told.items())
    found = read_page(text)
    assert [(s.name, s.value, s.engine) for s in found.page.series] == [("generation_tokens", 80, None)]
    assert (found.v0_speculation, found.speculation, found.k) == (True, True, None)


@pytest.mark.parametrize(
    ("labels", "tokens"),
    [
        ('block_size="16",num_gpu_blocks="1000",kv_cache_size_tokens="15000"', 15000),
        ('block_size="16",num_gpu_blocks="1000",kv_cache_size_tokens="None"', 16000),
        ('block_size="16",num_gpu_blocks="1000"', 16000),
        ('block_size="16",num_gpu_blocks="None"', None),
    ],
)
def test_kv_capacity(labels: str, tokens: float | None) -> None:
    """H17: the KV cache is what speculation costs; the family has no model label, the page's only model is meant."""
    page = ADAPTER.parse_metrics(
        f'vllm:num_requests_running{{{L}}} 0\nvllm:cache_config_info{{{labels},engine="0"}} 1.0\n'
    )
    capacity = [s for s in page.series if s.name == "kv_capacity_tokens"]
    assert [(s.value, s.engine, s.model, s.kind) for s in capacity] == (
        [] if tokens is None else [(tokens, "0", "m", MetricKind.GAUGE)]
    )


def test_values_that_are_no_numbers_are_absent() -> None:
    page = ADAPTER.parse_metrics(f"vllm:kv_cache_usage_perc{{{L}}} NaN\nvllm:num_requests_running{{{L}}} 1\n")
    assert not values(page, "kv_usage")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "not_metrics"),
        ("<html>login</html>", "not_metrics"),
        ("# HELP python_info x\npython_info 1\nhttp_requests_total 5\n", "families_missing"),
        ("vllm:something_new 1\n", "families_missing"),
        (f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{L},position="x"}} 1\n', "not_metrics"),
    ],
)
def test_pages_that_cannot_be_used(text: str, kind: str) -> None:
    """D5, G23, D10: a gateway's page, a server with --disable-log-stats, or no page at all: never zeros."""
    with pytest.raises(CollectionError) as caught:
        ADAPTER.parse_metrics(text)
    assert caught.value.kind == kind


def test_another_servers_page() -> None:
    with pytest.raises(CollectionError, match="disable-log-stats") as caught:
        ADAPTER.parse_metrics(served("sglang_0.5.23_metrics.txt"))
    assert caught.value.kind == "families_missing"


# ---------------------------------------------------------------- environment


def info(**speculative: Any) -> dict[str, Any]:
    return {"vllm_config": {"speculative_config": speculative or None}}


@pytest.mark.parametrize(
    ("config", "artefact"),
    [
        (info(method="ngram_gpu"), True),
        (info(method="dspark", enable_adaptive_verification=True), True),
        (info(method="draft_model", enable_adaptive_verification=False), False),
        (info(method="ngram"), False),
        (info(method="deepseek_mtp"), False),
        (info(method="custom_class"), None),
        (info(), None),
        (None, None),
    ],
)
def test_methods_whose_drafted_counts_are_no_counts(config: dict[str, Any] | None, artefact: bool | None) -> None:
    assert counts_artefact(config) is artefact


@pytest.mark.parametrize(
    ("declared", "artefact"), [("draft_model", False), ("ngram_gpu", True), ("mine", None), (None, None)]
)
def test_a_declared_method_settles_what_the_server_cannot_tell(declared: str | None, artefact: bool | None) -> None:
    assert counts_artefact(None, declared) is artefact


def test_environment_names_what_matters_and_no_secrets() -> None:
    """I2, I4."""
    got = select(
        {
            "vllm_config": {
                "model_config": {
                    "model": "/models/tiny",
                    "dtype": "bfloat16",
                    "hf_token": "hf_planted",
                    "revision": None,
                },
                "speculative_config": {
                    "method": "draft_model",
                    "num_speculative_tokens": 4,
                    "draft_model_config": {"dtype": "float32", "hf_token": "hf_planted"},
                },
                "load_config": {"model_loader_extra_config": {"key": "hf_planted"}},
            },
            "vllm_env": {"VLLM_USE_V1": True, "VLLM_API_KEY": "hf_planted", "VLLM_HOST_IP": "10.0.0.1"},
            "system_env": {
                "nvidia_gpu_models": "GPU 0: X",
                "env_vars": "KEY=hf_planted",
                "cpu_info": "CPU(s): 2\nModel name:   Abacus 9\n",
            },
        }
    )
    assert {key: fact.value for key, fact in got.items()} == {
        "model.weights": "/models/tiny",
        "model.dtype": "bfloat16",
        "model.revision": "not set",
        "speculation.method": "draft_model",
        "speculation.k": 4,
        "speculation.draft_dtype": "float32",
        "engine.v1": True,
        "gpu.name": "X",
        "gpu.count": 1,
        "host.cpu_model": "Abacus 9",
        "host.cpu_count": 2,
    }
    assert got["model.dtype"].source == "/server_info model_config.dtype"


@pytest.mark.parametrize(("env", "told"), [({"VLLM_BATCH_INVARIANT": True}, True), ({}, None)])
def test_the_mode_of_determinism_is_the_servers_own_word(env: dict[str, Any], told: bool | None) -> None:
    """H6, H7: set, and not told."""
    fact = select({"vllm_env": env}).get("kernels.batch_invariant")
    assert (None if fact is None else (fact.value, fact.source)) == (
        None if told is None else (told, "/server_info vllm_env.VLLM_BATCH_INVARIANT")
    )


def test_a_null_is_a_setting_and_no_gap() -> None:
    """A server without quantization against one with it is a difference, not something unknown."""
    one, other = (select({"vllm_config": {"model_config": {"quantization": q}}}) for q in (None, "fp8"))
    assert (one["model.quantization"].value, other["model.quantization"].value) == ("not set", "fp8")


def test_a_threshold_that_the_listing_does_not_have_is_no_option() -> None:
    """Only where the listing tells how drafts are rejected; a field that is there speaks for itself."""
    key = "speculation.acceptance_threshold"

    def told(**config: Any) -> Any:
        found = select({"vllm_config": {"speculative_config": {"method": "ngram", **config}}})
        return found[key].value if key in found else None

    assert told() is None
    assert told(rejection_sample_method="standard") == "no such option"
    assert told(rejection_sample_method="standard", posterior_threshold=0.09) == 0.09
    assert told(rejection_sample_method="standard", posterior_threshold=None) == "not set"


def test_drafters_without_a_model_have_no_draft_dtype() -> None:
    config = {"method": "ngram", "draft_model_config": {"dtype": "float32"}}
    assert "speculation.draft_dtype" not in select({"vllm_config": {"speculative_config": config}})


@pytest.mark.parametrize(
    ("fingerprint", "found"),
    [
        ("vllm-0.32.0-ce44aa2b", {"engine.config_hash": "ce44aa2b", "parallel.tensor": 1}),
        ("vllm-0.32.0+cpu-tp4-pp2-0011aabb", {"engine.config_hash": "0011aabb", "parallel.tensor": 4}),
        ("fp_44709d6fcb", {}),
        (None, {}),
    ],
)
def test_fingerprint(fingerprint: str | None, found: dict[str, Any]) -> None:
    assert {key: fact.value for key, fact in from_fingerprint(fingerprint).items()} == found


@pytest.mark.parametrize(
    "junk", [{}, {"vllm_config": "text form"}, {"vllm_config": {"model_config": 3}, "system_env": []}]
)
def test_environment_of_other_shapes(junk: dict[str, Any]) -> None:
    assert select(junk) == {}
