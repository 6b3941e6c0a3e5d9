"""PromQL of the panels.

A run's counters have no run_id: they are told apart by who exposed them, and when; runs at once of the service by their
`lane`, a label that others do not have. `run_info` is there from the run's start until a grace time after its end, so
`and on (job, instance, lane)` with it leaves the chosen run's own samples.
"""

from __future__ import annotations

RATE = "$__rate_interval"
#: Final gauges of a run go a grace time after its end: the last value within the dashboard's time range.
RANGE = "$__range"
ONE_RUN = 'run_id="$run_id"'
SOME_RUNS = 'run_id=~"$run_id"'
ARM = 'arm=~"$arm"'
#: Who counted drafts: always one of them, since they count the same work.
SOURCE = 'source="$source"'


def series(name: str, *matchers: str) -> str:
    """One of our own families (`loadgen.export.FAMILIES`), without its prefix."""
    return f"specload_{name}{{{','.join(matchers)}}}" if matchers else f"specload_{name}"


def of_run(vector: str, run: str = ONE_RUN) -> str:
    return f"{vector} and on (job, instance, lane) {series('run_info', run)}"


def summed(by: str, name: str, *matchers: str, run: str = ONE_RUN) -> str:
    """Increase a second of the chosen arms, summed by labels."""
    return f"sum by ({by}) ({of_run(f'rate({series(name, ARM, *matchers)}[{RATE}])', run)})"


def ratio(numerator: str, denominator: str) -> str:
    """Absent, not 0 or NaN, where nothing was counted."""
    return f"{numerator}\n/ ({denominator} > 0)"


def failed_share() -> str:
    """By arm, as `error_share` of the report: what our own drain or stop cut is no error (docs/verdict.md)."""
    failed, ended = (summed("arm", "requests_total", f'outcome!~"{no}"') for no in ("ok|aborted", "aborted"))
    return ratio(failed, ended)


def quantile(q: float, by: str, histogram: str, *matchers: str, run: str = ONE_RUN) -> str:
    return f"histogram_quantile({q:g}, {summed(f'{by}, le', f'{histogram}_bucket', *matchers, run=run)})"


def newest(by: str, name: str, *matchers: str) -> str:
    """A gauge now, of the chosen run."""
    return f"max by ({by}) ({of_run(series(name, ARM, *matchers))})"


def last(by: str, name: str, *matchers: str) -> str:
    """A gauge as it was last seen of the chosen run, which may have ended."""
    run = f"last_over_time({series('run_info', ONE_RUN)}[{RANGE}])"
    return f"max by ({by}) (last_over_time({series(name, ARM, *matchers)}[{RANGE}]) and on (job, instance, lane) {run})"


def final(by: str, name: str, *matchers: str, run: str = ONE_RUN) -> str:
    """A number of the finished run, from its records."""
    return f"max by ({by}) (last_over_time({series(name, run, *matchers)}[{RANGE}]))"


def with_k(value: str, *, drafting: bool = False) -> str:
    """`value`, of run_id and arm, with the label k; `drafting`: without the arms that draft nothing."""
    matchers = ('k!=""',) if drafting else ()
    return f"{value}\n* on (run_id, arm) group_left (k) {final('run_id, arm, k', 'run_info', *matchers, run=SOME_RUNS)}"


def recorded(name: str, scope: str, *matchers: str) -> str:
    """A series of grafana/prometheus/recording.yml."""
    own = f'scope="{scope}"'
    return f"{name}{{{','.join((own, *matchers))}}}"
