"""Whether a group's acceptance speaks for real traffic (docs/method.md, "Representative"; D26, D27)."""

from __future__ import annotations

import numpy as np

from loadgen.analyze.columns import Ints
from loadgen.analyze.frames import Frame


def why_not(frame: Frame, rows: Ints) -> str | None:
    """None where prompts are the user's own, each asked once a pass, and answers stop by themselves.

    A request without a requested input length has an own prompt.
    """
    if not len(rows):
        return "no request"
    reasons = []
    generated = int((~np.isnan(frame.input_len_requested[rows])).sum())
    if generated:
        reasons.append(f"{generated} of {len(rows)} prompts are generated")
    repeated = _repeated(frame, rows)
    if repeated:
        reasons.append(f"{repeated} of {len(rows)} requests repeat a prompt of the same pass")
    forced = int(frame.unnatural_stop[rows].sum())
    if forced:
        reasons.append(f"{forced} of {len(rows)} answers could not stop by themselves (ignore_eos or min_tokens)")
    return "; ".join(reasons) or None


def _repeated(frame: Frame, rows: Ints) -> int:
    """Requests beyond the first of a prompt in the same repeat and stage."""
    stages, cases = frame.stage_index.max() + 1, frame.case_no.max() + 1
    asked = (frame.repeat_idx[rows] * stages + frame.stage_index[rows]) * cases + frame.case_no[rows]
    return len(rows) - len(np.unique(asked))
