"""The advisor's predictions against sweeps of the same engine, and what it says where it cannot know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loadgen.analyze import (
    Advice,
    Cost,
    CostLine,
    Predicted,
    RoundLists,
    advise,
    advise_from_positions,
    fit_cost,
)
from loadgen.analyze.columns import Ragged

KS = np.array([0, 1, 2, 3, 5, 8])


@pytest.fixture(scope="session")
def advice(k_sweeps: Any) -> list[Advice]:
    """One per seed, from its run at k = 8 and its fitted cost line."""
    return [advise(s.joined(8), KS.tolist(), fit_cost(KS, s.step_ratio), seed=i) for i, s in enumerate(k_sweeps)]


def row(advice: Advice, k: int) -> Predicted:
    return next(r for r in advice.rows if r.k == k)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_swept_tokens_per_round_are_within_the_predicted_interval(k: int, advice: list[Advice], k_sweeps: Any) -> None:
    inside = 0
    for found, sweep in zip(advice, k_sweeps, strict=True):
        predicted = row(found, k)
        assert None not in (predicted.e, predicted.e_low, predicted.e_high, predicted.bound_low)
        assert predicted.e_low < predicted.bound_low <= predicted.e <= predicted.bound_high < predicted.e_high  # type: ignore[operator]
        inside += predicted.e_low <= sweep.swept(k) <= predicted.e_high  # type: ignore[operator]
    assert inside >= 19


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_middle_is_right_on_average(k: int, advice: list[Advice], k_sweeps: Any) -> None:
    """Over all seeds the noise of one is gone: what is left would be the method's own error."""
    ratio = [np.log((row(a, k).e or 0) / s.swept(k)) for a, s in zip(advice, k_sweeps, strict=True)]
    assert abs(float(np.mean(ratio))) < 0.02


