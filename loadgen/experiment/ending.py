"""What a run has come to, in one word."""

from __future__ import annotations

from typing import Literal

from loadgen.analyze import Summary
from loadgen.experiment.single import RunResult

Ending = Literal["pass", "fail", "inconclusive", "internal", "interrupted"]


def ending_of(result: RunResult, *, judged: bool = True) -> tuple[Ending, str | None]:
    """The word, and why where it is no verdict's. `judged`: an invalid measurement is no success, and a verdict counts;
    else a whole run is a pass (a demo)."""
    if result.state == "interrupted":
        return "interrupted", result.reason
    if result.state in ("failed", "inconclusive"):
        word: Ending = "inconclusive" if result.state == "inconclusive" else "internal"
        return word, f"the run was ended early: {result.reason}"
    if empty := without_success(result.summary):
        return "internal", f"no request of {', '.join(empty)} succeeded: why is in {result.path / 'anomalies.log'}"
    if judged and result.summary.validity.state == "invalid":
        failed = result.verdict is not None and result.verdict.verdict == "fail"
        why = result.summary.validity.reasons[0].removeprefix("invalid: ")
        return "fail" if failed else "inconclusive", f"the measurement is invalid: {why}"
    return (_worse(result), None) if judged else ("pass", None)


def _worse(result: RunResult) -> Ending:
    """Of the verdict and of what an experiment found; a pass where neither is there."""
    words: list[Ending] = [] if result.verdict is None else [result.verdict.verdict]
    if result.found is not None:
        words.append(result.found.state)
    return next((word for word in ("fail", "inconclusive") if word in words), "pass")


def without_success(summary: Summary) -> list[str]:
    """Arms that were asked and of which nothing was measured: such a run is no pass."""
    asked = {name: arm.overall.requests for name, arm in summary.arms.items()}
    return [name for name, requests in asked.items() if requests.sent and not requests.outcomes.get("ok")]
