"""What rollout controllers are answered, from what is known of a run or of a canary. Pure.

Types never change and nothing is null or NaN: a condition like `result == "pass"` must never meet a type that it cannot
compare, or the controller takes that for an error of the measurement and gives the rollout up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from loadgen.experiment import CanaryResult, silent_s
from loadgen.service.registry import RunRow

Word = Literal["pass", "fail", "inconclusive", "running"]
FlaggerHook = Literal[
    "confirm-rollout", "pre-rollout", "rollout", "confirm-traffic-increase", "confirm-promotion", "rollback",
    "post-rollout", "event",
]  # fmt: skip
CODES: Mapping[Word, int] = {"pass": 1, "fail": 0, "inconclusive": -1, "running": -2}
#: A canary's verdict is of its last windows: older than so many window lengths, it is no verdict of now.
STALE_WINDOWS = 3.0
_GATES = ("confirm-rollout", "confirm-traffic-increase", "confirm-promotion")
_STARTS = ("confirm-rollout", "pre-rollout", "rollout", "confirm-traffic-increase", "confirm-promotion")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`word`, and why in one sentence."""

    word: Word
    reason: str


def of_run(row: RunRow) -> Outcome:
    """Only a verdict is a pass: a run that was interrupted, refused, or had nothing to judge has shown nothing."""
    if not row.state.over:
        return Outcome("running", f"the run is {row.state.value}")
    if row.verdict == "fail":
        return Outcome("fail", row.reason or "a threshold failed")
    if row.verdict == "pass" and row.exit_code == 0:
        return Outcome("pass", row.reason or "every threshold passed")
    if row.verdict is None:
        return Outcome("inconclusive", row.reason or f"the run is {row.state.value}, and nothing was judged")
    return Outcome("inconclusive", row.reason or "neither a pass nor a fail is shown")


def of_canary(result: CanaryResult, now_s: float) -> Outcome:
    """The verdict of the newest windows; none where they are no windows of now, and no pass where nobody watches any
    more. `result` as it is true now: `active` is false of a monitor that died."""
    age_s = silent_s(result, now_s)
    if age_s > STALE_WINDOWS * result.window_s:
        what = "watching began" if result.window_ended is None else "the newest window ended"
        return Outcome("inconclusive", f"{what} {age_s:.0f} s ago: it says nothing of now")
    if not result.active and (result.window_ended is None or result.verdict != "fail"):
        how = "its monitor has died" if result.ended is None else "watching has ended"
        return Outcome("inconclusive", f"{how}: it says nothing of now")
    if result.window_ended is None:
        return Outcome("running", "no window has ended yet")
    return Outcome(result.verdict, "; ".join(result.reasons[:3]) or "every check is shown to keep its limit")


def starts(hook: FlaggerHook) -> bool:
    """Whether a hook asks for a run where there is none yet."""
    return hook in _STARTS


def flagger_answer(hook: FlaggerHook, outcome: Outcome | None, *, go_inconclusive: bool) -> tuple[int, str]:
    """Status and text. Flagger goes on at 200 and 202, and halts at anything else; what that means depends on the hook.
    A rollback hook is the other way round: 200 rolls back. None: no run was asked for."""
    if hook in ("post-rollout", "event"):
        return 200, "noted"
    if outcome is None:
        return 409, "no run was asked for"
    text = f"{outcome.word}: {outcome.reason}"
    if hook == "rollback":
        return (200 if outcome.word == "fail" else 409), text
    if outcome.word == "running":
        return (409 if hook in _GATES else 202), text
    go = outcome.word == "pass" or (outcome.word == "inconclusive" and go_inconclusive)
    return (200 if go else 412), text
