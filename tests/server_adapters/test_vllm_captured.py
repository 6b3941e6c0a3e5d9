"""The adapter on bytes of a real vLLM 0.32.0 (tests/data/vllm_0.32)."""

from pathlib import Path

import orjson
import pytest

from server_adapters.base import Chunk, ServerError, SpecStats
from server_adapters.rounds import from_positions, from_steps
from server_adapters.vllm import VllmAdapter
from server_adapters.vllm_environment import counts_artefact, from_labels, select, spec_k
from server_adapters.vllm_families import read_page

DATA = Path(__file__).resolve().parents[1] / "data" / "vllm_0.32"
ADAPTER = VllmAdapter()


def chunks(name: str) -> list[Chunk]:
    lines = (DATA / name).read_bytes().split(b"\n")
    return [ADAPTER.parse_chunk(line[6:]) for line in lines if line.startswith(b"data: ") and line != b"data: [DONE]"]


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("draft", SpecStats(5, 18, 20, 4, (0, 0, 1, 0, 4), (4, 4, 4, 4, 2), (4,) * 5)),
        ("ngram", SpecStats(8, 14, 21, 4, (1, 3, 2, 1, 1), (2, 1, 0, 1, 1, 3, 4, 2), (2, 2, 4, 1, 1, 3, 4, 4))),
        ("off", None),
    ],
)
def test_streams_of_completions(name: str, spec: SpecStats | None) -> None:
    """B8: token ids of a chunk are what the running count rises by."""
    *bearing, usage = chunks(f"completions_stream_{name}.sse")
    counts = [c.completion_tokens or 0 for c in bearing]
    assert [len(c.token_ids or ()) for c in bearing] == [b - a for a, b in zip([0, *counts], counts, strict=False)]
    assert counts[-1] == usage.completion_tokens == 24
    assert usage.prompt_tokens == 25
    assert usage.has_choices is False
    assert bearing[-1].finish_reason == "length"
    assert usage.spec == spec
    assert usage.timings is not None


def test_rounds_seen_in_chunks_are_the_servers() -> None:
    """Every chunk after the first is a round: accepted + 1 tokens, the last one trimmed at max_tokens."""
    _, *rounds, usage = chunks("completions_stream_draft.sse")
    assert usage.spec is not None
    assert usage.spec.step_accepted is not None
    emitted = [len(c.token_ids or ()) for c in rounds]
    assert emitted[:-1] == [a + 1 for a in usage.spec.step_accepted[:-1]]
    assert emitted[-1] <= usage.spec.step_accepted[-1] + 1


def test_streams_of_chat() -> None:
    """C1: the role chunk bears nothing; usage comes once, at the end."""
    for name in ("draft", "ngram", "off"):
        role, *rest, usage = chunks(f"chat_stream_{name}.sse")
        assert role == Chunk(has_choices=True)
        assert all(c.completion_tokens is None and c.token_ids is None for c in rest)
        assert (usage.completion_tokens, usage.prompt_tokens) == (24, 25)
        assert (usage.spec is None) == (name == "off")


def test_a_stream_that_was_asked_for_nothing() -> None:
    """B17, A24: no usage, no statistics."""
    assert {(c.completion_tokens, c.spec) for c in chunks("completions_stream_draft_plain.sse")} == {(None, None)}


def test_what_ends_statistics() -> None:
    """A24: a stop string and n > 1 leave none; not zeros."""
    usage = chunks("completions_stream_draft_stop.sse")[-1]
    assert (usage.completion_tokens, usage.spec) == (3, None)
    assert usage.timings is not None
    two = ADAPTER.parse_body((DATA / "completions_n2_draft.json").read_bytes())
    assert (two.completion_tokens, two.spec, two.timings, two.finish_reason) == (48, None, None, "length")


def test_whole_bodies() -> None:
    answers = {n: ADAPTER.parse_body((DATA / f"completions_{n}.json").read_bytes()) for n in ("off", "draft", "ngram")}
    assert len({a.answer for a in answers.values()}) == 1
    assert answers["off"].spec is None
    assert answers["draft"].spec == SpecStats(5, 18, 20, 4, (0, 0, 1, 0, 4), (4, 4, 4, 4, 2), (4,) * 5)
    chat = ADAPTER.parse_body((DATA / "chat_off.json").read_bytes())
    assert (chat.completion_tokens, chat.has_output, chat.finish_reason) == (24, True, "length")


def test_engine_death() -> None:
    """A1."""
    (only,) = chunks("engine_death.sse")
    assert only.error is not None
    assert (only.error.status, only.error.kind) == (500, "InternalServerError")


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("400_too_long", 400, "context_length"),
        ("400_bad_json", 400, "Bad Request"),
        ("400_logit_bias", 400, "BadRequestError"),
        ("400_max_tokens", 400, "BadRequestError"),
        ("404_model", 404, "NotFoundError"),
        ("404_path", 404, "http_404"),
    ],
)
def test_errors(name: str, status: int, kind: str) -> None:
    """A3, H10."""
    body = (DATA / f"error_{name}.json").read_bytes()
    error = ADAPTER.parse_error(status, body)
    assert (error.status, error.kind) == (status, kind)
    assert error != ServerError(status, kind, "no message")


