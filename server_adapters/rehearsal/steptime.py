"""Seconds of one engine step, from the work it holds."""

from __future__ import annotations

import random
from collections.abc import Sequence

from server_adapters.rehearsal.hardware import STEP_OVERHEAD_S, Roofline, log_normal_factor
from server_adapters.rehearsal.rows import Row
from server_adapters.rehearsal.scheduler import SequenceState, StepPlan
from server_adapters.rehearsal.types import EngineConfig, Switches

_LOOKUP_STEP_S = 2.0e-5  # prompt lookup on the CPU: per step,
_LOOKUP_REQUEST_S = 2.0e-6  # and per request in it

Proposal = tuple[SequenceState, list[int], list[Row | None]]


class StepClock:
    """Times of the steps of one engine. Jitter is one log-normal factor per step, seeded by the
    configuration."""

    def __init__(self, config: EngineConfig, roofline: Roofline) -> None:
        self._speculation = config.speculation
        self._roofline = roofline
        self._sigma = config.jitter
        self._speed = config.speed
        self._random = random.Random(config.seed)

    def times(self, plan: StepPlan, proposals: Sequence[Proposal], switches: Switches) -> tuple[float, float, float]:
        """Seconds of (drafting, target pass, whole step). The target verifies 1 + drafts tokens per
        decoding request and computes all prefill chunks in the same pass."""
        tokens = attended = context = drafters = longest = drafter_context = 0
        for sequence, drafts, _ in proposals:
            length, new = len(sequence.token_ids), 1 + len(drafts)
            tokens += new
            attended += new * length
            context += length
            if drafts:
                drafters += 1
                drafter_context += length
                longest = max(longest, len(drafts))
        prefilled = prefill_attended = 0
        for sequence, chunk in plan.prefills:
            prefilled += chunk
            prefill_attended += chunk * (sequence.num_computed + (chunk + 1) // 2)
            context += sequence.num_computed
        attended += prefill_attended
        verify_s = self._roofline.forward_s(self._roofline.target, tokens + prefilled, attended, context)
        draft_s = 0.0
        if switches.speculation_enabled and self._speculation is not None:
            draft_s = self._draft_s(drafters, longest, drafter_context, prefilled, prefill_attended)
        normal = self._random.gauss(0.0, 1.0)
        factor = log_normal_factor(self._sigma, normal) * switches.slowdown / self._speed
        return draft_s * factor, verify_s * factor, (draft_s + verify_s + STEP_OVERHEAD_S) * factor

    def _draft_s(self, drafters: int, longest: int, context: int, prefilled: int, prefill_attended: int) -> float:
        """k passes of the draft, one after the other; prefill chunks ride in the first, or in a pass of
        their own."""
        roofline, model = self._roofline, self._roofline.draft
        if model is None:
            return _LOOKUP_STEP_S + drafters * _LOOKUP_REQUEST_S
        if drafters == 0 and prefilled == 0:
            return 0.0
        first = roofline.forward_s(model, drafters + prefilled, context + prefill_attended, context)
        if longest <= 1:
            return first
        return first + (longest - 1) * roofline.forward_s(model, drafters, context, context)