def sticky(requests: int, length: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """(requests, length) places that are accepted or not; runs of easy and of hard text, 12 places each on average."""
    random = np.random.default_rng(seed)
    turns = np.cumsum(random.random((requests, length)) < 1 / 12, axis=1)
    easy = (turns + random.integers(0, 2, (requests, 1))) % 2 == 0
    return (random.random((requests, length)) < np.where(easy, 0.95, 0.35)).astype(np.int64)


def drafted_at(places: list[int], k: int) -> list[int]:
    """Accepted tokens of every round of at most k drafts, until the places end."""
    accepted, at = [], 0
    while at + k < len(places):
        taken = [*places[at : at + k], 0].index(0)
        accepted.append(taken)
        at += taken + 1
    return accepted


def test_positions_alone_come_out_low_where_acceptance_is_correlated() -> None:
    """The stated error of the fallback: in runs of easy and hard text its E is too low, while the replay is right."""
    places = sticky(200, 200, 1).tolist()
    at_8, at_2 = ([drafted_at(row, k) for row in places] for k in (8, 2))
    truth = 1 + sum(map(sum, at_2)) / sum(map(len, at_2))
    flat = np.array([a for row in at_8 for a in row], np.int64)
    offsets = np.cumsum([0, *map(len, at_8)])
    emitted = np.array([sum(row) + len(row) for row in at_8])
    lists = RoundLists(Ragged(flat, offsets), Ragged(np.full(len(flat), 8), offsets), emitted, np.arange(200))
    cost = {2: Cost(1.3, None, None)}
    replayed = row(advise(lists, [2], cost), 2)
    at = [int((flat > j).sum()) for j in range(8)]
    found = advise_from_positions(at, len(flat), [2, 3], cost)
    low = row(found, 2)
    assert replayed.e == pytest.approx(truth, rel=0.01)
    assert low.e is not None
    assert 0.8 < low.e / truth < 0.95
    assert "assumes stationarity" in (found.reason or "")
    assert (found.best, found.candidates, low.e_low, low.low) == (2, None, None, None)


def test_acceptance_rate_is_not_carried_over_between_draft_lengths(advice: list[Advice], k_sweeps: Any) -> None:
    """D12: accepted ÷ drafted falls with k, so 1 + alpha · k' with the alpha of k = 8 is far too low at k' = 2."""
    naive = []
    for found, sweep in zip(advice, k_sweeps, strict=True):
        lists = sweep.joined(8)
        alpha = lists.accepted.values.sum() / lists.drafted.values.sum()
        naive.append(1 + alpha * 2 < (row(found, 2).e_low or 0))
    assert all(naive)


@pytest.mark.parametrize(("p", "n"), [(0.8, 8), (0.5, 4), (0.95, 5)])
def test_positions_of_independent_acceptance_give_the_geometric_sum(p: float, n: int) -> None:
    """D13: the expected number accepted is sum of i p^i (1 - p) + n p^n, not p · n."""
    expected = sum(i * p**i * (1 - p) for i in range(n)) + n * p**n
    found = advise_from_positions([1000 * p ** (j + 1) for j in range(n)], 1000, [n], {})
    assert row(found, n).e == pytest.approx(1 + expected)


def test_best_is_the_best_of_the_sweep_or_not_told_from_it(advice: list[Advice], k_sweeps: Any) -> None:
    """Decoding alone: the truth is the lowest time per output token over all seeds."""
    pooled = np.mean([np.log(s.tpot) for s in k_sweeps], axis=(0, 2))
    truth = int(KS[pooled.argmin()])
    assert sum(truth in (a.candidates or ()) for a in advice) >= 19
    assert all(0 not in (a.candidates or (0,)) for a in advice)
    assert all("an estimate" in (a.reason or "") for a in advice)


def test_predicted_speedup_covers_the_swept_one(advice: list[Advice], k_sweeps: Any) -> None:
    for k in (1, 3, 5):
        at = int(np.flatnonzero(k == KS)[0])
        inside = 0
        for found, sweep in zip(advice, k_sweeps, strict=True):
            swept = float(np.exp(np.log(sweep.tpot[0] / sweep.tpot[at]).mean()))
            inside += (row(found, k).low or 0) <= swept <= (row(found, k).high or 0)
        assert inside >= 19


def lists_of(accepted: list[int], k: int, requests: int) -> RoundLists:
    """`requests` cases of one pattern of rounds."""
    rounds = np.tile(np.array(accepted, np.int64), requests)
    offsets = np.arange(requests + 1, dtype=np.int64) * len(accepted)
    drafted = np.full(len(rounds), k, np.int64)
    emitted = np.full(requests, sum(accepted) + len(accepted), np.int64)
    return RoundLists(Ragged(rounds, offsets), Ragged(drafted, offsets), emitted, np.arange(requests))


def test_off_is_best_where_drafts_cost_more_than_they_bring() -> None:
    found = advise(lists_of([0, 0, 1, 0, 0], 4, 30), [1, 2, 4], fit_cost(KS, np.tile(1 + 0.3 * KS, (2, 1)).T))
    assert (found.best, found.candidates, found.n) == (0, (0,), 30)
    assert "off is best" in (found.reason or "")
    assert found.rows[0].speedup == 1.0


def test_off_is_not_told_from_a_length_that_brings_nothing() -> None:
    found = advise(lists_of([0, 1, 1, 0], 4, 30), [1], {1: Cost(1.45, 1.2, 1.7)})
    assert found.best == 1
    assert found.candidates == (0, 1)
    assert (found.reason or "").endswith("k = 1 is best, not told from off")


def test_net_speedup_is_smaller_where_decoding_is_a_part() -> None:
    lists, cost = lists_of([1, 2, 0, 2], 2, 30), {2: Cost(1.2, 1.2, 1.2)}
    whole, part = advise(lists, [2], cost), advise(lists, [2], cost, decode_share=0.5)
    e = 9 / 4
    assert (whole.net, part.net) == (False, True)
    assert row(whole, 2).e == e
    assert row(whole, 2).speedup == pytest.approx(e / 1.2)
    assert row(part, 2).speedup == pytest.approx(1 / (0.5 + 0.5 * 1.2 / e))
    assert advise_from_positions([3, 2], 4, [2], cost, decode_share=0.5).net


def test_drafted_tokens_stand_beside_the_prediction() -> None:
    """D28: a high acceptance of few drafts is not a gain; drafted per output token tells."""
    found = row(advise(lists_of([1, 2, 0, 2], 2, 30), [2], {}), 2)
    assert found.drafts_per_token == pytest.approx(2 / (9 / 4))


def test_what_is_not_known_is_said() -> None:
    """D26, D27: a prediction from filler or generated prompts carries that condition with it."""
    lists = lists_of([1, 2, 0, 2], 2, 5)
    found = advise(lists, [2, 6], {2: Cost(1.2, None, None)}, note="generated prompts: not representative")
    assert row(found, 2).e == 9 / 4
    assert (row(found, 2).e_low, found.candidates, found.best) == (None, None, 2)
    for words in (
        "an interval needs 20 cases, there are 5",
        "the run drafted at most 2: nothing is known of k = 6",
        "the cost of k = 2 has no interval",
        "generated prompts: not representative",
    ):
        assert words in (found.reason or "")
    half = advise(lists_of([1, 2, 0, 2], 2, 30), [1, 2], {2: Cost(1.2, 1.2, 1.2)})
    assert half.candidates == (2,), "a k of unknown cost is compared with nothing"
    bare = advise(lists, [2], {})
    assert (bare.best, row(bare, 2).speedup, row(bare, 2).cost) == (None, None, None)
    assert "no cost is known for k = 2" in (bare.reason or "")
    none = CostLine(None, None, None, None, 0, "", "nothing")
    assert advise(lists_of([1, 2, 0, 2], 2, 30), [2], none).best is None


def test_requests_without_rounds_are_counted_not_hidden() -> None:
    lists = lists_of([1, 2, 0, 2], 2, 30)
    lists.emitted[:3] = 0
    found = advise(lists, [2], {2: Cost(1.2, 1.2, 1.2)})
    assert found.n == 27
    assert "3 of 30 requests have no usable per-round data" in (found.reason or "")
    lists.emitted[:] = 0
    assert "no per-round data" in (advise(lists, [2], {}).reason or "")
    assert advise_from_positions([], 0, [1], {}).reason == "no rounds"


def test_answers_in_the_same_case_count_as_one() -> None:
    """Asking a case again does not narrow the interval as another case does."""
    random = np.random.default_rng(1)
    accepted = random.integers(0, 5, 40 * 6)
    offsets = np.arange(41, dtype=np.int64) * 6
    emitted = np.add.reduceat(accepted, offsets[:-1]) + 6
    drafted = np.full(240, 4, np.int64)

    def width(copies: int, *, new: bool) -> float:
        rows = np.tile(np.arange(40), copies)
        lists = RoundLists(Ragged(accepted, offsets), Ragged(drafted, offsets), emitted, np.arange(40)).taken(rows)
        case = np.arange(40 * copies) if new else lists.case
        found = row(advise(RoundLists(lists.accepted, lists.drafted, lists.emitted, case), [4], {}), 4)
        return (found.e_high or 0) - (found.e_low or 0)

    assert width(4, new=False) == pytest.approx(width(1, new=False), rel=0.2)
    assert width(4, new=True) < 0.65 * width(4, new=False)


def test_shares_are_shares() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        advise(lists_of([1], 1, 2), [1], {}, decode_share=1.5)