@pytest.mark.parametrize(
    ("name", "drafts", "drafted", "accepted_at", "generated", "requests"),
    [
        ("draft", 64, 256, [26, 22, 19, 18], 150, 7),
        ("ngram", 23, 60, [20, 9, 4, 2], 72, 3),
        ("off", None, None, [], 96, 4),
    ],
)
def test_counters(
    name: str, drafts: int | None, drafted: int | None, accepted_at: list[int], generated: int, requests: int
) -> None:
    """D1: the identities hold; D9: decode outputs after a request's first are its decode steps."""
    found = read_page((DATA / f"metrics_{name}.txt").read_text())
    plain = {s.name: s.value for s in found.page.series if s.position is None and s.detail is None}
    assert [s.value for s in found.page.series if s.position is not None] == accepted_at
    assert (plain.get("drafts"), plain.get("draft_tokens")) == (drafts, drafted)
    assert plain.get("accepted_tokens") == (sum(accepted_at) if drafts else None)
    assert (plain["generation_tokens"], plain["ttft_count"], plain["kv_capacity_tokens"]) == (
        generated,
        requests,
        65536,
    )
    assert plain["output_events"] >= (drafts or generated - requests)
    assert (found.speculation, found.k) == (drafts is not None, 4 if drafts else None)
    assert (found.page.engines, found.page.model_names) == (("0",), ("tiny",))
    assert found.page.started_unix_s is not None
    assert 1.7e9 < found.page.started_unix_s < 1.9e9


def test_rollback_bounds_hold_what_the_requests_say() -> None:
    """The interval from counters of several ngram requests against their per-step truth."""
    specs = [
        chunks("completions_stream_ngram.sse")[-1].spec,
        chunks("chat_stream_ngram.sse")[-1].spec,
        ADAPTER.parse_body((DATA / "completions_ngram.json").read_bytes()).spec,
    ]
    told = [s for s in specs if s is not None and s.step_accepted is not None and s.step_drafted is not None]
    assert len(told) == 3
    truth = sum(from_steps(s.step_accepted or (), s.step_drafted or ()).low for s in told)
    page = read_page((DATA / "metrics_ngram.txt").read_text()).page
    positions = [int(s.value) for s in page.series if s.position is not None]
    assert (sum(s.rounds for s in told), sum(s.drafted or 0 for s in told)) == (23, 60)
    bounds = from_positions(23, 60, positions)
    assert bounds.low <= truth <= bounds.high


def test_server_info() -> None:
    info = orjson.loads((DATA / "server_info.json").read_bytes())
    facts = select(info)
    assert (spec_k(info), counts_artefact(info)) == (4, False)
    expected = {
        "model.weights": "/srv/specload/tiny-target",
        "model.dtype": "float32",
        "model.quantization": "not set",
        "model.revision": "not set",
        "tokenizer.name": "/srv/specload/tiny-target",
        "sampling.generation_config": "auto",
        "sampling.override": {},
        "kv_cache.dtype": "auto",
        "kv_cache.block_size": 128,
        "kv_cache.prefix_caching": True,
        "kernels.attention_backend": "not set",
        "kernels.enforce_eager": True,
        "kernels.batch_invariant": False,
        "parallel.tensor": 1,
        "scheduling.async": False,
        "scheduling.chunked_prefill": True,
        "scheduling.max_num_seqs": 128,
        "speculation.method": "draft_model",
        "speculation.k": 4,
        "speculation.draft_model": "/srv/specload/tiny-draft",
        "speculation.draft_dtype": "float32",
        "speculation.draft_sample_method": "greedy",
        "speculation.rejection_sample_method": "standard",
        "speculation.acceptance_threshold": "no such option",
        "speculation.per_request_metrics": "detailed",
        "device": "cpu",
        "engine.build": "0.32.0",
        "engine.torch": "2.13.0+cpu",
        "host.cpu_model": "AMD EPYC",
        "host.cpu_count": 2,
    }
    assert {key: facts[key].value for key in expected} == expected
    assert not [key for key in facts if key.startswith("gpu.") and key != "gpu.cuda"]


def test_labels_of_a_page_and_server_info_agree() -> None:
    """An arm with and one without development routes are compared by the same values."""
    labels = from_labels(read_page((DATA / "metrics_draft.txt").read_text()).cache_labels)
    told = select(orjson.loads((DATA / "server_info.json").read_bytes()))
    both = labels.keys() & told.keys()
    assert both >= {"kv_cache.dtype", "kv_cache.block_size", "kv_cache.prefix_caching", "kv_cache.num_blocks"}
    assert {key: labels[key].value for key in both} == {key: told[key].value for key in both}
    assert labels["cache_config.kv_cache_layout"].value == "not set"
