"""E / c between two arms: an identity of pooled means."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import analyze
from loadgen.analyze.arms import baseline_of

approx = pytest.approx


def stream(gap: float, *tokens: int) -> list[tuple[float, int]]:
    return [(0.1 + gap * i, n) for i, n in enumerate(tokens)]


@pytest.fixture
def pair(run):
    """Baseline: 20 ms a step, 1 token each. Candidate: 30 ms a step, 3 tokens each. Both at stage "one"."""
    run.arm("baseline", speculation=False, k=None, spec_method=None)
    run.arm("candidate")
    run.segment(0, arm="baseline")
    run.segment(1, arm="candidate", start=10.0, full=10.0, load_end=11.0, end=11.0)
    run.request(stream(0.02, *[1] * 13), arm="baseline", segment=0)
    run.request(stream(0.03, 1, 3, 3, 3, 3), arm="candidate", sent=10.0, segment=1)
    return run


def test_e_over_c(pair) -> None:
    """E = 3, c = 1.5, so decoding is 2× faster."""
    (found,) = pair.summary().decomposition
    assert (found.stage, found.candidate, found.baseline) == ("one", "candidate", "baseline")
    assert (found.e_decode.value, found.c.value, found.speedup_decode.value) == (approx(3), approx(1.5), approx(2))
    assert found.like_for_like is None
    assert found.sentence.startswith(
        "3.00 tokens per step, a step costs 1.50× a plain one, so decoding is 2.00× faster."
    )


def test_beside_a_speculating_baseline_e_is_a_multiple(pair) -> None:
    """An E of 0.5 is not half a token per step."""
    pair.arm("baseline")
    pair.rows.clear()
    pair.request(stream(0.02, 1, 4, 4, 4), arm="baseline", segment=0)
    pair.request(stream(0.02, 1, 2, 2, 2), arm="candidate", sent=10.0, segment=1)
    data = pair.data()
    data.manifest.comparison["baseline"] = "baseline"
    (found,) = analyze(data).decomposition
    assert found.e_decode.value == approx(0.5)
    assert found.sentence.startswith("0.50× the tokens per step, a step costs 1.00× as much, so decoding is 0.50×")


def test_running_batches_apart_are_not_like_for_like(pair) -> None:
    """More than 10 % apart; fewer than five looks say nothing."""
    for n, at in enumerate((0.2, 0.3, 0.4, 0.5, 0.6)):
        if n == 4:
            (found,) = pair.summary().decomposition
            assert found.like_for_like is None
            assert found.sentence.endswith("is not known (4 scrapes inside).")
        pair.scrape(at, arm="baseline", running=10.0)
        pair.scrape(10 + at, arm="candidate", running=11.0)
    (found,) = pair.summary().decomposition
    assert (found.baseline_running.value, found.candidate_running.value) == (10.0, 11.0)
    assert found.like_for_like is True
    pair.scrape(10.7, arm="candidate", running=29.0)
    (found,) = pair.summary().decomposition
    assert found.candidate_running.value == approx(14.0)
    assert found.like_for_like is False
    assert found.sentence.endswith("Not like for like: 14.0 requests ran at once, 10.0 in the baseline.")


def test_net_throughput_ratio_is_of_the_whole_stage(pair) -> None:
    """Both arms emit 13 tokens in windows of one second: the ratio of net throughputs is 1, whatever E / c is."""
    (found,) = pair.summary().decomposition
    assert found.net_throughput_ratio.value == approx(1.0)
    assert found.speedup_decode.value == approx(2)


def test_merged_chunks_cancel_when_the_server_counts_steps(pair) -> None:
    """The server merged pairs of steps: E from its own count, not from the ledger."""
    pair.rows.clear()
    pair.request(stream(0.02, *[1] * 13), arm="baseline", segment=0)
    pair.request(stream(0.06, 1, 6, 6), arm="candidate", sent=10.0, segment=1)
    pair.counted(0, arm="baseline", generation_tokens=13, output_events=12, ttft_count=1)
    pair.counted(1, arm="candidate", start=10.0, end=11.0, generation_tokens=13, output_events=4, ttft_count=1)
    (found,) = pair.summary().decomposition
    assert (found.e_decode.value, found.e_decode.source) == (approx(3), "counters")
    assert (found.c.value, found.speedup_decode.value) == (approx(1.5), approx(2))


def test_slower_is_said(pair) -> None:
    """A28-like honesty: E = 1.5 for c = 3 is half as fast."""
    pair.rows.clear()
    pair.request(stream(0.02, *[1] * 13), arm="baseline", segment=0)
    pair.request(stream(0.06, 1, 1, 2, 1, 2), arm="candidate", sent=10.0, segment=1)
    (found,) = pair.summary().decomposition
    assert (found.e_decode.value, found.c.value, found.speedup_decode.value) == (approx(1.5), approx(3), approx(0.5))
    assert "decoding is 0.50× as fast: slower" in found.sentence


def test_without_a_common_measure_nothing_is_invented(pair) -> None:
    pair.rows.pop()
    (found,) = pair.summary().decomposition
    assert (found.speedup_decode.value, found.e_decode.value, found.c.value) == (None, None, None)
    assert found.sentence.startswith("Decoding cannot be compared: no ok stream of candidate")


def test_baseline_is_the_named_arm_or_the_only_one_without_speculation_or_the_first(run) -> None:
    run.arm("plain", speculation=False)
    run.arm("quick")
    run.segment(0, arm="plain")
    run.segment(1, arm="quick")
    assert [(d.candidate, d.baseline) for d in run.summary().decomposition] == [("quick", "plain")]
    run.arm("other", speculation=False)
    assert [(d.candidate, d.baseline) for d in run.summary().decomposition] == [("quick", "plain")]
    run.scenario["comparison"] = {"baseline": "quick"}
    assert [(d.candidate, d.baseline) for d in run.summary().decomposition] == [("plain", "quick")]
    run.scenario["comparison"] = {"baseline": None}
    run.arm("baseline")
    assert run.summary().decomposition == []
    run.segment(2, arm="baseline")
    pairs = [(d.candidate, d.baseline) for d in run.summary().decomposition]
    assert pairs == [("plain", "baseline"), ("quick", "baseline")]


def test_the_baseline_is_what_the_run_decided(pair) -> None:
    data = pair.data()
    assert baseline_of(data) == "baseline"
    data.manifest.comparison["baseline"] = "candidate"
    assert baseline_of(data) == "candidate"
    assert [(d.candidate, d.baseline) for d in analyze(data).decomposition] == [("baseline", "candidate")]


def test_only_stages_of_both_arms(pair) -> None:
    pair.segment(2, arm="candidate", stage="two", stage_index=1)
    assert [d.stage for d in pair.summary().decomposition] == ["one"]


steps = st.lists(st.tuples(st.floats(0.001, 0.5), st.integers(1, 5)), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(st.lists(steps, min_size=1, max_size=4), st.lists(steps, min_size=1, max_size=4))
def test_speedup_is_e_over_c_and_c_is_the_ratio_of_step_times(fresh, base, cand) -> None:
    """The identity holds for any lengths and gaps, and c is what the ledgers' mean step times say."""
    run = fresh()
    run.arm("baseline")
    run.segment(0, arm="baseline", load_end=9.0, end=9.0)
    run.segment(1, arm="candidate", load_end=9.0, end=9.0)
    mean_step = []
    for segment, arm, streams in ((0, "baseline", base), (1, "candidate", cand)):
        total, count = 0.0, 0
        for steps in streams:
            at, chunks = 0.1, [(0.1, 1)]
            for gap, tokens in steps:
                at = round(at + gap, 9)
                chunks.append((at, tokens))
            run.request(chunks, arm=arm, segment=segment)
            total, count = total + at - 0.1, count + len(steps)
        mean_step.append(total / count)
    (found,) = run.summary().decomposition
    assert found.speedup_decode.value == approx(found.e_decode.value / found.c.value)
    assert found.c.value == approx(mean_step[1] / mean_step[0], rel=1e-6)
