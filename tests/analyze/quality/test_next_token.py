"""The next-token test: Pearson's chi-square by hand and by scipy, contexts, and what it cannot tell."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.analyze import Output, QualityTest, TokenSample, next_token_test, second_tokens

Counts = dict[str, tuple[list[int], list[int]]]


def drawn(counts: Counts) -> list[TokenSample]:
    """{context: (the baseline's count of each token, the candidate's)}."""
    return [
        TokenSample(context, arm, token)
        for context, sides in counts.items()
        for arm, row in zip(("baseline", "candidate"), sides, strict=True)
        for token, n in enumerate(row)
        for _ in range(n)
    ]


def asked(counts: Counts, seed: int = 1) -> QualityTest:
    return next_token_test(drawn(counts), baseline="baseline", candidate="candidate", seed=seed)


def statistic(found: QualityTest) -> float:
    assert found.value is not None
    assert found.null_mean is not None
    return found.value + found.null_mean


def test_one_context_agrees_with_scipy() -> None:
    a, b = [40, 30, 20, 10], [30, 28, 22, 20]
    found = asked({"x": (a, b)})
    chi = scipy.stats.chi2_contingency(np.array([a, b]), correction=False)
    assert statistic(found) == pytest.approx(chi.statistic / 50)
    assert found.p == pytest.approx(chi.pvalue, rel=0.4)
    assert (found.n_baseline, found.n_candidate, found.groups, found.left_out) == (100, 100, 1, 0)


def test_contexts_are_summed_and_never_mixed() -> None:
    """Two contexts with opposite tokens: pooled they would differ, each by itself does not."""
    found = asked({"x": ([180, 20], [36, 4]), "y": ([4, 36], [20, 180])})
    assert found.p == 1.0
    assert statistic(found) == pytest.approx(0)
    far = asked({"x": ([235, 205], [205, 235]), "y": ([235, 205], [205, 235])})
    chi = 2 * 4 * 15**2 / 220
    assert statistic(far) == pytest.approx(chi / 440)
    of_one = scipy.stats.hypergeom.pmf(np.arange(441), 880, 440, 440)
    square = np.square(np.arange(441) - 220)
    exact = float(np.outer(of_one, of_one)[np.add.outer(square, square) >= 2 * 15**2].sum())
    drawings = [asked({"x": ([235, 205], [205, 235]), "y": ([235, 205], [205, 235])}, seed).draws for seed in range(12)]
    assert 10 * 12 / sum(drawings) == pytest.approx(exact, rel=0.35), "120 reached in so many draws"
    assert far.value == pytest.approx((chi - 2) / 440, abs=0.001), "less the mean under exchange, 1 per context"


def test_rare_tokens_are_one_and_lone_contexts_are_counted() -> None:
    found = asked({"x": ([20, 6, 4, 5, 0, 5], [20, 9, 7, 2, 1, 1]), "y": ([3, 3], [0, 0]), "z": ([7], [5])})
    chi = scipy.stats.chi2_contingency(np.array([[20, 20], [20, 20]]), correction=False)
    assert statistic(found) == pytest.approx(chi.statistic / 20)
    assert (found.groups, found.left_out, found.n_baseline) == (2, 1, 47)


@pytest.mark.parametrize("counts", [{}, {"z": ([7], [5])}, {"x": ([2, 2], [0, 0])}])
def test_what_cannot_be_tested_says_why(counts: Counts) -> None:
    found = asked(counts)
    assert (found.p, found.reason) == (None, "no context has two different tokens and samples of both arms")


ROW = st.lists(st.integers(0, 40), min_size=3, max_size=3)


@given(counts=st.dictionaries(st.sampled_from("xyz"), st.tuples(ROW, ROW), max_size=3))
@settings(max_examples=40, deadline=None)
def test_swapping_arms_and_naming_tokens_anew_change_nothing(counts: Counts) -> None:
    found = asked(counts)
    swapped = asked({c: (b, a) for c, (a, b) in counts.items()})
    renamed = asked({c: (a[::-1], b[::-1]) for c, (a, b) in counts.items()})
    assert (found.p is None) == (swapped.p is None) == (renamed.p is None)
    assert asked({c: (a, a) for c, (a, _) in counts.items()}).p in (1.0, None)
    if found.p is not None:
        assert statistic(found) == pytest.approx(statistic(swapped)) == pytest.approx(statistic(renamed))


def test_second_tokens(output: Callable[..., Output]) -> None:
    """The first token comes from the prefill, where nothing is drafted."""
    found = second_tokens([output(ids=[4, 5, 6], case="a"), output(ids=[4]), output(ids=[7, 8], arm="candidate")])
    assert found == [TokenSample(("a", 4), "baseline", 5), TokenSample(("c", 7), "candidate", 8)]
    assert second_tokens([output("to be or")]) == [TokenSample(("c", "to"), "baseline", " be")]
