"""What a round costs against a plain decode step: c(k) = 1 + a + b·k (docs/sweeps.md, "Methods").

Drafts of an autoregressive drafter are made one after the other, so each adds the same time; `a` is what comes with
speculation at any length (a wider verification, lost asynchronous scheduling). An observed cost, docs/method.md, "Where
the time goes: E / c".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from loadgen.analyze.columns import Floats, Ints
from loadgen.analyze.curves.lines import Line, fit_line
from loadgen.analyze.curves.observed import joined, observe

METHOD = "least squares of c on k, k >= 1"


@dataclass(frozen=True, slots=True)
class Cost:
    """c at one k, with its 95 % interval where it is known. `label`: measured, or estimate (from the line)."""

    value: float
    low: float | None
    high: float | None
    label: str = "measured"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A coefficient with its 95 % interval, None where no noise is known."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class CostLine:
    """c(k) = 1 + `intercept` + `per_draft` · k for k >= 1; c(0) is 1 by definition.

    None: not fitted, `reason` says why. `residual`: root mean square of what the line leaves. `fits`: the points depart
    from it no more than the repeats explain; None where that cannot be told. `n`: observations.
    """

    intercept: Fitted | None
    per_draft: Fitted | None
    residual: float | None
    fits: bool | None
    n: int
    method: str
    reason: str | None
    line: Line | None = None
    label: str = "estimate"

    def at(self, k: int) -> Cost | None:
        """c at any k; None where nothing was fitted."""
        if k == 0:
            return Cost(1.0, 1.0, 1.0, "measured")
        if self.line is None:
            return None
        found = _fitted(self.line.at(k), self.line.half(k))
        return Cost(found.value, found.low, found.high, self.label)


@dataclass(frozen=True, slots=True)
class Split:
    """Seconds of one round that go to drafting and to verifying: an estimate, never a measurement.

    None with the reason where a k sweep does not allow it."""

    draft_time_s: float | None
    draft_low_s: float | None
    draft_high_s: float | None
    verify_time_s: float | None
    reason: str | None
    label: str = "estimate"


def fit_cost(ks: Ints, c: Floats) -> CostLine:
    """`ks` (K,) draft lengths, `c` (K, R) ratios of mean decode-step times to those of k = 0, NaN absent.

    The row of k = 0, if given, is 1 by definition and not fitted. Raises ValueError for shapes that do not match or a k
    given twice.
    """
    lengths = np.asarray(ks, dtype=np.float64)
    drafting = lengths > 0
    seen = observe(lengths[drafting], np.asarray(c, dtype=np.float64)[drafting], positive=True)
    if len(seen.levels) < 2:
        few = f"not enough data: a line needs two draft lengths above 0, there are {len(seen.levels)}"
        return CostLine(None, None, None, None, seen.n, METHOD, joined(few, seen.note))
    line = fit_line(seen.levels, seen)
    intercept, per_draft = _fitted(line.intercept - 1, line.half(0.0)), _fitted(line.slope, line.half_slope)
    why = "not enough data for an interval: two draft lengths, each visited once" if line.variance is None else None
    bent = "the points do not follow a line" if line.bent else None
    fits = not line.bent if seen.dof and len(seen.levels) > 2 else None
    return CostLine(intercept, per_draft, line.residual, fits, seen.n, METHOD, joined(why, bent, seen.note), line)


def _fitted(value: float, half: float | None) -> Fitted:
    return Fitted(value, None, None) if half is None else Fitted(value, value - half, value + half)


def split_round(cost: CostLine, k: int, plain_step_s: float, *, autoregressive: bool) -> Split:
    """Drafting = b·k plain steps, the rest of c(k) is verification.

    Only for a drafter that makes its tokens one after the other (`autoregressive`; a tree or parallel drafter has no
    time per draft), where the points follow a line that rises, k >= 1. It takes verification to be as long at any k,
    which holds while the target is bound by memory: beyond, drafting is an upper bound. `plain_step_s`: mean decode
    step of k = 0, in seconds.
    """
    why = _no_split(cost, k, plain_step_s, autoregressive)
    at, per_draft = cost.at(k), cost.per_draft
    if why or at is None or per_draft is None or per_draft.low is None or per_draft.high is None:
        return Split(None, None, None, None, why or cost.reason)
    drafting, low, high = (b * k * plain_step_s for b in (per_draft.value, per_draft.low, per_draft.high))
    assumed = "taking verification to be as long at every k: drafting is an upper bound where the GPU is saturated"
    return Split(drafting, low, high, at.value * plain_step_s - drafting, assumed)


def _no_split(cost: CostLine, k: int, plain_step_s: float, autoregressive: bool) -> str | None:
    if not autoregressive:
        return "the drafter does not make its tokens one after the other: no time per draft"
    if k < 1:
        return "there is nothing to split without a draft"
    if not (math.isfinite(plain_step_s) and plain_step_s > 0):
        return "the time of a plain decode step is not known"
    if cost.per_draft is None or cost.intercept is None:
        return cost.reason
    if cost.fits is not True:
        return "that the cost follows a line was not shown: three draft lengths with repeats are needed"
    if cost.per_draft.low is None or cost.per_draft.low <= 0:
        return "the cost does not rise with the draft length beyond the noise"
    return None if cost.intercept.value > -1 else "the fitted verification is not above 0"
