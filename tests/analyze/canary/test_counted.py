"""What both arms' counters tell of a canary, from hand-made windows."""

from __future__ import annotations

from typing import Any

import pytest

from loadgen.analyze import CountedArm, Estimate, counted_estimates, traffic_share
from loadgen.observe import CounterWindow

BLOCKS = 24


def increase(**deltas: Any) -> CounterWindow:
    ends = deltas.pop("ends", {"stop": 10.0})
    at = deltas.pop("at", None)
    restarts = deltas.pop("restarts", 0)
    return CounterWindow(
        0, 1, {k: float(v) for k, v in deltas.items()}, {} if at is None else {"accepted_at": at},
        {} if ends is None else {"requests_finished": ends}, {}, restarts, (), 1, 1,
    )  # fmt: skip


def arm(*of: CounterWindow, artefact: bool | None = False) -> CountedArm:
    """The windows in turn, one a block, over 24 blocks."""
    return CountedArm.of([(i, of[i % len(of)]) for i in range(BLOCKS)] if of else [], artefact, "nobody looked")


SPEC = {"drafts": 10, "draft_tokens": 40, "accepted_tokens": 24, "at": (9.0, 7.0, 5.0, 3.0)}
TIMES = {"tpot_sum": 0.2, "tpot_count": 10, "ttft_sum": 1.0, "ttft_count": 10}
PLAIN = arm(increase(**TIMES))


def estimates(canary: CountedArm, baseline: CountedArm, *names: str) -> list[Estimate]:
    found = counted_estimates(canary, baseline, names, least_requests=20, least_draft_tokens=500)
    return [found[name] for name in names]


def test_exact_rates_and_ratios() -> None:
    canary = arm(increase(**SPEC, tpot_sum=0.1, tpot_count=10, ttft_sum=1.5, ttft_count=10))
    slower = arm(increase(**{**SPEC, **TIMES, "accepted_tokens": 32}))
    acceptance, ratio, rollback, tpot, ttft, errors, restarts = estimates(
        canary, slower, "acceptance", "acceptance_ratio", "rollback", "tpot_mean_ratio", "ttft_mean_ratio",
        "error_share", "restarts",
    )  # fmt: skip
    assert (acceptance.value, acceptance.n, acceptance.unit) == (0.6, 24, "blocks")
    assert ratio.value == pytest.approx(0.75)
    assert (rollback.value, rollback.reason) == (pytest.approx(0.7), None)
    assert (tpot.value, ttft.value) == (pytest.approx(0.5), pytest.approx(1.5))
    assert (errors.value, restarts.value) == (0.0, 0.0)
    assert errors.n == 480


def test_several_looks_of_a_block_and_pages_add_up() -> None:
    """D1: replicas have pages of their own."""
    looks = [(i % BLOCKS, increase(**SPEC)) for i in range(3 * BLOCKS)]
    [acceptance] = estimates(CountedArm.of(looks, False, ""), PLAIN, "acceptance")
    assert (acceptance.value, acceptance.n) == (0.6, BLOCKS)


def test_an_idle_canary_has_no_data() -> None:
    """G15: a page without traffic has rates of nothing, which are not 0."""
    idle = arm(
        increase(drafts=0, draft_tokens=0, accepted_tokens=0, at=(0.0,), ends={"stop": 0.0}, **dict.fromkeys(TIMES, 0))
    )
    for found in estimates(idle, PLAIN, "acceptance", "rollback", "tpot_mean_ratio", "error_share"):
        assert (found.value, found.low) == (None, None)
        assert "needed" in (found.reason or "")
    assert estimates(idle, PLAIN, "restarts")[0].value == 0


def test_a_server_without_the_counters_has_no_data() -> None:
    """D5, D8: no family is not 0; and nobody who looked is not 0 either."""
    acceptance, errors = estimates(arm(increase(ends=None)), PLAIN, "acceptance", "error_share")
    assert acceptance.reason == "accepted_tokens: the server's metrics do not hold it"
    assert errors.reason == "canary: the server does not count its requests"
    for found in estimates(arm(), PLAIN, "acceptance", "rollback", "ttft_mean_ratio", "error_share", "restarts"):
        assert found.value is None
        assert "nobody looked" in (found.reason or "")


def test_positions_that_are_not_told_give_no_rollback() -> None:
    [rollback] = estimates(arm(increase(**{**SPEC, "at": None})), PLAIN, "rollback")
    assert rollback.reason == "the counters do not tell positions"


def test_artefacts_are_no_rollbacks() -> None:
    """D16: a method that counts k drafts in every round shows an upper bound only."""
    [suspect] = estimates(arm(increase(**SPEC), artefact=True), PLAIN, "rollback")
    assert (suspect.value, suspect.reason) == (0.0, "at least; at most 0.7")
    [unknown] = estimates(arm(increase(**SPEC), artefact=None), PLAIN, "rollback")
    assert unknown.value == 0.0


def test_looks_that_contradict_each_other_say_nothing_of_their_block() -> None:
    torn = increase(**{**SPEC, "at": (5.0, 7.0, 5.0, 3.0)})
    [rollback] = estimates(arm(torn, increase(**SPEC)), PLAIN, "rollback")
    assert (rollback.value, rollback.reason) == (pytest.approx(0.35), "at least; at most 0.85")


def test_errors_are_the_servers_alone() -> None:
    """What clients gave up is left out; refused admissions count."""
    canary = arm(increase(ends={"stop": 6.0, "length": 2.0, "error": 2.0, "abort": 90.0}))
    [errors] = estimates(canary, PLAIN, "error_share")
    assert errors.value == pytest.approx(0.2)


def test_restarts_are_counted() -> None:
    canary = arm(increase(**SPEC, restarts=1), *[increase(**SPEC)] * 23)
    [restarts] = estimates(canary, PLAIN, "restarts")
    assert (restarts.low, restarts.value, restarts.high) == (1.0, 1.0, 1.0)
    assert canary.restarts == 1


@pytest.mark.parametrize(
    ("ends", "probes", "share", "said"),
    [
        ({"stop": 1.0}, (0, 0), 1 / 11, None),
        ({"stop": 10.0}, (0, 0), 0.5, None),
        ({"stop": 10.0}, (120, 120), 0.5, None),
        ({"stop": 1.0, "abort": 50.0}, (0, 0), 1 / 11, None),
        ({"stop": 0.0}, (0, 0), 0.0, None),
        ({"stop": 5.0}, (115, 235), None, "not known (10 requests but our own; at least 20 are needed)"),
        (None, (0, 0), None, "not known (canary: its requests are not counted)"),
    ],
)
def test_the_canarys_share_of_the_traffic(
    ends: dict[str, float] | None, probes: tuple[int, int], share: float | None, said: str | None
) -> None:
    found, why = traffic_share(arm(increase(ends=ends)), PLAIN, probes, 20)
    assert found == (None if share is None else pytest.approx(share))
    assert why == said


def test_nobody_looked_is_no_share() -> None:
    assert traffic_share(arm(), PLAIN, (0, 0), 20) == (None, "not known (canary: nobody looked)")
