"""Permutation tests on sampled outputs: the labels of the arms are exchanged within each case, nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.quality.monte_carlo import MOST_DRAWS, permutation_p
from loadgen.analyze.quality.types import Output, QualityTest, pieces
from loadgen.analyze.statistics.types import Floats

#: Tokens said less often than this, in both arms together, are counted as one.
RARE = 5
NGRAM = 3
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Statistic:
    """A number of each output: `measure(outputs)` gives them in order, None where one has none."""

    name: str
    unit: str
    measure: Callable[[Sequence[Output]], Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often each token is said, as a share of its output; the distance is sum (a - b)^2 / ((a + b) / 2)."""

    name: str = "token_histogram"


def _lengths(outputs: Sequence[Output]) -> list[float | None]:
    return [float(len(p)) for p in pieces(outputs)]


def _distinct(outputs: Sequence[Output]) -> list[float | None]:
    return [_distinct_share(p) for p in pieces(outputs)]


def _distinct_share(said: Sequence[Hashable]) -> float:
    grams = [tuple(said[i : i + NGRAM]) for i in range(len(said) - NGRAM + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0


LENGTH = Statistic("length", "tokens", _lengths)
#: Different 3-grams of tokens as a share of all; an output of less than 3 tokens has 1.
DISTINCT = Statistic("distinct_ngrams", "share", _distinct)
MEAN_LOGPROB = Statistic("mean_logprob", "nat", lambda outputs: [o.mean_logprob for o in outputs])
HISTOGRAM = Histogram()


def permutation_test(
    outputs: Sequence[Output],
    statistic: Statistic | Histogram,
    *,
    baseline: str,
    candidate: str,
    seed: int,
    most: int = MOST_DRAWS,
) -> QualityTest:
    """Two arms' sampled outputs of the same cases, two-sided; every case has the same weight.

    H0: within a case the outputs of both arms are draws of one distribution. Holds with any number of outputs per case
    and arm, equal or not; equal seeds in both arms make it conservative. Cases without both arms are left out and
    counted. A statistic that an output lacks: no test, with the reason.
    """
    design = _Design.of(outputs, baseline, candidate)
    if design.cases == 0:
        return _none(statistic, design, "no case with outputs of both arms")
    if isinstance(statistic, Histogram):
        return _histogram_test(statistic, design, seed, most)
    measured = statistic.measure(design.outputs)
    lacking = sum(x is None for x in measured)
    if lacking:
        return _none(statistic, design, f"{lacking} of {len(measured)} outputs have no {statistic.name}")
    x = np.array(measured, dtype=np.float64)
    value = float(design.weights @ x)

    def draw(rng: np.random.Generator, n: int) -> Floats:
        sums: Floats = np.abs(design.drawn(rng, n, x[:, None])[:, 0])
        return sums

    p, draws, _ = permutation_p(draw, abs(value), seed, scale=float(np.abs(x).max()), most=most)
    return _test(statistic, design, p, value, draws, 0.0, design.variance(x))


def _histogram_test(statistic: Histogram, design: _Design, seed: int, most: int) -> QualityTest:
    shares = _shares(design.outputs)
    both = np.abs(design.weights) @ shares / 2  # mean of the two arms
    scaled = shares[:, both > 0] / np.sqrt(both[both > 0])
    observed = float(np.square(design.weights @ scaled).sum())

    def draw(rng: np.random.Generator, n: int) -> Floats:
        sums: Floats = np.square(design.drawn(rng, n, scaled)).sum(axis=1)
        return sums

    p, draws, first = permutation_p(draw, observed, seed, most=most)
    mean, variance = float(first.mean()), float(first.var(ddof=1))
    return _test(statistic, design, p, observed - mean, draws, mean, variance)


def _shares(outputs: Sequence[Output]) -> Floats:
    """(outputs, tokens): count of each token ÷ tokens of the output; rare ones in one column."""
    said = pieces(outputs)
    counts = Counter(token for one in said for token in one)
    column = {token: at for at, token in enumerate(t for t, n in counts.items() if n >= RARE)}
    rest = len(column)
    shares = np.zeros((len(outputs), rest + 1))
    for row, one in enumerate(said):
        if one:
            at = np.fromiter((column.get(token, rest) for token in one), dtype=np.int64, count=len(one))
            shares[row] = np.bincount(at, minlength=rest + 1) / len(one)
    return shares


@dataclass(frozen=True, slots=True)
class _Design:
    """Outputs of cases that both arms have, case by case; weights @ x: mean over cases of candidate - baseline."""

    outputs: list[Output]
    sizes: list[tuple[int, int]]  # outputs of the case: all, the candidate's
    weights: Floats
    left_out: int

    @staticmethod
    def of(outputs: Sequence[Output], baseline: str, candidate: str) -> _Design:
        by_case: dict[str, tuple[list[Output], list[Output]]] = {}
        for one in outputs:
            if one.arm in (baseline, candidate):
                by_case.setdefault(one.case_id, ([], []))[one.arm == candidate].append(one)
        used = [arms for arms in by_case.values() if arms[0] and arms[1]]
        # by size, so that cases of a size are permuted together
        used.sort(key=lambda arms: (len(arms[0]), len(arms[1])))
        weights = [np.repeat([-1 / len(a), 1 / len(b)], [len(a), len(b)]) / len(used) for a, b in used]
        return _Design(
            [o for a, b in used for o in (*a, *b)],
            [(len(a) + len(b), len(b)) for a, b in used],
            np.concatenate(weights) if weights else np.zeros(0),
            len(by_case) - len(used),
        )

    @property
    def cases(self) -> int:
        return len(self.sizes)

    def drawn(self, rng: np.random.Generator, n: int, x: Floats) -> Floats:
        """(n, columns of x): weights @ x under n exchanges of labels within cases."""
        parts = [self._exchanged(rng, min(_AT_ONCE, n - at)) @ x for at in range(0, n, _AT_ONCE)]
        return np.concatenate(parts)

    def _exchanged(self, rng: np.random.Generator, n: int) -> Floats:
        blocks = []
        start = 0
        for (size, of_candidate), cases in Counter(self.sizes).items():
            width = size * cases
            own = np.broadcast_to(self.weights[start : start + width].reshape(cases, size), (n, cases, size))
            if of_candidate * 2 == size == 2:  # one each: to exchange is to change the sign
                blocks.append((own * rng.choice((-1.0, 1.0), (n, cases, 1))).reshape(n, width))
            else:
                blocks.append(rng.permuted(own, axis=2).reshape(n, width))
            start += width
        return np.concatenate(blocks, axis=1)

    def variance(self, x: Floats) -> float:
        """Of weights @ x under exchange: of each case its variance (n - 1) x (1/n_a + 1/n_b); over cases squared."""
        total, at = 0.0, 0
        for size, of_candidate in self.sizes:
            spread = float(x[at : at + size].var(ddof=1))
            total += spread * (1 / of_candidate + 1 / (size - of_candidate))
            at += size
        return total / self.cases**2

    def count(self) -> tuple[int, int]:
        of_candidate = sum(own for _, own in self.sizes)
        return len(self.outputs) - of_candidate, of_candidate


def _test(
    statistic: Statistic | Histogram, design: _Design, p: float, value: float, draws: int, mean: float, variance: float
) -> QualityTest:
    a, b = design.count()
    distance = isinstance(statistic, Histogram)
    unit = "distance" if isinstance(statistic, Histogram) else statistic.unit
    return QualityTest(
        statistic.name, p, value, unit, a, b, design.cases, design.left_out, draws, mean, variance, distance
    )


def _none(statistic: Statistic | Histogram, design: _Design, reason: str) -> QualityTest:
    a, b = design.count()
    unit = "distance" if isinstance(statistic, Histogram) else statistic.unit
    return QualityTest(statistic.name, None, None, unit, a, b, design.cases, design.left_out, 0, reason=reason)
