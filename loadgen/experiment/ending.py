"""What a run has come to, in one word."""

from __future__ import annotations

from typing import Literal

from loadgen.analyze import Summary
from loadgen.experiment.single import RunResult

Ending = Literal["pass", "fail", "inconclusive", "internal", "interrupted"]

_WORST: tuple[Ending, ...] = ("fail", "inconclusive")


def ending_of(result: RunResult, *, judged: bool = True) -> tuple[Ending, str | None]:
    """The word, and why where it is no verdict's. `judged`: an invalid measurement is no success, and a verdict counts;
    else a whole run is a pass (a demo). Of the verdict and of what an experiment found, the worse."""
    if result.state == "interrupted":
        return "interrupted", result.reason
    if result.state in ("failed", "inconclusive"):
        word: Ending = "inconclusive" if result.state == "inconclusive" else "internal"
        if result.found is not None and result.found.state == "fail":
            word = "fail"
        return word, f"the run was ended early: {result.reason}"
    if empty := without_success(result.summary):
        return "internal", f"no request of {', '.join(empty)} succeeded: why is in {result.path / 'anomalies.log'}"
    # a drill judges no time of an invalid measurement, but who was lost was lost; an access check sends no load;
    # answers are not made wrong by late stamps, and quality judges what bears on them
    measured = result.found is None or result.found.kind not in ("access", "quality")
    if judged and measured and result.summary.validity.state == "invalid":
        failed = (result.verdict is not None and result.verdict.verdict == "fail") or (
            result.found is not None and result.found.state == "fail"
        )
        why = result.summary.validity.reasons[0].removeprefix("invalid: ")
        return "fail" if failed else "inconclusive", f"the measurement is invalid: {why}"
    words = {one.verdict for one in (result.verdict,) if one} | {one.state for one in (result.found,) if one}
    worst: Ending = next((word for word in _WORST if word in words), "pass")
    return (worst if judged else "pass"), None


def worst_word(*words: str | None) -> str | None:
    """Of verdicts and of what experiments found: fail, inconclusive, pass; None where there is none of them."""
    return next((word for word in (*_WORST, "pass") if word in words), None)


def without_success(summary: Summary) -> list[str]:
    """Arms that were asked and of which nothing was measured: such a run is no pass."""
    asked = {name: arm.overall.requests for name, arm in summary.arms.items()}
    return [name for name, requests in asked.items() if requests.sent and not requests.outcomes.get("ok")]
