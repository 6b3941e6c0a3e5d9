"""Speculation numbers of a group (docs/method.md, "Speculation"): α, the three E, coverage, positions, rollback.

Drafts come from the responses where the server gives statistics, else from the counters where the group has
its own. Steps come from the server's count where it can be trusted, else from the ledgers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from loadgen.analyze.anomalies import flags
from loadgen.analyze.columns import Ints
from loadgen.analyze.frames import Frame
from loadgen.analyze.groups import Group
from loadgen.analyze.representative import why_not
from loadgen.analyze.rollback import rollback
from loadgen.analyze.runs import rollback_runs
from loadgen.analyze.spec_counts import (
    Drafts,
    Steps,
    from_chunks,
    from_counters,
    from_step_counters,
    per_request,
)
from loadgen.analyze.summary import N, Speculation
from loadgen.analyze.values import CHUNK, PER_REQUEST, absent, exact, ratio
from loadgen.record import ArmFacts

NO_ROUNDS = "no round was made"
NO_DRAFTS = "nothing was drafted"


@dataclass(frozen=True)
class Setting:
    """What is known of the arm beforehand. `k`: longest draft, 0 without speculation, None = not known.

    `artefact`: see `Capabilities.counts_artefact`.

    `structured`: some task has its JSON Schema enforced, so rounds without a draft token left are possible.
    """

    facts: ArmFacts
    k: int | None
    artefact: bool | None
    structured: bool
    max_model_len: int | None

    @property
    def plain(self) -> bool:
        """Known not to speculate."""
        return self.facts.speculation is False

    @property
    def why_no_drafts(self) -> str:
        if self.plain:
            return "speculation is off on this arm"
        return self.facts.absent_columns.get("drafted_tokens", "no response and no counter of this group tells it")


@dataclass(frozen=True)
class _Sources:
    drafts: Drafts | None
    steps: Steps | None
    #: steps of the same requests or window as `drafts`
    both: Steps | None
    why_no_steps: str


def speculation(frame: Frame, group: Group, setting: Setting) -> Speculation:
    rows, counters = group.rows, group.counters
    found = _sources(frame, group, setting)
    reason = why_not(frame, rows)
    why = setting.why_no_drafts
    if not group.whole_windows and setting.facts.speculation is not False:
        why += "; counters cannot be split by task or length"
    return Speculation(
        **_counts(frame, rows, found, why, setting),
        **_per_step(found, why),
        **_positions(found.drafts, why),
        acceptance_rate_per_request_mean=_request_mean(frame, rows, found.drafts, why),
        rollback_rate=rollback(frame, rows, found.drafts, counters, setting.artefact, setting.structured),
        rollback_runs=rollback_runs(frame, rows, found.drafts, why, setting.artefact),
        representative=reason is None,
        representative_reason=reason,
        flags=flags(frame, group, found.drafts, setting.facts.speculation, setting.k, setting.max_model_len),
    )


def decode_steps(frame: Frame, group: Group, setting: Setting) -> Steps | str:
    """The server's own count first: merged chunks make the ledger's too small."""
    server = from_step_counters(frame, group.rows, group.counters)
    return server or from_chunks(frame, group.rows, setting.facts.chunk_unit, setting.k)


def _sources(frame: Frame, group: Group, setting: Setting) -> _Sources:
    rows = group.rows
    told = per_request(frame, rows)
    drafts = told or from_counters(frame, rows, group.counters)
    steps = decode_steps(frame, group, setting)
    if told is not None:
        with_stats = rows[frame.stats.told[rows]]
        both: Steps | str | None = from_chunks(frame, with_stats, setting.facts.chunk_unit, setting.k)
    else:
        both = from_step_counters(frame, rows, group.counters) if drafts is not None else None
    why = steps if isinstance(steps, str) else "no source tells rounds and steps of the same requests"
    return _Sources(
        drafts=drafts,
        steps=steps if isinstance(steps, Steps) else None,
        both=both if isinstance(both, Steps) and both.rounds is not None else None,
        why_no_steps=both if isinstance(both, str) else why,
    )


def _counts(frame: Frame, rows: Ints, found: _Sources, why: str, setting: Setting) -> dict[str, Any]:
    drafts = found.drafts
    if drafts is None:
        names = ("drafted", "rounds", "acceptance_rate", "e_verified", "drafted_per_output_token")
        return {**dict.fromkeys(names, absent(why)), "accepted": _emitted_accepted(frame, rows, found, why, setting)}
    part = drafts.note
    n, source = drafts.requests, drafts.source
    no_total = absent("the server does not tell drafted tokens", n, source)
    per_token = absent("output tokens of these requests are not known", n, source)
    if drafts.drafted is not None and drafts.output_tokens is not None:
        per_token = ratio(drafts.drafted, drafts.output_tokens, source, "no output token")
    return {
        "drafted": no_total if drafts.drafted is None else exact(drafts.drafted, n, source, part),
        "accepted": exact(drafts.accepted, n, source, part),
        "rounds": exact(drafts.rounds, n, source, part),
        "acceptance_rate": no_total
        if drafts.drafted is None
        else ratio(drafts.accepted, drafts.drafted, source, NO_DRAFTS, note=part),
        "e_verified": ratio(drafts.rounds + drafts.accepted, drafts.rounds, source, NO_ROUNDS, note=part),
        "drafted_per_output_token": per_token,
    }


def _emitted_accepted(frame: Frame, rows: Ints, found: _Sources, why: str, setting: Setting) -> N:
    """What the ledger knows: tokens beyond one a step. After trimming at stops, unlike the server's count."""
    steps = from_chunks(frame, rows, setting.facts.chunk_unit, setting.k)
    if setting.facts.speculation is False or isinstance(steps, str):
        return absent(why)
    return exact(steps.tokens - steps.steps, len(rows), CHUNK, "emitted-accepted tokens: after trimming at stops")


