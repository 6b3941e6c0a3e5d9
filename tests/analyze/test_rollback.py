"""Rollback: exact, interval, artefact."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

approx = pytest.approx

CHUNKS = [(0.1, 1), (0.14, 4)]


def test_exact_with_per_round_data(run) -> None:
    """The ngram request of the facts: D = 14, T = 41, a = 14 11 7 6: the truth is 2, D − a_k would say 8."""
    run.segment()
    steps = [(4, 4)] * 6 + [(1, 2)] + [(2, 4)] + [(2, 2)] * 3 + [(1, 1)] * 2 + [(3, 3)]
    assert sum(d for _, d in steps) == 41
    run.request(CHUNKS, **run.speculated(steps))
    found = run.overall().speculation.rollback_rate
    assert (found.exact, found.value, found.n, found.source) == (True, approx(2 / 14), 14, "per_request")
    assert found.low == found.high == found.value


def test_counters_give_the_interval_that_holds_it(run) -> None:
    """Invariant 4: D = 14, T = 41, a = 14 11 7 6 gives 1..3 of 14."""
    run.segment()
    run.request(CHUNKS)
    run.counted(drafts=14, draft_tokens=41, accepted_tokens=38, accepted_at=[14, 11, 7, 6], generation_tokens=5)
    found = run.overall().speculation.rollback_rate
    assert (found.exact, found.value) == (False, None)
    assert (found.low, found.high, found.source) == (approx(1 / 14), approx(3 / 14), "counters")


def test_counters_are_exact_where_every_draft_is_full(run) -> None:
    run.segment()
    run.request(CHUNKS)
    run.counted(drafts=43, draft_tokens=129, accepted_tokens=10, accepted_at=[4, 3, 3], generation_tokens=5)
    found = run.overall().speculation.rollback_rate
    assert (found.exact, found.value) == (True, approx(40 / 43))


def test_bounds_of_a_group_are_the_sums_of_its_requests(run) -> None:
    """One exact request (1 of 2), one with bounds 1..3 of 5."""
    run.segment()
    run.request(CHUNKS, **run.speculated([(3, 4), (4, 4)]))
    summary = {**run.speculated([(1, 4)] * 5, detailed=False), "rollback_low": 1, "rollback_high": 3}
    run.request(CHUNKS, **summary)
    found = run.overall().speculation.rollback_rate
    assert (found.exact, found.value, found.low, found.high) == (False, None, approx(2 / 7), approx(4 / 7))


def test_artefact_counts_are_an_upper_bound_only(run) -> None:
    """ngram_gpu: T = kD by construction: a miss looks like a wholly rejected round."""
    run.arm(capabilities={"counts_artefact": True}, spec_method="ngram_gpu")
    run.segment()
    run.request(CHUNKS, **run.speculated([(0, 4), (0, 4), (4, 4), (2, 4)]))
    found = run.overall().speculation.rollback_rate
    assert (found.exact, found.value, found.low, found.high) == (False, None, 0.0, approx(3 / 4))
    assert "upper bound" in (found.reason or "")


def test_an_unknown_method_is_exact_only_where_counts_are_no_artefact(run) -> None:
    """Full counts may be an artefact; drafts of different lengths are none."""
    run.arm(capabilities={"counts_artefact": None}, spec_method=None)
    run.segment()
    run.request(CHUNKS, **run.speculated([(0, 4), (4, 4)]))
    found = run.overall().speculation.rollback_rate
    assert (found.exact, found.low, found.high) == (False, 0.0, approx(1 / 2))
    run.rows.clear()
    run.request(CHUNKS, **run.speculated([(0, 3), (4, 4)]))
    found = run.overall().speculation.rollback_rate
    assert (found.exact, found.value) == (True, approx(1 / 2))


def test_a_group_is_the_sum_of_its_requests_also_with_an_unknown_method(run) -> None:
    """One request shows short drafts (exactly 1 rollback), one does not (0 or 2): 1 to 3 of 5, as in the rows."""
    run.arm(capabilities={"counts_artefact": None}, spec_method=None)
    run.segment()
    run.request(CHUNKS, **run.speculated([(0, 3), (4, 4)]))
    run.request(CHUNKS, **run.speculated([(0, 4), (4, 4), (1, 4)]))
    found = run.overall().speculation.rollback_rate
    assert (found.exact, found.value, found.low, found.high) == (False, None, approx(1 / 5), approx(3 / 5))


def test_an_unknown_k_proves_no_short_draft(run) -> None:
    run.arm(capabilities={"counts_artefact": None}, spec_method=None, k=None)
    run.segment()
    run.request(CHUNKS, **{**run.speculated([(0, 4), (4, 4)]), "draft_len": None})
    found = run.overall().speculation.rollback_rate
    assert (found.exact, found.low, found.high) == (False, 0.0, approx(1 / 2))


def test_missing_statistics_stand_beside_an_exact_rate(run) -> None:
    run.segment()
    run.request(CHUNKS, **run.speculated([(0, 4), (4, 4)]))
    run.request(CHUNKS)
    found = run.overall().speculation.rollback_rate
    assert (found.exact, found.value) == (True, approx(1 / 2))
    assert found.reason == "1 of 2 ok requests gave no statistics"


def test_contradicting_counters_are_said_not_guessed(run) -> None:
    run.segment()
    run.request(CHUNKS)
    run.counted(drafts=2, draft_tokens=9, accepted_tokens=8, accepted_at=[2, 2, 2, 2], generation_tokens=5)
    found = run.overall().speculation.rollback_rate
    assert found.value is None
    assert "contradict" in (found.reason or "")


def test_zero_length_rounds_of_structured_output_widen_the_interval(run) -> None:
    """Two rounds, T = 4, A = 4, k = 4: with json_schema the other round may have had no draft at all."""
    run.segment()
    run.request(CHUNKS)
    run.counted(drafts=2, draft_tokens=5, accepted_tokens=4, accepted_at=[1, 1, 1, 1], generation_tokens=5)
    assert run.overall().speculation.rollback_rate.exact is True
    run.scenario["workload"]["tasks"][0]["json_schema"] = True
    found = run.overall().speculation.rollback_rate
    assert found.low is not None
    assert found.high == approx(1 / 2)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(
            st.integers(1, 4).flatmap(lambda d: st.tuples(st.integers(0, d), st.just(d))), min_size=1, max_size=12
        ),
        min_size=1,
        max_size=5,
    )
)
def test_intervals_from_counters_hold_the_exact_rate(fresh, requests) -> None:
    """The sums of any histories as counters: the interval contains what per-round data says exactly."""
    detailed, counted = fresh(), fresh()
    for run in (detailed, counted):
        run.segment()
    for steps in requests:
        detailed.request(CHUNKS, **detailed.speculated(steps))
        counted.request(CHUNKS)
    steps = [s for request in requests for s in request]
    counted.counted(
        drafts=len(steps), draft_tokens=sum(d for _, d in steps), accepted_tokens=sum(a for a, _ in steps),
        accepted_at=[sum(a > j for a, _ in steps) for j in range(4)], generation_tokens=5 * len(requests),
    )  # fmt: skip
    truth = detailed.overall().speculation.rollback_rate.value
    found = counted.overall().speculation.rollback_rate
    assert found.low - 1e-12 <= truth <= found.high + 1e-12
