"""Permutation tests: against scipy, exact cases, symmetry, and what they can detect."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import (
    DISTINCT,
    HISTOGRAM,
    LENGTH,
    MEAN_LOGPROB,
    Histogram,
    Output,
    QualityTest,
    Statistic,
    permutation_test,
)

Make = Callable[..., Output]
Sets = dict[str, tuple[list[list[int]], list[list[int]]]]


@pytest.fixture(scope="session")
def arms(output: Make) -> Callable[[Sets], list[Output]]:
    """Outputs of {case: (the baseline's ids, the candidate's)}."""

    def make(cases: Sets) -> list[Output]:
        return [
            output(ids=ids, case=case, arm=arm, repeat=i)
            for case, sides in cases.items()
            for arm, some in zip(("baseline", "candidate"), sides, strict=True)
            for i, ids in enumerate(some)
        ]

    return make


def asked(
    outputs: Sequence[Output], statistic: Statistic | Histogram, seed: int = 1, swap: bool = False
) -> QualityTest:
    a, b = ("candidate", "baseline") if swap else ("baseline", "candidate")
    return permutation_test(outputs, statistic, baseline=a, candidate=b, seed=seed)


def statistic(found: QualityTest) -> float:
    return (found.value or 0) + (found.null_mean or 0)


def lengths(*values: int) -> list[list[int]]:
    return [list(range(n)) for n in values]


def test_one_case_agrees_with_scipy(arms: Callable[[Sets], list[Output]]) -> None:
    a, b = (12, 15, 9, 11, 14, 10), (16, 19, 13, 18, 12, 20)
    found = asked(arms({"c": (lengths(*a), lengths(*b))}), LENGTH)
    exact = scipy.stats.permutation_test(
        (np.array(a, float), np.array(b, float)), lambda x, y, axis: np.abs(y.mean(axis) - x.mean(axis)),
        permutation_type="independent", vectorized=True, n_resamples=np.inf, alternative="greater",
    )  # fmt: skip
    assert found.value == pytest.approx(np.mean(b) - np.mean(a))
    assert found.p == pytest.approx(exact.pvalue, rel=0.35)
    assert (found.n_baseline, found.n_candidate, found.groups, found.unit) == (6, 6, 1, "tokens")


def test_null_variance_is_that_of_all_permutations(arms: Callable[[Sets], list[Output]]) -> None:
    a, b = (3, 9, 4), (5, 8)
    found = asked(arms({"c": (lengths(*a), lengths(*b))}), LENGTH)
    every = scipy.stats.permutation_test(
        (np.array(a, float), np.array(b, float)), lambda x, y, axis: y.mean(axis) - x.mean(axis),
        permutation_type="independent", vectorized=True, n_resamples=np.inf,
    )  # fmt: skip
    assert found.null_variance == pytest.approx(every.null_distribution.var())


def test_pairs_of_one_output_each_are_sign_flips(arms: Callable[[Sets], list[Output]]) -> None:
    found = asked(arms({f"c{i}": (lengths(5), lengths(6)) for i in range(10)}), LENGTH)
    assert found.p == pytest.approx(2 / 1024, rel=0.4)
    assert found.value == pytest.approx(1.0)
    assert found.detectable(0.05) == pytest.approx((1.959964 + 1.281552) * np.sqrt(10 * 0.5 * 2) / 10, rel=1e-5)


def test_labels_stay_within_their_case(arms: Callable[[Sets], list[Output]]) -> None:
    """Cases of very different lengths: the difference between cases is no difference between arms."""
    cases = {f"c{i}": (lengths(10 * i, 10 * i + 2), lengths(10 * i + 1, 10 * i + 1)) for i in range(1, 9)}
    found = asked(arms(cases), LENGTH)
    assert found.p == 1.0
    assert found.value == pytest.approx(0.0, abs=1e-12)


IDS = st.lists(st.integers(0, 4), min_size=0, max_size=6)
CASES = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.lists(IDS, min_size=1, max_size=3), st.lists(IDS, min_size=1, max_size=3)),
    min_size=1,
    max_size=4,
)


@given(cases=CASES, which=st.sampled_from((LENGTH, DISTINCT, HISTOGRAM)))
@settings(max_examples=25, deadline=None)
def test_swapping_arms_and_order_change_nothing(
    arms: Callable[[Sets], list[Output]], cases: Sets, which: Statistic | Histogram
) -> None:
    outputs = arms(cases)
    forth, back = asked(outputs, which), asked(outputs, which, swap=True)
    assert forth.p is not None
    assert 0 < forth.p <= 1
    assert asked(outputs, which) == forth, "the same seed draws the same"
    turned = asked(outputs[::-1], which)
    if which is HISTOGRAM:
        assert statistic(turned) == pytest.approx(statistic(forth)) == pytest.approx(statistic(back))
    else:
        assert (turned.value, turned.null_variance) == pytest.approx((forth.value, forth.null_variance))
        assert (-(back.value or 0), back.null_variance) == pytest.approx((forth.value, forth.null_variance))


@given(sets=st.lists(st.lists(IDS, min_size=1, max_size=3), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_identical_arms_are_never_an_alarm(arms: Callable[[Sets], list[Output]], sets: list[list[list[int]]]) -> None:
    outputs = arms({f"c{i}": (some, some) for i, some in enumerate(sets)})
    for which in (LENGTH, DISTINCT, HISTOGRAM):
        assert asked(outputs, which).p == 1.0


def test_histogram_sees_other_tokens_of_the_same_length(arms: Callable[[Sets], list[Output]]) -> None:
    rng = np.random.default_rng(2)
    cases = {
        f"c{i}": (rng.choice(8, (3, 20)).tolist(), (rng.choice(8, (3, 20), p=[0.3, *[0.1] * 7])).tolist())
        for i in range(12)
    }
    outputs = arms(cases)
    assert asked(outputs, LENGTH).p == 1.0
    found = asked(outputs, HISTOGRAM)
    assert found.p == 1 / 10_000
    assert found.draws == 9_999
    assert found.value == pytest.approx(0.175**2 / 0.2125 + 7 * 0.025**2 / 0.1125, abs=0.05)


def test_distinct_ngrams(output: Make) -> None:
    found = DISTINCT.measure([output(ids=i) for i in ([1, 2, 3, 1, 2, 3, 1], [1, 2], [], [1, 1, 1, 1])])
    assert found == [3 / 5, 1.0, 1.0, 1 / 2]
    assert LENGTH.measure([output("a b"), output("a", [1, 2])]) == [2.0, 1.0], "words, where ids are not told by all"


def test_what_cannot_be_tested_says_why(output: Make) -> None:
    only = [output(ids=[1], case="a"), output(ids=[1], case="b", arm="candidate")]
    found = asked(only, LENGTH)
    assert (found.p, found.reason, found.left_out) == (None, "no case with outputs of both arms", 2)
    assert found.detectable(0.05) is None
    both = [output(ids=[1], mean_logprob=-0.5), output(ids=[1], arm="candidate")]
    assert asked(both, MEAN_LOGPROB).reason == "1 of 2 outputs have no mean_logprob"


def test_detectable_shift_is_found_with_its_power(arms: Callable[[Sets], list[Output]]) -> None:
    """100 runs with a true shift of just what `detectable` names: found in 90 % of them, within 3 standard errors."""
    rng = np.random.default_rng(8)
    named = 8 * np.sqrt(2 / 40) * (scipy.stats.norm.ppf(1 - 0.01 / 2) + scipy.stats.norm.ppf(0.9))
    hits = 0
    for run in range(100):
        a, b = rng.normal(60, 8, (10, 4)), rng.normal(60 + named, 8, (10, 4))
        outputs = arms({f"c{i}": (lengths(*x.round().astype(int)), lengths(*y.round().astype(int)))
                        for i, (x, y) in enumerate(zip(a, b, strict=True))})  # fmt: skip
        found = asked(outputs, LENGTH, seed=run)
        hits += (found.p or 1) <= 0.01
    assert found.detectable(0.01) == pytest.approx(named, rel=0.35)
    assert abs(hits / 100 - 0.9) <= 3 * np.sqrt(0.09 / 100)
