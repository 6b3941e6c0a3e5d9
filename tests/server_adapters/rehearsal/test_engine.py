"""The engine: counting rules of vLLM 0.32, stops, preemption, prefix cache, chunked prefill, switches, limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from server_adapters.rehearsal.engine import Engine
from server_adapters.rehearsal.models import Models
from server_adapters.rehearsal.simulate import Case, Simulation
from server_adapters.rehearsal.types import (
    EngineConfig,
    EngineRequest,
    QueueFullError,
    RequestError,
    RequestOutput,
    SamplingParams,
    SpeculationConfig,
    StepResult,
)

MakeCases = Callable[..., tuple[Case, ...]]
RunArm = Callable[..., Simulation]
DRAFT = SpeculationConfig()
SPECULATIONS = [
    DRAFT,
    SpeculationConfig(method="ngram", prompt_lookup_min=1),
    SpeculationConfig(num_speculative_tokens=5, schedule=((1, 3, 5), (4, 6, 2), (7, 500, 1))),
]


def _prompt(models: Models, length: int) -> tuple[int, ...]:
    ids = models.tokenizer.encode("Describe the old harbour near the water in the morning. " * 400)
    return tuple(ids[:length])


def _run(engine: Engine, now_s: float = 0.0) -> tuple[list[StepResult], list[RequestOutput]]:
    """Steps until nothing is left, and all outputs in order."""
    steps: list[StepResult] = []
    while engine.has_work:
        step = engine.step(now_s)
        assert step is not None
        now_s += step.duration_s
        steps.append(step)
    return steps, [output for step in steps for output in step.outputs]


@pytest.mark.parametrize("speculation", SPECULATIONS, ids=["draft", "ngram", "schedule"])
def test_counters_and_per_request_statistics_agree(
    make_cases: MakeCases, run_arm: RunArm, speculation: SpeculationConfig
) -> None:
    """D22: accepted counts tokens that the end of an output cuts off, so emitted differs by at most k per request."""
    run = run_arm(EngineConfig(speculation=speculation), make_cases(40))
    counters, k = run.counters["arm"], speculation.num_speculative_tokens
    assert counters.num_drafts > 500
    assert counters.num_accepted_tokens <= counters.num_draft_tokens <= k * counters.num_drafts
    assert sum(counters.num_accepted_tokens_per_pos) == counters.num_accepted_tokens
    per_pos = counters.num_accepted_tokens_per_pos
    assert per_pos == sorted(per_pos, reverse=True)
    totals = [0, 0, 0]
    for record in run.records:
        spec = record.spec
        assert spec is not None
        assert sum(spec.acceptance_histogram) == spec.num_spec_steps == len(spec.per_step_accepted)
        assert sum(j * n for j, n in enumerate(spec.acceptance_histogram)) == spec.num_accepted_tokens
        assert sum(spec.per_step_drafted) == spec.num_draft_tokens
        assert min(spec.per_step_drafted, default=1) >= 1
        assert record.chunk_tokens[0] == 1, "the prefill's token belongs to no round"
        decoded = sum(record.chunk_tokens) - 1
        whole = spec.num_accepted_tokens + len(record.chunk_tokens) - 1
        assert 0 <= whole - decoded <= k, "only the last round may be cut"
        totals = [
            totals[0] + spec.num_spec_steps,
            totals[1] + spec.num_draft_tokens,
            totals[2] + spec.num_accepted_tokens,
        ]
    assert totals == [counters.num_drafts, counters.num_draft_tokens, counters.num_accepted_tokens]
    assert counters.generation_tokens == sum(len(r.token_ids) for r in run.records)
    assert counters.decode_outputs == sum(len(r.chunk_tokens) - 1 for r in run.records)
    assert counters.prompt_tokens == sum(r.num_prompt_tokens for r in run.records)
    assert sum(counters.request_success.values()) == len(run.records)


def test_a_plain_engine_counts_no_rounds(make_cases: MakeCases, run_arm: RunArm) -> None:
    run = run_arm(EngineConfig(), make_cases(5))
    counters = run.counters["arm"]
    assert (counters.num_drafts, counters.num_draft_tokens, counters.num_accepted_tokens_per_pos) == (0, 0, [])
    assert counters.draft_time_s == 0.0
    assert all(r.spec is None and set(r.chunk_tokens) == {1} for r in run.records)


def test_steps_without_a_proposal_are_no_drafts(make_cases: MakeCases, run_arm: RunArm) -> None:
    run = run_arm(EngineConfig(speculation=SpeculationConfig(method="ngram")), make_cases(20))
    counters = run.counters["arm"]
    assert 0 < counters.num_drafts < counters.decode_outputs


def test_k_follows_the_batch_size(make_cases: MakeCases, run_arm: RunArm) -> None:
    config = EngineConfig(speculation=SpeculationConfig(schedule=((1, 1, 4), (2, 3, 2), (4, 256, 0))))
    cases = make_cases(4, ignore_eos=True, min_tokens=30, max_tokens=30)
    drafted = {}
    for concurrency in (1, 3, 8):
        records = run_arm(config, cases[:concurrency], concurrency=concurrency).records
        first = records[0].spec
        assert first is not None
        drafted[concurrency] = first.per_step_drafted[0] if first.per_step_drafted else 0
    assert drafted == {1: 4, 3: 2, 8: 0}


@pytest.mark.parametrize(("batch_size", "k"), [(1, 5), (3, 5), (4, 2), (9, 2), (10, 2), (11, 0), (99, 0)], ids=str)
def test_gaps_in_the_schedule_inherit(batch_size: int, k: int) -> None:
    assert SpeculationConfig(num_speculative_tokens=5, schedule=((4, 8, 2), (11, 20, 0))).k_for(batch_size) == k


def test_rounds_shrink_at_the_end_of_the_context(models: Models) -> None:
    """J1: a drafter past its own limit drafts in vain but harms nothing; numbers as seen on a live vLLM 0.32."""
    config = EngineConfig(speculation=SpeculationConfig(draft_max_model_len=256), max_model_len=512)
    engine = Engine(config, models)
    engine.submit(EngineRequest("a", _prompt(models, 500), SamplingParams(max_tokens=12, ignore_eos=True)), 0.0)
    _, outputs = _run(engine)
    spec = outputs[-1].spec
    assert spec is not None
    assert spec.per_step_drafted == [4, 4, 4, 4, 4, 4, 4, 3, 2, 1]
    assert spec.num_accepted_tokens == 0
    assert (outputs[-1].num_output_tokens, outputs[-1].finish_reason) == (12, "length")


def test_max_tokens_trims_the_last_round_after_it_was_counted(models: Models) -> None:
    lengths, overshoots = set(), set()
    for seed in range(30):
        engine = Engine(EngineConfig(speculation=DRAFT), models)
        prompt = tuple(models.tokenizer.render_chat([("user", "Write a Python function that counts the items.")]))
        params = SamplingParams(temperature=0.5, seed=seed, max_tokens=9, ignore_eos=True)
        engine.submit(EngineRequest("a", prompt, params), 0.0)
        _, outputs = _run(engine)
        last = outputs[-1]
        assert last.spec is not None
        lengths.add(last.num_output_tokens)
        overshoots.add(1 + last.spec.num_accepted_tokens + last.spec.num_spec_steps - last.num_output_tokens)
        assert last.finish_reason == "length"
    assert lengths == {9}
    assert max(overshoots) > 0


def test_chunked_prefill_keeps_the_budget(models: Models) -> None:
    engine = Engine(EngineConfig(max_num_batched_tokens=32, speculation=DRAFT), models)
    params = SamplingParams(max_tokens=40, ignore_eos=True)
    engine.submit(EngineRequest("short", _prompt(models, 8), params), 0.0)
    engine.step(0.0)
    engine.submit(EngineRequest("long", _prompt(models, 100)[::-1], params), 0.0)
    steps, outputs = _run(engine)
    assert max(s.prefill_tokens + s.decode_tokens for s in steps) <= 32
    chunks = [s.prefill_tokens for s in steps if s.prefill_tokens]
    assert sum(chunks) == 100
    assert chunks[:3] == [27, 27, 27]
    assert all(any(o.request_id == "short" for o in s.outputs) for s in steps[:4]), "decoding goes on meanwhile"
    first = next(at for at, s in enumerate(steps) if any(o.request_id == "long" for o in s.outputs))
    assert first == 3
    assert sum(len(o.new_token_ids) for o in outputs if o.request_id == "long") == 40


@pytest.mark.parametrize(("speculation", "temperature"), [(None, 0.9), (DRAFT, 0.0)], ids=["plain", "greedy-draft"])
def test_preemption_keeps_outputs_identical(
    make_cases: MakeCases, run_arm: RunArm, speculation: SpeculationConfig | None, temperature: float
) -> None:
    cases = make_cases(8, temperature=temperature, min_tokens=60, max_tokens=90)
    roomy = EngineConfig(speculation=speculation, max_model_len=256)
    tight = replace(roomy, num_blocks=18)
    expected, got = run_arm(roomy, cases, concurrency=16), run_arm(tight, cases, concurrency=16)
    assert expected.counters["arm"].num_preemptions == 0
    assert got.counters["arm"].num_preemptions > 5
    assert sum(r.num_preemptions for r in got.records) == got.counters["arm"].num_preemptions
    assert {r.case_id: r.token_ids for r in got.records} == {r.case_id: r.token_ids for r in expected.records}


def test_prefix_cache_and_salt(models: Models) -> None:
    engine = Engine(EngineConfig(), models)
    prompt, params = _prompt(models, 70), SamplingParams(max_tokens=2, ignore_eos=True)

    def cached(name: str, ids: tuple[int, ...], salt: str | None) -> int:
        engine.submit(EngineRequest(name, ids, params, cache_salt=salt), 0.0)
        return _run(engine)[1][-1].num_cached_tokens

    assert cached("a", prompt, None) == 0
    assert cached("b", prompt, None) == 64
    assert cached("c", prompt[:40] + prompt[:30], None) == 32
    assert cached("d", prompt, "x") == 0
    assert cached("e", prompt, "x") == 64
    assert cached("f", prompt, "y") == 0
    assert (engine.counters.prefix_cache_queries, engine.counters.prefix_cache_hits) == (420, 160)
    assert engine.counters.prompt_tokens_cached == 160
    assert engine.reset_prefix_cache()
    assert cached("g", prompt, None) == 0


def test_the_prefix_cache_can_be_off_and_holds_outputs_too(models: Models) -> None:
    prompt = _prompt(models, 40)
    for enabled, expected in ((False, 0), (True, 64)):
        engine = Engine(EngineConfig(enable_prefix_caching=enabled), models)
        engine.submit(EngineRequest("a", prompt, SamplingParams(max_tokens=30, ignore_eos=True)), 0.0)
        answer = [t for o in _run(engine)[1] for t in o.new_token_ids]
        engine.submit(EngineRequest("b", prompt + tuple(answer), SamplingParams(max_tokens=1)), 0.0)
        assert _run(engine)[1][-1].num_cached_tokens == expected


@pytest.mark.parametrize(("phantoms", "extra"), [(True, 1), (False, 0)])
def test_a_full_prefix_hit_counts_a_phantom_round(models: Models, phantoms: bool, extra: int) -> None:
    engine = Engine(EngineConfig(speculation=DRAFT, phantom_rounds=phantoms), models)
    rounds = []
    for name in ("first", "second"):
        engine.submit(
            EngineRequest(name, _prompt(models, 33), SamplingParams(max_tokens=8, seed=1, ignore_eos=True)), 0.0
        )
        spec = _run(engine)[1][-1].spec
        assert spec is not None
        rounds.append((spec.num_spec_steps, spec.num_draft_tokens, spec.num_accepted_tokens, spec.per_step_accepted[0]))
    first, second = rounds
    assert second[0] - first[0] == extra
    assert second[1] - first[1] == 4 * extra
    assert second[2] == first[2]
    if extra:
        assert second[3] == 0


def test_the_kill_switch_stops_drafting_at_the_next_step(models: Models) -> None:
    engine = Engine(EngineConfig(speculation=DRAFT), models)
    engine.submit(EngineRequest("a", _prompt(models, 20), SamplingParams(max_tokens=60, ignore_eos=True)), 0.0)
    for _ in range(4):
        engine.step(0.0)
    before = engine.counters.num_drafts
    assert before == 3
    engine.switches.speculation_enabled = False
    steps, outputs = _run(engine)
    assert engine.counters.num_drafts == before
    assert all(s.draft_time_s == 0.0 and s.decode_tokens == 1 for s in steps)
    assert outputs[-1].num_output_tokens == 60


def test_abort_frees_everything(models: Models) -> None:
    engine = Engine(EngineConfig(max_num_seqs=1), models)
    for name in ("running", "waiting"):
        engine.submit(EngineRequest(name, _prompt(models, 50), SamplingParams(max_tokens=50)), 1.0)
    engine.step(1.0)
    assert (engine.gauges().num_requests_running, engine.gauges().num_requests_waiting) == (1, 1)
    assert engine.gauges().kv_cache_usage > 0.0
    output = engine.abort("waiting", 2.0)
    assert output is not None
    assert (output.finish_reason, output.num_output_tokens, output.times.first_token_s) == ("abort", 0, None)
    assert engine.abort("running", 2.0) is not None
    assert engine.abort("running", 2.0) is None
    assert not engine.has_work
    assert engine.step(3.0) is None
    assert engine.gauges().kv_cache_usage == 0.0
    assert engine.counters.request_success["abort"] == 2


def test_lower_priority_values_run_first(models: Models) -> None:
    engine = Engine(EngineConfig(max_num_seqs=1), models)
    for name, priority in (("late", 5), ("normal", 0), ("urgent", -1)):
        engine.submit(EngineRequest(name, _prompt(models, 20), SamplingParams(max_tokens=3), priority), 0.0)
    finished = [o.request_id for o in _run(engine)[1] if o.finish_reason]
    assert finished == ["urgent", "normal", "late"]


def test_a_full_queue_rejects(models: Models) -> None:
    """J2: what is rejected is counted as rejected and never runs."""
    engine = Engine(EngineConfig(max_num_queued_reqs=2), models)
    for name in ("a", "b"):
        engine.submit(EngineRequest(name, _prompt(models, 5)), 0.0)
    with pytest.raises(QueueFullError, match="max_num_queued_reqs"):
        engine.submit(EngineRequest("c", _prompt(models, 5)), 0.0)
    assert engine.counters.admission_rejections == {"max_num_queued_reqs": 1, "max_num_queued_tokens": 0}
    by_tokens = Engine(EngineConfig(max_num_queued_tokens=12), models)
    by_tokens.submit(EngineRequest("a", _prompt(models, 8), SamplingParams(max_tokens=5, ignore_eos=True)), 0.0)
    by_tokens.submit(EngineRequest("b", _prompt(models, 5)), 0.0)
    with pytest.raises(QueueFullError, match="max_num_queued_tokens"):
        by_tokens.submit(EngineRequest("refused", _prompt(models, 1)), 0.0)
    by_tokens.step(0.0)
    by_tokens.submit(EngineRequest("c", _prompt(models, 4)), 0.0)
    assert {o.request_id for o in _run(by_tokens)[1]} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"prompt_token_ids": ()}, "prompt"),
        ({"prompt_token_ids": (1,) * 4096}, "prompt"),
        ({"prompt_token_ids": (10**6,)}, None),
        ({"sampling": SamplingParams(temperature=-0.1)}, "temperature"),
        ({"sampling": SamplingParams(temperature=float("nan"))}, "temperature"),
        ({"sampling": SamplingParams(top_p=0.0)}, "top_p"),
        ({"sampling": SamplingParams(top_k=-2)}, "top_k"),
        ({"sampling": SamplingParams(max_tokens=0)}, "max_tokens"),
        ({"sampling": SamplingParams(max_tokens=4, min_tokens=5)}, "min_tokens"),
        ({"sampling": SamplingParams(stop=("",))}, "stop"),
        ({"sampling": SamplingParams(stop_token_ids=(-1,))}, "stop_token_ids"),
        ({"request_id": "taken"}, "request_id"),
    ],
)
def test_impossible_requests_are_refused(models: Models, change: dict[str, object], param: str | None) -> None:
    engine = Engine(EngineConfig(), models)
    engine.submit(EngineRequest("taken", (5,)), 0.0)
    request = replace(EngineRequest("new", (5,)), **change)
    with pytest.raises(RequestError) as caught:
        engine.submit(request, 0.0)
    assert caught.value.param == param
    assert engine.gauges().num_requests_waiting == 1


def test_stop_strings_cut_the_text_but_not_the_count(models: Models) -> None:
    prompt = tuple(models.tokenizer.render_chat([("user", "Write a Python function that counts the items.")]))
    for speculation in (None, DRAFT):
        engine = Engine(EngineConfig(speculation=speculation), models)
        params = SamplingParams(temperature=0.0, max_tokens=100, stop=("nowhere", "for item"))
        engine.submit(EngineRequest("a", prompt, params), 0.0)
        outputs = _run(engine)[1]
        last = outputs[-1]
        text = models.tokenizer.decode([t for o in outputs for t in o.new_token_ids])
        assert (last.finish_reason, last.stop_reason) == ("stop", "for item")
        assert last.text_end == text.index("for item")
        assert engine.counters.generation_tokens == last.num_output_tokens


def test_stop_ids_min_tokens_and_ignore_eos(models: Models) -> None:
    tokenizer = models.tokenizer
    prompt = tuple(tokenizer.render_chat([("user", "What is the capital of France?")]))
    stop_id = tokenizer.encode(" is")[0]

    def answer(**sampling: object) -> tuple[list[int], RequestOutput]:
        engine = Engine(EngineConfig(speculation=DRAFT), models)
        params = SamplingParams(**{"temperature": 0.0, "max_tokens": 40, **sampling})
        engine.submit(EngineRequest("a", prompt, params), 0.0)
        outputs = _run(engine)[1]
        return [t for o in outputs for t in o.new_token_ids], outputs[-1]

    tokens, last = answer()
    assert (tokens[-1], last.finish_reason, last.stop_reason) == (tokenizer.eos_id, "stop", None)
    stopped, last = answer(stop_token_ids=(stop_id,))
    assert stopped == tokens[: tokens.index(stop_id) + 1]
    assert (last.finish_reason, last.stop_reason) == ("stop", stop_id)
    longer, _ = answer(min_tokens=30)
    assert len(longer) >= 30
    assert tokenizer.eos_id not in longer[:29]
    everything, last = answer(ignore_eos=True)
    assert everything[: len(tokens)] == tokens
    assert (len(everything), last.finish_reason) == (40, "length")


def test_times_are_in_order_and_the_parts_fit_the_step(models: Models) -> None:
    engine = Engine(EngineConfig(speculation=DRAFT, max_num_seqs=1), models)
    for name in ("a", "b"):
        engine.submit(EngineRequest(name, _prompt(models, 20), SamplingParams(max_tokens=10)), 5.0)
    steps, outputs = _run(engine, 7.0)
    for step in steps:
        assert step.verify_time_s > 0.0
        assert step.draft_time_s + step.verify_time_s < step.duration_s
    for output in outputs:
        times = output.times
        assert times.arrival_s == 5.0
        assert times.first_scheduled_s is not None
        assert times.first_token_s is not None
        assert times.last_token_s is not None
        assert 7.0 <= times.first_scheduled_s < times.first_token_s <= times.last_token_s
    assert engine.counters.busy_time_s == pytest.approx(sum(s.duration_s for s in steps))


def test_a_restart_counts_from_zero(models: Models) -> None:
    engine = Engine(EngineConfig(speculation=DRAFT), models)
    engine.submit(EngineRequest("a", _prompt(models, 20)), 0.0)
    _run(engine)
    assert engine.counters.generation_tokens == 16
    engine.reset_counters()
    assert engine.counters.generation_tokens == 0
    assert engine.counters.num_accepted_tokens_per_pos == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (EngineConfig(hardware="abacus"), "unknown hardware 'abacus'; known: a100"),
        (EngineConfig(target_model="9000b"), "unknown model"),
        (EngineConfig(hardware="l4", tensor_parallel=1), "does not fit"),
        (EngineConfig(num_blocks=10), "exceeds the KV cache"),
    ],
)
def test_impossible_engines_are_refused(models: Models, config: EngineConfig, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine(config, models)
