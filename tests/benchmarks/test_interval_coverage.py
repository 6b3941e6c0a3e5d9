"""Intervals cover a known truth and a gate at equal arms stays quiet: small, seeded editions of
benchmarks/interval_coverage.py, whose 500 replications are in docs/statistics.md."""

import math
from pathlib import Path

import numpy as np
import pytest
from interval_checks import (
    acceptance_coverage,
    gate_counts,
    log_ratio_coverage,
    quantile_coverage,
    quantile_ratio_coverage,
    share_coverage,
)
from interval_coverage import BEGIN, END, PARTS
from interval_rehearsal import recover
from interval_worlds import Acceptance, Load, ar1, one_arm, two_arms, windows

REPLICATIONS, RESAMPLES = 200, 399
# three standard errors of 200 replications around 95 % reach from 90.4 % to 99.6 %: what is claimed is narrower
LOWEST, HIGHEST = 0.92, 0.975


@pytest.mark.parametrize(("q", "phi"), [(0.5, 0.3), (0.5, 0.5), (0.95, 0.0), (0.95, 0.5)])
def test_quantiles_of_one_arm_under_autocorrelated_load(q: float, phi: float) -> None:
    found = quantile_coverage(Load(20, 50, phi), q, REPLICATIONS, RESAMPLES)
    assert LOWEST <= found.covered <= HIGHEST, found


@pytest.mark.parametrize(("q", "phi"), [(0.5, 0.0), (0.5, 0.5), (0.95, 0.5)])
def test_quantile_ratios_of_interleaved_arms(q: float, phi: float) -> None:
    found = quantile_ratio_coverage(Load(20, 25, phi), q, 0.8, REPLICATIONS, RESAMPLES)
    assert LOWEST <= found.covered <= HIGHEST, found


@pytest.mark.parametrize("blocks", [5, 20])
def test_speedups(blocks: int) -> None:
    found = log_ratio_coverage(Load(blocks, 50, 0.5), 1.5, 500)
    assert LOWEST <= found.covered <= HIGHEST, found


@pytest.mark.parametrize("cases", [20, 50])
def test_acceptance_clustered_by_case(cases: int) -> None:
    found = acceptance_coverage(Acceptance(cases, 0.7, 5.0), 500)
    assert LOWEST <= found.covered <= HIGHEST, found


def test_error_shares_cover_at_least() -> None:
    """Clopper-Pearson may cover more than 95 %, never much less."""
    found = share_coverage(Load(20, 50, 0.0), 0.02, 50, REPLICATIONS, RESAMPLES)
    assert found.covered >= LOWEST, found


def test_p99_at_its_minimum_of_requests() -> None:
    found = quantile_coverage(Load(20, 23, 0.3), 0.99, REPLICATIONS, RESAMPLES)
    assert found.covered >= LOWEST, found


def test_gate_is_quiet_at_equal_arms_and_loud_at_a_slowdown() -> None:
    load = Load(20, 50, 0.5)
    equal = gate_counts(load, 0.0, 100, 199, limit=1.0)
    assert equal.failed <= 0.05, equal
    slower = gate_counts(load, 0.2, 20, 199)
    assert slower.failed >= 0.9, slower
    assert slower.passed == 0, slower


def test_rehearsal_speedup_is_recovered() -> None:
    """Each of five runs of 20 blocks against the speedup of all 100."""
    found = recover(4, 5, cases=4, max_tokens=24)
    assert found.long_run > 1.2
    assert found.covering >= 4
    assert found.acceptance_covering >= 4
    assert found.row().startswith("| 4 | ")


def test_simulated_loads_are_what_they_say() -> None:
    rng = np.random.default_rng(1)
    series = ar1(rng, 400, 0.5, 2.0, series=50)
    assert series.std() == pytest.approx(2.0, rel=0.05)
    assert np.corrcoef(series[:-1].ravel(), series[1:].ravel())[0, 1] == pytest.approx(0.5, abs=0.03)
    load = Load(400, 50, 0.0)
    assert np.mean(one_arm(rng, load) <= load.true_quantile(0.95)) == pytest.approx(0.95, abs=0.01)
    candidate, baseline = two_arms(rng, load, 0.8)
    assert np.log(candidate).mean() - np.log(baseline).mean() == pytest.approx(math.log(0.8), abs=0.03)
    assert Acceptance(10, 0.7, 5.0).truth() < 0.7  # good drafts need fewer rounds
    drawn = windows(rng, load, 1.0)
    assert np.median(drawn.latencies["tpot_s"][0]) == pytest.approx(0.04, rel=0.05)


@pytest.mark.parametrize("part", ["minimum", "planning"])
def test_documented_tables_are_what_is_printed(part: str) -> None:
    """The two parts of docs/statistics.md that take no time to compute."""
    text = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
    tables = text.split(BEGIN)[1].split(END)[0]
    for line in PARTS[part](500, 999):
        assert line in tables
