"""Numbers of one request that follow from its stamps and counts (docs/method.md, "Per request"). Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from loadgen.drive import Attempt, Outcome
from server_adapters.base import SpecStats
from server_adapters.rounds import Rollbacks, from_histogram, from_steps

NS_PER_S = 1e9
_NOT_STREAMED = "not streamed"
_NO_CHUNKS = dict.fromkeys(
    ("chunk_times_s", "chunk_tokens", "arrival_no", "chunk_bytes", "coalesced_chunks"), _NOT_STREAMED
)
_NO_SPECULATION = dict.fromkeys(
    (
        "drafted_tokens",
        "accepted_tokens",
        "verify_rounds",
        "accepted_histogram",
        "spec_source",
        "rollback_count",
        "rollback_low",
        "rollback_high",
    ),
    "the answer carried no speculation statistics",
)
_ARTEFACT = "this method's drafted counts are k × rounds by construction"
_MAYBE_ARTEFACT = "the speculation method is unknown, so its drafted counts may be k × rounds by construction"


@dataclass(slots=True)
class Derived:
    """Seconds and counts. `absent`: column → why it is null, here and of the columns taken over as they are."""

    ttft_s: float | None = None
    ttft_from_due_s: float | None = None
    ttft_answer_s: float | None = None
    total_time_s: float | None = None
    total_time_from_due_s: float | None = None
    tpot_s: float | None = None
    first_tokens: int | None = None
    first_tokens_assumed: bool | None = None
    rollback_count: int | None = None
    rollback_low: int | None = None
    rollback_high: int | None = None
    draft_len: int | None = None
    absent: dict[str, str] = field(default_factory=dict)


def derive(
    attempt: Attempt, arm_k: int | None, counts_artefact: bool | None, zero_length_rounds: bool = False
) -> Derived:
    """`arm_k`: draft length of the arm. `counts_artefact`: drafted = k × rounds by construction there, None =
    method unknown. `zero_length_rounds`: rounds without a draft token left are possible (structured output)."""
    out = Derived()
    _latency(attempt, out)
    _total_time(attempt, out)
    _tpot(attempt, out)
    _chunks(attempt, out)
    _speculation(attempt.spec, arm_k, out)
    if attempt.spec is not None:
        _rollbacks(attempt.spec, counts_artefact, zero_length_rounds, out)
    return out


def last_ns(attempt: Attempt) -> int | None:
    """When the answer was there: last token; not streamed: end of the body of a whole answer."""
    if attempt.stream:
        return attempt.last_token_ns
    return attempt.end_ns if attempt.outcome is Outcome.OK else None


def _span(name: str, begin: int | None, end: int | None, why_no_end: str, out: Derived) -> float | None:
    """end − begin in seconds. A span that is not positive is an invalid sample: absent, never clamped."""
    if end is None:
        out.absent[name] = why_no_end
    elif begin is None:
        out.absent[name] = "no due time" if name.endswith("from_due_s") else "not sent"
    elif end <= begin:
        out.absent[name] = f"invalid sample: {end - begin} ns is not a positive duration"
    else:
        return (end - begin) / NS_PER_S
    return None


def _latency(attempt: Attempt, out: Derived) -> None:
    first, answer = (attempt.first_token_ns, attempt.first_answer_ns) if attempt.stream else (None, None)
    why = "no token came" if attempt.stream else _NOT_STREAMED
    out.ttft_s = _span("ttft_s", attempt.sent_ns, first, why, out)
    out.ttft_from_due_s = _span("ttft_from_due_s", attempt.due_ns, first, why, out)
    why = "no token of the answer came" if attempt.stream else _NOT_STREAMED
    out.ttft_answer_s = _span("ttft_answer_s", attempt.sent_ns, answer, why, out)


def _total_time(attempt: Attempt, out: Derived) -> None:
    last = last_ns(attempt)
    why = "no token came" if attempt.stream else f"no whole answer (outcome {attempt.outcome})"
    out.total_time_s = _span("total_time_s", attempt.sent_ns, last, why, out)
    out.total_time_from_due_s = _span("total_time_from_due_s", attempt.due_ns, last, why, out)


def _tpot(attempt: Attempt, out: Derived) -> None:
    first, last, tokens = attempt.first_token_ns, attempt.last_token_ns, attempt.output_len
    if not attempt.stream or first is None or last is None:
        why = "no token came" if attempt.stream else _NOT_STREAMED
        out.absent |= dict.fromkeys(("tpot_s", "first_tokens", "first_tokens_assumed"), why)
        return
    out.first_tokens_assumed = attempt.first_tokens is None
    out.first_tokens = 1 if attempt.first_tokens is None else attempt.first_tokens
    if tokens is None:
        out.absent["tpot_s"] = "no honest count of output tokens"
    elif tokens <= out.first_tokens:
        out.absent["tpot_s"] = f"no token after the first chunk ({tokens} in all, {out.first_tokens} in it)"
    elif last == first:
        out.absent["tpot_s"] = "all output came in one arrival"
    else:
        span = _span("tpot_s", first, last, "", out)
        out.tpot_s = None if span is None else span / (tokens - out.first_tokens)


def _chunks(attempt: Attempt, out: Derived) -> None:
    """The columns themselves are made of many ledgers at once: `loadgen.record.chunks`."""
    if not attempt.stream:
        out.absent |= _NO_CHUNKS
    elif attempt.sent_ns is None:
        out.absent["chunk_times_s"] = "not sent"


def _speculation(spec: SpecStats | None, arm_k: int | None, out: Derived) -> None:
    out.draft_len = arm_k if spec is None or spec.k is None else spec.k
    if out.draft_len is None:
        out.absent["draft_len"] = "neither the answer nor the server's configuration tells k"
    if spec is None:
        out.absent |= _NO_SPECULATION
        return
    if spec.drafted is None:
        out.absent["drafted_tokens"] = "the server does not tell how many tokens were drafted"
    if spec.histogram is None:
        out.absent["accepted_histogram"] = "the server does not tell rounds by accepted count"


def _rollbacks(spec: SpecStats, artefact: bool | None, zero_length: bool, out: Derived) -> None:
    """Exact only where one value is possible and the drafted counts are no artefact of the method; a count of k
    in every round may be one, so that a rejection in it proves no rollback (docs/method.md, "Rollback")."""
    found = _bounds(spec, zero_length)
    if isinstance(found, str):
        out.absent |= dict.fromkeys(("rollback_count", "rollback_low", "rollback_high"), found)
        return
    out.rollback_low, out.rollback_high = found.low, found.high
    if found.high > 0 and _may_be_artefact(spec, artefact, out.draft_len):
        out.rollback_low = 0
        out.absent["rollback_count"] = _ARTEFACT if artefact else _MAYBE_ARTEFACT
    elif found.determined:
        out.rollback_count = found.low
    else:
        out.absent["rollback_count"] = "drafts of different lengths: only bounds follow from the counts"


def _bounds(spec: SpecStats, zero_length: bool) -> Rollbacks | str:
    """Or why there are none."""
    try:
        if spec.step_accepted is not None and spec.step_drafted is not None:
            return from_steps(spec.step_accepted, spec.step_drafted)
        if spec.drafted is None:
            return "the server does not tell how many tokens were drafted"
        if spec.histogram is None:
            return "the server tells neither rounds by accepted count nor rounds one by one"
        return from_histogram(spec.histogram, spec.drafted, zero_length_rounds=zero_length)
    except ValueError as error:
        return f"the server's counts contradict each other: {error}"


def _may_be_artefact(spec: SpecStats, artefact: bool | None, k: int | None) -> bool:
    """A draft shorter than k was counted as what it was."""
    if artefact is None:
        return k is None or spec.drafted is None or spec.drafted >= k * spec.rounds
    return artefact
