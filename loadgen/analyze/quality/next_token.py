"""Is the next token of both arms drawn from one distribution? The test that sees a missing correction step."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.quality.monte_carlo import MOST_DRAWS, permutation_p
from loadgen.analyze.quality.types import Output, QualityTest, pieces
from loadgen.analyze.statistics.types import Floats, Ints

#: Tokens sampled less often than this in a context, in both arms together, are counted as one.
RARE = 20
_NAME = "next_token"


@dataclass(frozen=True, slots=True)
class TokenSample:
    """One token drawn after `context`: a prompt and, where some were generated before it, those tokens."""

    context: Hashable
    arm: str
    token: Hashable


def second_tokens(outputs: Sequence[Output]) -> list[TokenSample]:
    """The second token of each output after its case and first token; outputs of one token give none.

    Not the first: it comes from the prefill, which drafts nothing, so that no fault of the verification shows in it.
    The second is the first that a draft was checked for.
    """
    said = pieces(outputs)
    return [
        TokenSample((one.case_id, tokens[0]), one.arm, tokens[1])
        for one, tokens in zip(outputs, said, strict=True)
        if len(tokens) > 1
    ]


def next_token_test(
    samples: Iterable[TokenSample], *, baseline: str, candidate: str, seed: int, most: int = MOST_DRAWS
) -> QualityTest:
    """Chi-square of two samples summed over contexts; its null by exchanging the arms' labels within each context.

    H0: in each context the tokens of both arms are independent draws of one distribution. `value`: estimate of
    sum (p - e)^2 / ((p + e) / 2), 0 for equal distributions, weighted over contexts by n_a n_b / (n_a + n_b).
    Contexts that only one arm reached are left out and counted; those with one token alone tell nothing and are kept.
    """
    tables, left_out = _tables(samples, baseline, candidate)
    n_a, n_b = (int(sum(t[row].sum() for t in tables)) for row in (0, 1))
    used = [t for t in tables if t.shape[1] > 1]
    if not used:
        reason = "no context has two different tokens and samples of both arms"
        return QualityTest(_NAME, None, None, "distance", n_a, n_b, len(tables), left_out, 0, reason=reason)
    scale = sum(float(t[0].sum() * t[1].sum() / t.sum()) for t in tables)
    observed = sum(float(_chi_square(t, t[None, 0])[0]) for t in used) / scale

    def draw(rng: np.random.Generator, n: int) -> Floats:
        total = np.zeros(n)
        for t in used:
            drawn = rng.multivariate_hypergeometric(t.sum(axis=0), int(t[0].sum()), n, method="marginals")
            total += _chi_square(t, drawn)
        return total / scale

    p, draws, first = permutation_p(draw, observed, seed, most=most)
    mean, variance = float(first.mean()), float(first.var(ddof=1))
    return QualityTest(
        _NAME, p, observed - mean, "distance", n_a, n_b, len(tables), left_out, draws, mean, variance, True
    )


def _chi_square(table: Ints, baseline: Ints) -> Floats:
    """Pearson's statistic of a 2 x tokens table for each row of `baseline` counts with the margins of `table`."""
    both, n_a, n = table.sum(axis=0), table[0].sum(), table.sum()
    expected = both * (n_a / n)
    found: Floats = (np.square(baseline - expected) / expected).sum(axis=1) * (n / (n - n_a))
    return found


def _tables(samples: Iterable[TokenSample], baseline: str, candidate: str) -> tuple[list[Ints], int]:
    counts: dict[Hashable, dict[Hashable, list[int]]] = {}
    for one in samples:
        if one.arm in (baseline, candidate):
            counts.setdefault(one.context, {}).setdefault(one.token, [0, 0])[one.arm == candidate] += 1
    tables = [_pooled(np.array(list(tokens.values()), dtype=np.int64).T) for tokens in counts.values()]
    used = [t for t in tables if t[0].sum() and t[1].sum()]
    return used, len(tables) - len(used)


def _pooled(table: Ints) -> Ints:
    rare = table.sum(axis=0) < RARE
    if not rare.any():
        return table
    return np.concatenate([table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)], axis=1)
