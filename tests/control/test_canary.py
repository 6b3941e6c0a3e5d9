"""The canary's state by windows: fail on the third failing one in a row, and what ends that."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.control import CANARY_STATES, Canary, CanaryStanding, CanaryWindow, CheckId, CheckReading, reading_text

TTFT = CheckId("ttft_p95_ratio", "probes")
ACCEPTANCE = CheckId("acceptance", "counters")


def reading(low: float | None, value: float | None, high: float | None, check: CheckId = TTFT) -> CheckReading:
    """Of a check with the limit 1.25, which a ratio above it breaks; of acceptance 0.4, which one below breaks."""
    if check is ACCEPTANCE:
        return CheckReading(check, 0.4, "below", value, low, high, 30, "blocks", None if value else "idle")
    return CheckReading(check, 1.25, "above", value, low, high, 150, "requests", None if value else "too few requests")


GOOD, BAD, BEYOND = reading(0.9, 1.0, 1.1), reading(1.3, 1.5, 1.8), reading(1.1, 1.4, 1.6)
UNCLEAR, NONE = reading(0.9, 1.1, 1.4), reading(None, None, None)
SKIPPED = CheckReading(TTFT, 1.25, "above", 9.0, 8.0, 10.0, 150, "requests", "the first window", skipped=True)
LETTERS = {"g": GOOD, "b": BAD, "y": BEYOND, "u": UNCLEAR, "n": NONE, "s": SKIPPED}


def windows(canary: Canary, *of: Any, **also: Any) -> list[CanaryStanding]:
    """Each of `of`: the readings of a window, or one; pooled is GOOD unless told."""
    found = []
    for i, readings in enumerate(of):
        some = readings if isinstance(readings, tuple) else (readings,)
        told = {"pooled": (GOOD,), **also}
        found.append(canary.take(CanaryWindow(i + 1, 300.0 * i, 300.0 * (i + 1), some, **told)))
    return found


def states(letters: str) -> list[str]:
    return [standing.state for standing in windows(Canary([TTFT]), *(LETTERS[letter] for letter in letters))]


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("bbb", ["doubtful", "doubtful", "fail"]),
        ("bbgbb", ["doubtful", "doubtful", "ok", "doubtful", "doubtful"]),
        ("bbubb", ["doubtful", "doubtful", "ok", "doubtful", "doubtful"]),  # unclear, and itself within the limit
        ("bbybbb", ["doubtful"] * 5 + ["fail"]),  # beyond it, but not shown to be
        ("bbnbbb", ["doubtful", "doubtful", "no_data", "doubtful", "doubtful", "fail"]),
        ("bbsbbb", ["doubtful"] * 5 + ["fail"]),
        ("sbbb", ["no_data", "doubtful", "doubtful", "fail"]),
        ("nn", ["no_data", "no_data"]),
        ("gns", ["ok", "no_data", "no_data"]),
    ],
)
def test_the_third_failing_window_in_a_row_fails(letters: str, expected: list[str]) -> None:
    assert states(letters) == expected


@pytest.mark.parametrize(("low", "high", "interval"), [(8.0, 10.0, " [8, 10]"), (None, None, "")])
def test_why_a_window_is_not_judged_is_said_once(low: float | None, high: float | None, interval: str) -> None:
    assert reading_text(replace(SKIPPED, low=low, high=high)) == f"9{interval}; the first window"


@pytest.mark.parametrize(
    ("letters", "last"),
    [
        ("gg", "fail"),
        ("ggg", "ok"),
        ("gug", "ok"),
        ("gyggg", "ok"),
        ("ggbgg", "fail"),
        ("nn", "fail"),
        ("nnn", "no_data"),
        ("nngg", "fail"),
        ("ssss", "fail"),
        ("bbb", "fail"),
        ("gggbb", "doubtful"),
    ],
)
def test_a_fail_ends_by_three_good_windows_or_is_forgotten_by_three_without_data(letters: str, last: str) -> None:
    assert states(f"bbb{letters}")[-1] == last


@pytest.mark.parametrize(
    ("low", "value", "high", "result"),
    [
        (0.9, 1.0, 1.25, "pass"),
        (1.25, 1.3, 1.4, "unclear"),
        (1.2500001, 1.3, 1.4, "fail"),
        (inf, inf, inf, "fail"),
        (1.1, 1.2, inf, "unclear"),
        (nan, nan, nan, "no_data"),
        (None, nan, None, "no_data"),
        (0.1, nan, 0.2, "no_data"),
        (None, 1.0, None, "no_data"),
        (0.0, 0.0, 0.0, "pass"),
    ],
)
def test_a_window_passes_by_its_whole_interval(
    low: float | None, value: float | None, high: float | None, result: str
) -> None:
    """G14, G15: NaN, and a number without an interval, are neither a pass nor a fail."""
    assert reading(low, value, high).result == result


def test_a_lower_limit_is_mirrored() -> None:
    assert [
        reading(*numbers, ACCEPTANCE).result
        for numbers in ((0.4, 0.5, 0.6), (0.3, 0.4, 0.5), (0.2, 0.3, 0.39), (0.0, 0.0, 0.0), (nan, nan, nan))
    ] == ["pass", "unclear", "fail", "fail", "no_data"]
    assert [reading(0.1, v, 0.9, ACCEPTANCE).within for v in (0.4, 0.39, nan)] == [True, False, False]


def test_the_worst_check_is_the_state_and_each_is_counted_alone() -> None:
    canary = Canary([TTFT, ACCEPTANCE])
    low = reading(0.1, 0.2, 0.3, ACCEPTANCE)
    found = windows(canary, (BAD, low), (GOOD, low), (BAD, low), (BAD, low))
    assert [s.state for s in found] == ["doubtful", "doubtful", "fail", "fail"]
    assert [c.state for c in found[-1].checks] == ["doubtful", "fail"]
    assert [c.failing for c in found[-1].checks] == [2, 4]
    assert found[2].changed
    assert not found[3].changed
    assert (found[2].before, found[2].since_s, found[3].since_s) == ("doubtful", 900.0, 900.0)


def test_a_check_that_is_not_told_has_no_data() -> None:
    """G15: an idle canary, whose page lost the families: missing is not 0, and no pass."""
    [found] = windows(Canary([TTFT, ACCEPTANCE]), GOOD)
    assert (found.state, found.verdict) == ("no_data", "inconclusive")
    assert found.reasons == ("acceptance (counters) has no data: the window does not tell it",)


def test_ok_is_no_pass_until_it_is_shown() -> None:
    """A window's interval may hold the limit; all windows together must keep it."""
    [one] = windows(Canary([TTFT]), UNCLEAR, pooled=(UNCLEAR,))
    assert (one.state, one.verdict) == ("ok", "inconclusive")
    assert one.reasons == (
        "ttft_p95_ratio (probes) keeps its limit, but that is not shown yet: 1.1 [0.9, 1.4], limit at most 1.25, "
        "n = 150 requests",
    )
    [shown] = windows(Canary([TTFT]), UNCLEAR, pooled=(GOOD,))
    assert (shown.state, shown.verdict, shown.reasons) == ("ok", "pass", ())
    [nothing] = windows(Canary([TTFT]), GOOD, pooled=())
    assert nothing.verdict == "inconclusive"


