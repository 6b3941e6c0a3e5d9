"""McNemar against scipy, sign flips against enumeration, and the noise floor."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import (
    Output,
    compare_outputs,
    discordant_needed,
    divergence_share,
    mcnemar,
    noise_floor,
    paired,
)

Make = Callable[..., Output]
PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40)


@given(pairs=PAIRS)
@settings(max_examples=80, deadline=None)
def test_mcnemar_is_the_exact_binomial_on_discordant_pairs(pairs: list[tuple[bool, bool]]) -> None:
    found = mcnemar(pairs)
    assert found.n == len(pairs)
    lost, won = found.baseline_only, found.candidate_only
    if lost + won:
        assert found.p == pytest.approx(scipy.stats.binomtest(won, lost + won).pvalue, rel=1e-9)
        more = scipy.stats.binomtest(won, lost + won, alternative="greater").pvalue
        assert mcnemar(pairs, side="greater").p == pytest.approx(more, rel=1e-9)
    else:
        assert found.p == 1.0
    back = mcnemar([(b, a) for a, b in pairs])
    assert (back.p, back.baseline_only, back.candidate_only) == (found.p, won, lost)


def test_mcnemar_by_hand() -> None:
    pairs = [(True, True)] * 50 + [(True, False)] * 9 + [(False, True)] + [(False, False)] * 3
    found = mcnemar(pairs)
    assert (found.both, found.baseline_only, found.candidate_only, found.neither) == (50, 9, 1, 3)
    assert found.p == 2 * 11 / 1024
    assert mcnemar([]).p == 1.0


@pytest.mark.parametrize(("level", "needed"), [(0.05, 6), (0.002, 10), (0.002 / 9, 14)])
def test_discordant_needed(level: float, needed: int) -> None:
    assert discordant_needed(level) == needed
    assert mcnemar([(True, False)] * needed).p <= level < mcnemar([(True, False)] * (needed - 1)).p


def by_case(values: list[float]) -> dict[str, list[float]]:
    return {f"c{i}": [v] for i, v in enumerate(values)}


def test_one_pair_per_case_is_mcnemar() -> None:
    a, b = [1.0] * 12 + [0.0] * 3, [0.0] * 9 + [1.0] * 6
    found = paired(by_case(a), by_case(b), seed=1)
    assert (found.p, found.method) == (
        mcnemar([(x == 1, y == 1) for x, y in zip(a, b, strict=True)]).p,
        "McNemar, exact",
    )
    assert found.difference.value == pytest.approx(-6 / 15)
    assert (found.cases, found.left_out) == (15, 0)


def test_several_repeats_are_one_observation_per_case() -> None:
    a = {f"c{i}": [1.0, 1.0] for i in range(9)}
    b = {f"c{i}": [0.0, i % 2] for i in range(9)} | {"only": [1.0]}
    found = paired(a, b, seed=3)
    flips = np.array(list(product((-1, 1), repeat=9))) @ np.array([1 - (i % 2) / 2 for i in range(9)])
    exact = float(np.mean(np.abs(flips) >= 7 - 1e-9))
    assert exact == 2 / 512
    assert found.p == pytest.approx(exact, rel=0.4)
    assert found.left_out == 1
    assert found.difference.reason == "not enough data: an interval needs at least 20 cases, there are 9"


def test_one_sided_and_no_common_case() -> None:
    a, b = by_case([0.0, 0.5, 0.25] * 8), by_case([0.5, 0.75, 1.0] * 8)
    assert (paired(a, b, seed=1, side="greater").p or 1) < 0.001
    assert (paired(b, a, seed=1, side="greater").p or 0) > 0.99
    none = paired({"x": [1.0]}, {"y": [1.0]}, seed=1)
    assert (none.p, none.reason, none.left_out) == (None, "no case in both arms", 2)


@given(rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=20, max_size=40), seed=st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_paired_is_symmetric_and_its_interval_holds_the_mean(rows: list[tuple[int, int]], seed: int) -> None:
    a, b = by_case([x / 4 for x, _ in rows]), by_case([y / 4 for _, y in rows])
    forth, back = paired(a, b, seed=seed), paired(b, a, seed=seed)
    assert forth.p == back.p
    mean = float(np.mean([y - x for x, y in rows])) / 4
    assert forth.difference.value == pytest.approx(mean)
    assert forth.difference.low is not None
    assert forth.difference.high is not None
    assert forth.difference.low <= mean + 1e-12
    assert forth.difference.high >= mean - 1e-12
    assert paired(a, a, seed=seed).p == 1.0


def test_interval_agrees_with_scipy() -> None:
    d = np.random.default_rng(5).integers(-4, 5, 30) / 4
    found = paired(by_case([0.0] * 30), by_case(d.tolist()), seed=1).difference
    low, high = scipy.stats.t.interval(0.95, 29, d.mean(), d.std(ddof=1) / np.sqrt(30))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_where_every_case_agrees_the_interval_has_a_width() -> None:
    found = paired(by_case([1.0] * 20), by_case([1.0] * 20), seed=1).difference
    assert found.value == 0
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert found.low == pytest.approx(-(1 - 0.025 ** (1 / 20)))


def test_noise_floor_is_of_the_same_load(output: Make) -> None:
    """H1, H5: what the baseline differs from itself is no fault of the candidate; what is beyond it is."""

    def pairs(differing: int) -> list[tuple[Output, Output]]:
        return [
            (output("a", [1], case=f"c{i}"), output("a", [2 if i < differing else 1], case=f"c{i}")) for i in range(40)
        ]

    floor, worse, same = (compare_outputs(pairs(n)) for n in (6, 26, 6))
    found = noise_floor(floor, worse, seed=1)
    assert (found.baseline.value, found.candidate.value, found.baseline.n) == (0.15, 0.65, 40)
    assert found.excess.p == 2.0**-20
    assert found.excess.difference.value == pytest.approx(0.5)
    assert found.baseline.low is not None
    assert found.baseline.low < 0.15
    assert noise_floor(floor, same, seed=1).excess.p == 1.0
    assert noise_floor(worse, floor, seed=1).excess.p == 1.0, "one-sided: to differ less is no fault"
    assert divergence_share([]).value is None
