"""What ended requests tell control at once: a bounded sample of their times, and whether they failed."""

from __future__ import annotations

from math import inf
from random import Random

from loadgen.control import LIVE_TIMES, Sample
from loadgen.drive.types import Attempt, Outcome

#: Requests told between two reports, at most: above it, a uniform sample of them.
KEPT = 256


def sample_of(attempt: Attempt) -> Sample | None:
    """The times as docs/method.md, "Per request", defines them; what was cut by a stop of ours is no sample.

    What our own drain cut has endless times, but the server did not fail it: `failed` is None."""
    if attempt.outcome is Outcome.ABORTED and attempt.error_class != "drain":
        return None
    cut, failed = attempt.outcome is Outcome.ABORTED, attempt.outcome is not Outcome.OK
    times = _streamed(attempt) if attempt.stream else _whole(attempt)
    if failed:
        times = dict.fromkeys(times, inf)
    told = tuple(times.get(name) for name in LIVE_TIMES)
    return Sample(attempt.segment, attempt.case.task_type, None if cut else failed, told)


def _streamed(attempt: Attempt) -> dict[str, float | None]:
    sent, due, first, last = attempt.sent_ns, attempt.due_ns, attempt.first_token_ns, attempt.last_token_ns
    decode_s, tokens = _span(first, last), (attempt.output_len or 0) - (attempt.first_tokens or 1)
    return {
        "ttft_s": _span(sent, first),
        "ttft_from_due_s": _span(due, first),
        "tpot_s": decode_s / tokens if decode_s is not None and tokens > 0 else None,
        "total_time_s": _span(sent, last),
        "total_time_from_due_s": _span(due, last),
    }


def _whole(attempt: Attempt) -> dict[str, float | None]:
    return {"non_stream_total_time_s": _span(attempt.sent_ns, attempt.end_ns)}


def _span(begin_ns: int | None, end_ns: int | None) -> float | None:
    """Seconds; a span that is not positive is no sample."""
    if begin_ns is None or end_ns is None or end_ns <= begin_ns:
        return None
    return (end_ns - begin_ns) / 1e9


class Recent:
    """Samples of measured requests since they were last taken; reservoir sampling keeps it small."""

    def __init__(self, kept: int = KEPT, seed: int = 0) -> None:
        self._kept = kept
        self._random = Random(seed)
        self._seen = 0
        self._samples: list[Sample] = []

    def add(self, attempt: Attempt) -> None:
        sample = sample_of(attempt) if attempt.case.phase == "measure" else None
        if sample is None:
            return
        self._seen += 1
        if len(self._samples) < self._kept:
            self._samples.append(sample)
        elif (place := self._random.randrange(self._seen)) < self._kept:
            self._samples[place] = sample

    def take(self) -> tuple[Sample, ...]:
        taken, self._samples, self._seen = tuple(self._samples), [], 0
        return taken
