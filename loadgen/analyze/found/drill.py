"""What a kill-switch drill has found: `drill.json` (docs/drill.md)."""

from __future__ import annotations

from typing import Literal

from loadgen.analyze.found.base import ExperimentResult
from loadgen.analyze.summary import N
from loadgen.analyze.summary.base import Model

KnownBy = Literal["header", "statistics", "counters"]


class Routed(Model):
    """Requests sent between a pull and the next, by the side that answered them. `fallback_after_last`,
    `unknown_after_last`: of the fallback's, and of those whose answers do not tell, the ones sent after the last one of
    the speculating side."""

    speculating: int
    fallback: int
    unknown: int
    fallback_after_last: int
    unknown_after_last: int


class Losses(Model):
    """Requests that ended between a pull and the next, or the end of the load.

    `in_flight`: of them sent before the pull. `lost`: failed in any way that is not our own doing, by outcome and by
    HTTP status; `cut`: of them those of which tokens had come already. `aborted`: cut by our own drain;
    `client_faults`: our own machine's: of neither is it known whether it would have been answered, so `lost` is the
    least, and `lost_most`, which counts them, the most. `first_s`, `last_s`: when the first and the last were lost,
    from the pull. `before`, `lost_before`: requests that ended before the first pull, and of them the lost. `examples`:
    what was said, masked."""

    ended: int
    in_flight: int
    ok: int
    lost: int
    lost_most: int
    by_outcome: dict[str, int]
    by_status: dict[str, int]
    cut: int
    aborted: int
    client_faults: int
    first_s: float | None
    last_s: float | None
    before: int
    lost_before: int
    examples: list[str]


class Late(Model):
    """Whether latency was still above the level after `after_s`, the limit. `n` requests, the first after it, of median
    `median`: the stretch that stands out most. `p`: one-sided, of such a stretch at a steady level, corrected for all
    tests of the drill; null: not tested, for `reason`."""

    after_s: float
    median: float | None
    n: int
    p: float | None
    reason: str | None


class Settled(Model):
    """When latency has come to the level at which it stays. `at_s`: the first time from which every window of
    `window_requests` requests in a row has a median inside [`low`, `high`]; its `high`: the sending of that window's
    last request. `median`: of the reference, the second half of the time after the pull, of `n` requests. `late`: null
    where there is no limit or no level."""

    metric: Literal["ttft_s", "tpot_s"]
    at_s: N
    low: float | None
    high: float | None
    median: float | None
    n: int
    late: Late | None = None


class DrillPull(Model):
    """One pull of the switch. `at_s`: from the begin of the load; `until_s`: from the pull to the next one, or to the
    end of the load. Numbers in seconds from the pull; null where they are of the other direction.

    `last_routed_s`: sending of the last request that a speculating server answered; its `high`: of the first one after
    it that the fallback answered. Without a value: of the last that is known to be, at least, since later ones may be.
    `last_token_s`: last token from a speculating server. `last_round_s`: last round of verification, by counters.
    `first_routed_s`, `acceptance_s` (switching back): sending of the first request that a speculating server answered,
    and until accepted tokens were seen. `longest_ttft_s`: of requests sent after the pull."""

    number: int
    direction: Literal["off", "on"]
    at_s: float
    until_s: float
    took_s: float
    ok: bool
    said: str
    routed: Routed
    last_routed_s: N | None = None
    last_token_s: N | None = None
    last_round_s: N | None = None
    first_routed_s: N | None = None
    acceptance_s: N | None = None
    settled: list[Settled]
    longest_ttft_s: N
    losses: Losses


class CourseBin(Model):
    """A piece of the load, from its begin: requests sent in it by side, lost in it; medians of requests sent in it;
    accepted tokens per second, by the speculating servers' counters, else null."""

    from_s: float
    to_s: float
    speculating: int
    fallback: int
    unknown: int
    lost: int
    ttft_s: float | None
    tpot_s: float | None
    accepted_per_s: float | None


class DrillResult(ExperimentResult):
    """`known_by`: how a request's server was known; null: not at all. `served_by`: requests by what the gateway's
    header said, the commonest."""

    kind: Literal["drill"] = "drill"
    known_by: KnownBy | None
    known_note: str
    pulls: list[DrillPull]
    limits: dict[str, float]
    course: list[CourseBin]
    served_by: dict[str, int]