@pytest.mark.parametrize(
    ("share", "least", "verdict", "said"),
    [
        (0.05, 0.05, "pass", ""),
        (0.049, 0.05, "inconclusive", "is 4.900%; at least 5.000%"),
        (0.0, 0.01, "inconclusive", "is 0.000%"),
        (None, 0.01, "inconclusive", "is nobody counts; at least"),
        (None, None, "pass", ""),
        (0.0, None, "pass", ""),
    ],
)
def test_too_small_a_share_of_the_traffic_is_inconclusive(
    share: float | None, least: float | None, verdict: str, said: str
) -> None:
    [found] = windows(
        Canary([TTFT], least), GOOD, share=share, share_reason=None if share is not None else "nobody counts"
    )
    assert (found.state, found.verdict) == ("ok", verdict)
    assert said in " ".join(found.reasons)


def test_reasons_say_the_numbers_worst_first() -> None:
    canary = Canary([ACCEPTANCE, TTFT])
    idle = reading(None, None, None, ACCEPTANCE)
    found = windows(canary, (idle, BAD), (idle, BAD), (idle, BAD), (idle, GOOD))
    assert found[2].reasons == (
        "ttft_p95_ratio (probes) failed in 3 windows in a row: 1.5 [1.3, 1.8], limit at most 1.25, n = 150 requests",
        "acceptance (counters) has no data: idle",
    )
    assert found[2].verdict == found[3].verdict == "fail"
    assert found[3].reasons[0].startswith("ttft_p95_ratio (probes) has failed and has not recovered: 1 [0.9, 1.1]")
    assert reading_text(NONE) == "too few requests"


def test_a_canary_has_checks_each_once() -> None:
    for checks in ([], [TTFT, TTFT]):
        with pytest.raises(ValueError, match="at least one check"):
            Canary(checks)


@given(st.lists(st.text("gbyuns", min_size=1, max_size=1), max_size=60))
def test_a_state_is_fail_only_after_three_failing_windows_in_a_row(letters: list[str]) -> None:
    found, text = states("".join(letters)), "".join(letters)
    for i, state in enumerate(found):
        assert state in CANARY_STATES
        if text[i] == "b" and text[: i + 1].endswith("bbb"):
            assert state == "fail"
        elif state == "fail":
            assert i > 0
            assert found[i - 1] == "fail"
        if state == "ok":
            assert text[i] in "gus"
        if state == "no_data":
            assert text[i] in "ns"