def _per_step(found: _Sources, why: str) -> dict[str, N]:
    """E_decode over all steps; the others over the requests or the window that tell both rounds and steps."""
    steps, both = found.steps, found.both
    decode = absent(found.why_no_steps)
    if steps is not None:
        decode = ratio(steps.tokens, steps.steps, steps.source, "no decode step", note=steps.note)
    names = ("e_emitted", "overshoot_tokens", "draft_coverage")
    if both is None or both.rounds is None or both.accepted is None or found.drafts is None:
        reason = why if found.drafts is None else found.why_no_steps
        return {"e_decode": decode, **dict.fromkeys(names, absent(reason))}
    source = found.drafts.source if found.drafts.source == both.source else f"{found.drafts.source}+{both.source}"
    emitted = both.tokens - (both.steps - both.rounds)
    return {
        "e_decode": decode,
        "e_emitted": ratio(emitted, both.rounds, source, NO_ROUNDS, note=both.note),
        "overshoot_tokens": exact(both.rounds + both.accepted - emitted, int(both.rounds), source, both.note),
        "draft_coverage": ratio(both.rounds, both.steps, source, "no decode step", note=both.note),
    }


def _positions(drafts: Drafts | None, why: str) -> dict[str, list[N]]:
    """a_j / D and a_j / a_{j−1}, a_{−1} = D."""
    if drafts is None or drafts.at_position is None:
        return {"per_position": [], "per_position_conditional": []}
    at, source = drafts.at_position, drafts.source
    before = (drafts.rounds, *at)
    return {
        "per_position": [ratio(a, drafts.rounds, source, NO_ROUNDS) for a in at],
        "per_position_conditional": [
            ratio(a, b, source, "the position before was never accepted" if j else NO_ROUNDS)
            for j, (a, b) in enumerate(zip(at, before, strict=False))
        ],
    }


def _request_mean(frame: Frame, rows: Ints, drafts: Drafts | None, why: str) -> N:
    """Mean of A/T over requests that drafted: one that never did has no acceptance (D8)."""
    if drafts is None:
        return absent(why)
    if drafts.source != PER_REQUEST:
        return absent("counters know no requests", source=drafts.source)
    mine = rows[frame.ok[rows] & (frame.stats.drafted[rows] > 0)]
    if not len(mine):
        return absent(NO_DRAFTS, source=PER_REQUEST)
    return exact(float(np.mean(frame.stats.accepted[mine] / frame.stats.drafted[mine])), len(mine), PER_REQUEST)
