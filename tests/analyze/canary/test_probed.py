"""What paired probes tell of a canary, from hand-made requests."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from loadgen.analyze import Estimate, Probe, probed_estimates

PAIRS, BLOCKS = 240, 24


def probes(ttft_s: float = 0.1, tpot_s: float = 0.02, *, accepted: int | None = 6) -> list[Probe]:
    """Ten pairs a block. Times rise with the place in a block, so that percentiles are known: by up to 9 %."""
    spec = {} if accepted is None else {"accepted": accepted, "drafted": 8, "rounds": 2, "rolled_back": (1, 1)}
    return [
        Probe(i, i % BLOCKS, False, ttft_s * (1 + i // BLOCKS / 100), tpot_s * (1 + i // BLOCKS / 100), **spec)  # type: ignore[arg-type]
        for i in range(PAIRS)
    ]


def estimates(canary: list[Probe], baseline: list[Probe], *names: str) -> list[Estimate]:
    found = probed_estimates(canary, baseline, names, least_requests=20, least_draft_tokens=500, seed=1)
    return [found[name] for name in names]


def test_exact_ratios_of_a_faster_canary() -> None:
    canary, baseline = probes(tpot_s=0.01), probes(accepted=None)
    speedup, p50, p95, ttft = estimates(
        canary, baseline, "speedup", "tpot_p50_ratio", "tpot_p95_ratio", "ttft_p95_ratio"
    )
    assert (speedup.low, speedup.value, speedup.high) == pytest.approx((2.0, 2.0, 2.0))
    assert (speedup.n, speedup.unit) == (24, "blocks")
    assert (p50.value, p95.value, ttft.value) == pytest.approx((0.5, 0.5, 1.0))
    assert p50.low is not None
    assert p50.low <= 0.5


def test_acceptance_and_rollback_are_of_the_answers_own_statistics() -> None:
    acceptance, rollback, ratio = estimates(probes(), probes(accepted=4), "acceptance", "rollback", "acceptance_ratio")
    assert acceptance.value == 0.75
    assert acceptance.low is not None
    assert acceptance.low <= 0.75
    assert (rollback.value, rollback.n) == (0.5, PAIRS)
    assert ratio.value == pytest.approx(1.5)


def test_rollback_of_bounds() -> None:
    """Certain are those of the lower bound; the interval reaches to the upper limit of the upper one."""
    canary = [replace(p, rolled_back=(0, 2) if p.pair % 2 else (1, 1)) for p in probes()]
    [rollback] = estimates(canary, probes(), "rollback")
    assert rollback.value == 0.25
    assert rollback.reason == "at least; at most 0.75"
    assert rollback.high is not None
    assert rollback.high > 0.75


def test_failed_requests_are_infinitely_late_and_errors() -> None:
    """A10, F10: leaving failures out would make a failing canary look fast."""
    canary = [
        replace(p, failed=True, ttft_s=None, tpot_s=None, accepted=None) if p.pair % 5 == 0 else p for p in probes()
    ]
    p95, p50, errors, speedup = estimates(
        canary, probes(), "ttft_p95_ratio", "tpot_p50_ratio", "error_share", "speedup"
    )
    assert p95.value == math.inf
    assert p95.low == math.inf
    assert p50.value == pytest.approx(1.01, abs=0.02)
    assert errors.value == pytest.approx(0.2)
    assert errors.low is not None
    assert 0.1 < errors.low < 0.2
    assert speedup.value == pytest.approx(1.0, rel=1e-2)


def test_pairs_need_both_halves_and_our_own_faults_are_nobodys() -> None:
    canary = [replace(p, failed=None) if p.pair < 100 else p for p in probes()]
    baseline = [p for p in probes() if p.pair < 110]
    [errors] = estimates(canary, baseline, "error_share")
    assert errors.value is None
    assert errors.reason == "10 pairs of probes ended in this time; at least 20 are needed"
    [none] = estimates([], [], "speedup")
    assert none.reason == "0 pairs of probes ended in this time; at least 20 are needed"


def test_answers_without_statistics_are_no_rate() -> None:
    """C10, G15: nothing drafted is not an acceptance of 0."""
    acceptance, rollback, ratio = estimates(
        probes(accepted=None), probes(), "acceptance", "rollback", "acceptance_ratio"
    )
    assert acceptance.value is rollback.value is None
    assert acceptance.reason == "0 drafted tokens (240 answers had no statistics); at least 500 are needed"
    assert ratio.reason == f"canary: {acceptance.reason}"


def test_one_chunk_answers_have_no_time_per_token() -> None:
    canary = [replace(p, tpot_s=None) for p in probes()]
    speedup, p50 = estimates(canary, probes(), "speedup", "tpot_p50_ratio")
    assert speedup.reason == "no pair has a time per token in both arms"
    assert p50.reason == "no request has this time in both arms"


def test_a_pair_is_in_one_block_though_its_halves_were_due_in_two() -> None:
    later = [replace(p, block=p.block + 1) for p in probes()]
    speedup, p50 = estimates(probes(tpot_s=0.01), later, "speedup", "tpot_p50_ratio")
    assert (speedup.value, speedup.n) == (pytest.approx(2.0), 24)
    assert p50.value == pytest.approx(0.5)
