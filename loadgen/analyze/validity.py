"""Is this a measurement of the server, or of the client and its troubles? (docs/method.md, "Validity")

An open question (too few samples, a server without metrics) is not held against a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from loadgen.analyze.frames import Frame
from loadgen.analyze.selfcheck import Part, clock_step, self_check
from loadgen.analyze.summary import N, Reconciliation, Validity
from loadgen.analyze.windows import SegmentWindow
from loadgen.record import RunData

State = Literal["valid", "doubtful", "invalid"]
Scope = Literal["run", "arm", "stage"]
Arms = Mapping[str, tuple[Frame, Sequence[SegmentWindow]]]
_BADNESS: Mapping[State, int] = {"valid": 0, "doubtful": 1, "invalid": 2}


@dataclass(frozen=True, slots=True)
class Limit:
    """When a number of the self-check makes a run doubtful or invalid: above the limit, of a `floor` below it.

    `says` is the sentence, {} its value. `scope`: it is held against each stage of each arm, each arm as a whole, or
    the run. `counted`: a share of things counted, where one alone is chance: it takes two to pass a limit above 0.
    `user_stamps_only`: where the kernel takes all stamps, it makes a run doubtful at most.
    """

    name: str
    doubtful: float
    invalid: float | None
    says: str
    scope: Scope = "stage"
    floor: bool = False
    counted: bool = False
    user_stamps_only: bool = False


LIMITS: tuple[Limit, ...] = (
    Limit("loop_lag_p50_s", 0.005, 0.05, "the event loop was mostly {} late", user_stamps_only=True),
    Limit("loop_stall_share", 0.05, 0.5, "the event loop stood still for {} of the time", user_stamps_only=True),
    Limit("cpu_share_mean", 0.8, 0.95, "the busiest client process used {} of its core"),
    Limit("send_lag_p99_s", 0.01, 0.1, "one request in 100 was sent {} or more after it was due"),
    Limit("late_share", 0.01, 0.1, "{} of the requests were sent more than 10 ms late", counted=True),
    Limit("delivered_rate_share", 0.995, 0.95, "only {} of the planned arrivals were sent in time",
          floor=True, counted=True),
    Limit("delivered_concurrency_share", 0.98, 0.9, "only {} of the asked concurrency was in flight", floor=True),
    Limit("dropped_share", 0.005, 0.05, "{} of the arrivals were dropped at max_in_flight", counted=True),
    Limit("capped_in_flight_share", 0.01, 0.1, "{} of the requests waited for max_in_flight", counted=True),
    Limit("capped_rate_share", 0.01, 0.1, "{} of the requests were held back by safety.max_requests_per_second",
          counted=True),
    Limit("wait_share", 0.01, 0.1, "requests spent {} of their time waiting for the safety cap"),
    Limit("connect_wait_share", 0.05, 0.25, "requests spent {} of their time waiting for their turn to connect"),
    Limit("coalesced_share", 0.01, 0.1, "{} of the chunks came with another and have no time of their own",
          counted=True),
    Limit("missing_stamps_share", 0.0, 0.01, "{} of the successful streams have no usable times", counted=True),
    Limit("user_stamps_share", 0.01, None, "{} of the streams were not wholly stamped by the kernel, the others were",
          counted=True),
    Limit("unstamped_read_share", 0.01, 0.1, "{} of the reads came without the kernel's stamp", counted=True),
    Limit("client_fault_share", 0.0, 0.01, "{} of the requests failed through the client's own fault", counted=True),
    Limit("success_share", 0.99, 0.9, "only {} of the requests succeeded", "arm", floor=True, counted=True),
    Limit("clock_step_s", 0.001, None, "the wall clock was set while the run went on, by {}", "run"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    state: State
    text: str


def validity(run: RunData, arms: Arms, reconciliation: Sequence[Reconciliation]) -> Validity:
    """Judge a run by its measured phases. `client` holds the numbers over all of them."""
    client = {**self_check(_whole(run, arms)), "clock_step_s": clock_step(run.manifest.anchors, run.health)}
    findings = [*_facts(run, arms, reconciliation), *_breaches(run, arms, client)]
    findings.sort(key=lambda found: -_BADNESS[found.state])
    return Validity(
        state=findings[0].state if findings else "valid",
        reasons=[f"{found.state}: {found.text}" for found in findings],
        client=client,
    )


def _whole(run: RunData, arms: Arms) -> Part:
    rows = [(frame, np.arange(frame.n)) for frame, _ in arms.values()]
    return Part(run.health, run.scrapes, rows, [w for _, windows in arms.values() for w in windows])


def _facts(run: RunData, arms: Arms, reconciliation: Sequence[Reconciliation]) -> Iterator[Finding]:
    """What needs no limit."""
    manifest = run.manifest
    if not any(frame.n for frame, _ in arms.values()):
        yield Finding("invalid", "no request was measured")
    if manifest.lost_workers:
        lost = f"{len(manifest.lost_workers)} of {manifest.workers} worker processes died"
        yield Finding("invalid", f"{lost}: from then on their share of the load was not asked")
    if manifest.state != "finished":
        why = f" ({manifest.stop_reason})" if manifest.stop_reason else ""
        yield Finding("doubtful", f"the run is not whole: its state is {manifest.state}{why}")
    yield from _unsettled(manifest.comparison.get("warmups") or [])
    busy = [w for _, windows in arms.values() for w in windows if w.idle is False]
    if busy:
        total = sum(len(windows) for _, windows in arms.values())
        yield Finding(
            "doubtful",
            f"in {len(busy)} of {total} segments the server was not idle before or after: other traffic, or work left "
            f"over, was measured too (first: {busy[0].phase.arm}, {busy[0].label})",
        )
    judged = [row for row in reconciliation if row.ok is not None]
    failed = [row for row in judged if row.ok is False]
    if failed:
        names = ", ".join(dict.fromkeys(row.name for row in failed))
        yield Finding("doubtful", f"in {len(failed)} of {len(judged)} checks two sources disagree: {names}")


def _unsettled(warmups: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Of stages and arms (each visit by itself), as the run noted them."""
    found = [w for w in warmups if w["settled"] is False]
    if found:
        yield Finding(
            "doubtful",
            f"after {len(found)} of {len(warmups)} warm-ups the server had not settled, so what was measured may hold "
            f"its start (first: {found[0]['arm']} at {found[0]['stage']}: {found[0]['reason']})",
        )


