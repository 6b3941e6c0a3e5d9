"""Windows over steady load, and what is summed in each, from hand-made runs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from loadgen.analyze import Absent, Stability, analyze
from loadgen.analyze.arms import arm_data
from loadgen.analyze.soak import stability_of
from loadgen.analyze.soak.series import series_of
from loadgen.analyze.soak.windows import MOST_WINDOWS, windows_over


def _windows(run):
    return windows_over(arm_data(run.data(), "candidate").windows)


def test_one_long_segment_is_cut_into_120_windows(run) -> None:
    run.segment(0, start=0, full=10, load_end=3610, end=3650)
    found = _windows(run)
    assert (found.n, found.seconds) == (MOST_WINDOWS, 3600)
    assert found.times_s[:2].tolist() == [15, 45]
    assert found.at(np.array([found.spans[0][0] - 1, found.spans[0][0], found.spans[-1][1]])).tolist() == [-1, 0, -1]


def test_a_short_one_has_windows_of_five_seconds(run) -> None:
    run.segment(0, start=0, full=0, load_end=60, end=60)
    assert _windows(run).n == 12


def test_many_segments_share_windows(run) -> None:
    """The pauses between them are in none; 300 blocks of 10 s, three to a window."""
    for i in range(300):
        run.segment(i, start=20.0 * i, full=20.0 * i, load_end=20.0 * i + 10, end=20.0 * i + 11)
    found = _windows(run)
    assert (found.n, found.seconds) == (100, 3000)
    assert found.times_s[:2].tolist() == [25, 85]
    assert found.mean(lambda start, end: (end - start) / 1e9).tolist() == [10] * 100
    assert np.isnan(found.mean(lambda start, end: None)).all()


def test_no_steady_load_has_no_window(run) -> None:
    run.segment(0, start=0, full=None, load_end=10, end=10, concurrency=4)
    assert (_windows(run).n, _windows(run).at(np.array([5])).tolist()) == (0, [-1])


@pytest.fixture
def minute(run):
    """12 windows of 5 s, three requests in each; one of window 2 fails, window 3 has none."""
    run.scenario["experiment"] = "soak"
    run.segment(0, start=0, full=0, load_end=60, end=60)
    for window in range(12):
        for i in range(3 if window != 3 else 0):
            failed = {"outcome": "http_error"} if (window, i) == (2, 0) else {}
            chunks = [(0.1 * (i + 1), 1), (0.1 * (i + 1) + 0.2, 11)]
            stats = run.speculated([(2, 4)] * 5 + [(4, 4)] * 5)
            run.request(chunks, sent=5 * window + 1.0, **{**stats, **failed})
    for at in range(60):
        for worker, rss in ((0, 100.0), (1, 50.0)):
            run.second(at + 0.5, worker=worker, rss_bytes=int(rss))
    return run


def test_what_each_window_holds(minute) -> None:
    data = minute.data()
    arm = arm_data(data, "candidate")
    found = {s.name: s for s in series_of(data, arm, "one", windows_over(arm.windows))}
    assert found["acceptance_rate"].values == pytest.approx(0.75)
    assert found["rollback_rate"].values == pytest.approx(0.5)
    assert found["e_verified"].values == pytest.approx(4.0)
    assert found["error_share"].values.tolist() == pytest.approx([0, 0, 1 / 3] + [0] * 8)
    assert found["error_share"].times_s.tolist() == [2.5, 7.5, 12.5, *(22.5 + 5 * i for i in range(8))]
    assert found["error_share"].reason == "1 of 12 windows have none"
    assert found["ttft_s"].values == pytest.approx(0.2)
    assert found["ttft_s"].reason == "2 of 12 windows have none"
    assert found["tpot_s"].values == pytest.approx(0.2 / 11)
    assert found["client_memory_bytes"].values.tolist() == [150] * 12
    assert found["jitter"].reason == "no window has 100 gaps between arrivals"


def test_a_window_with_bounds_only_has_no_rollback_rate(run) -> None:
    """Requests whose rollbacks are known exactly are often those without any: they do not speak for the others."""
    run.segment(0, start=0, full=0, load_end=60, end=60)
    for window in range(12):
        for i in range(3):
            stats = run.speculated([(4, 4)] * 10 if i else [(2, 4)] * 10)
            bounds = {"rollback_count": None, "rollback_low": 0} if (window, i) == (5, 0) else {}
            run.request([(0.2, 1), (0.4, 41)], sent=5 * window + 1.0, **{**stats, **bounds})
    data = run.data()
    arm = arm_data(data, "candidate")
    found = {s.name: s for s in series_of(data, arm, "one", windows_over(arm.windows))}["rollback_rate"]
    assert found.values.tolist() == pytest.approx([1 / 3] * 11)
    assert 27.5 not in found.times_s
    assert found.reason == "1 of 12 windows have none"


def test_a_soak_too_short_to_tell_says_so(minute) -> None:
    (found,) = analyze(minute.data()).stability
    assert isinstance(found, Stability)
    assert (found.state, found.windows, found.failure_rate.value) == ("too_short", 12, pytest.approx(1 / 33))
    assert all(s.p is None and s.reason for s in found.series)


def test_counters_stand_in_where_responses_tell_nothing(run) -> None:
    """Two rounds of four tokens a second, 2.5 accepted on average; the restart at 30 s costs the windows around it."""
    run.segment(0, start=0, full=0, load_end=60, end=60)
    for at in range(-1, 63):
        since = at + 2 if at < 30 else at - 29
        run.scrape(at, drafts=2 * since * 10, draft_tokens=8 * since * 10, accepted_tokens=5 * since * 10, kv_usage=0.5)
    data = run.data()
    arm = arm_data(data, "candidate")
    found = {s.name: s for s in series_of(data, arm, "one", windows_over(arm.windows))}
    assert found["acceptance_rate"].values == pytest.approx(5 / 8)
    assert found["e_verified"].values == pytest.approx(3.5)
    assert 9 <= len(found["e_verified"].values) < 12
    assert (found["e_verified"].source, found["rollback_rate"].reason) == (
        "counters",
        "counters do not tell which rounds were rolled back",
    )
    assert found["kv_usage"].values == pytest.approx(0.5)


def test_arms_and_stages_share_the_promise_of_the_soak(run) -> None:
    """TTFT rises in each of two arms in two stages: two tests in each, in four families; of one arm alone in two."""
    run.scenario["experiment"] = "soak"
    for number, (arm, stage) in enumerate(product(("baseline", "candidate"), ("a", "b"))):
        start = 1000.0 * number
        run.segment(
            number, arm=arm, stage=stage, stage_index=number % 2,
            start=start, full=start, load_end=start + 200, end=start + 200,
        )  # fmt: skip
        for window in range(40):
            for _ in range(3):
                first = (window + 1) / 64
                run.request([(first, 1), (first + 0.25, 11)], sent=start + 5 * window + 1.0, segment=number, arm=arm)
    data = run.data()
    arms = {name: arm_data(data, name) for name in ("baseline", "candidate")}
    both, one = stability_of(data, arms), stability_of(data, {"candidate": arms["candidate"]})
    assert isinstance(both, list)
    assert isinstance(one, list)
    for found, families in ((both, 4), (one, 2)):
        assert len(found) == families
        assert [s.p for part in found for s in part.series if s.p is not None] == pytest.approx(
            [families * 2 / 20_001] * families
        )


def test_any_other_run_and_a_ramp_have_no_stability(run) -> None:
    run.segment(0, start=0, full=0, load_end=60, end=60, concurrency=None)
    assert analyze(run.data()).stability == Absent(reason="not a soak: the scenario says no experiment: soak")
    run.scenario["experiment"] = "soak"
    assert analyze(run.data()).stability == Absent(reason="no stage of constant load was measured")