def _breaches(run: RunData, arms: Arms, client: Mapping[str, N]) -> Iterator[Finding]:
    """One finding for each limit passed: the worst place, and how many more there are."""
    numbers: Mapping[Scope, list[tuple[str, Mapping[str, N]]]] = {
        "run": [("", client)],
        "arm": [(f"{name}: ", self_check(part)) for name, part in _by_arm(run, arms)],
        "stage": [(f"{arm}, stage {stage}: ", self_check(part)) for arm, stage, part in _by_stage(run, arms)],
    }
    for limit in LIMITS:
        passed = []
        for place, found in numbers[limit.scope]:
            value, state = found[limit.name].value, judge(limit, found)
            if value is not None and state != "valid":
                passed.append((_BADNESS[state], -value if limit.floor else value, value, place, state))
        if passed:
            _, _, value, place, state = max(passed)
            more = f"; {len(passed) - 1} more like it" if len(passed) > 1 else ""
            yield Finding(state, f"{place}{limit.says.format(shown(limit, value))} ({_limits(limit)}{more})")


def judge(limit: Limit, numbers: Mapping[str, N]) -> State:
    """The state that this number alone gives; "valid" also where there is no number."""
    number = numbers[limit.name]
    if number.value is None:
        return "valid"
    kernel = numbers["user_stamps_share"].value == 0.0 if limit.user_stamps_only else False
    if limit.invalid is not None and not kernel and _passed(limit, number, limit.invalid):
        return "invalid"
    return "doubtful" if _passed(limit, number, limit.doubtful) else "valid"


def _passed(limit: Limit, number: N, bound: float) -> bool:
    value = number.value
    if value is None or not (value < bound if limit.floor else value > bound):
        return False
    offending = round((1 - value if limit.floor else value) * number.n)
    return not limit.counted or bound == 0 or offending >= 2


def shown(limit: Limit, value: float) -> str:
    """Milliseconds or per cent, at most four significant digits, by the number's name."""
    return f"{value * 1e3:.4g} ms" if limit.name.endswith("_s") else f"{value * 100:.4g} %"


def _limits(limit: Limit) -> str:
    word = "below" if limit.floor else "above"
    invalid = "" if limit.invalid is None else f", invalid {word} {shown(limit, limit.invalid)}"
    return f"{limit.name}: doubtful {word} {shown(limit, limit.doubtful)}{invalid}"


def _by_arm(run: RunData, arms: Arms) -> Iterator[tuple[str, Part]]:
    for name, (frame, windows) in arms.items():
        yield name, Part(run.health, run.scrapes, [(frame, np.arange(frame.n))], windows)


def _by_stage(run: RunData, arms: Arms) -> Iterator[tuple[str, str, Part]]:
    for name, (frame, windows) in arms.items():
        for stage in dict.fromkeys(w.phase.stage for w in windows):
            mine = [w for w in windows if w.phase.stage == stage]
            rows = np.flatnonzero(np.isin(frame.segment, [w.phase.segment for w in mine]))
            yield name, stage, Part(run.health, run.scrapes, [(frame, rows)], mine)
