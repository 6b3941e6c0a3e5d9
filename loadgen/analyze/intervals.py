"""Intervals of the percentiles of whole stages and whole arms, ok view (docs/method.md, "Intervals of one arm")."""

from __future__ import annotations

import numpy as np

from loadgen.analyze.absolute import Chosen
from loadgen.analyze.columns import Ints
from loadgen.analyze.estimates import Estimates
from loadgen.analyze.metrics import column, population
from loadgen.analyze.statistics import quantile_bootstrap
from loadgen.analyze.summary import Arm, D, G

_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_OF_STREAMS = ("ttft_s", "ttft_from_due_s", "total_time_s", "total_time_from_due_s")


def with_intervals(arm: Arm, name: str, estimates: Estimates) -> Arm:
    """The same arm, its overall group and stages with intervals where there are blocks enough."""
    stages = [g if g.stage is None or g.task_type is not None else _filled(g, name, estimates) for g in arm.by]
    return arm.model_copy(update={"overall": _filled(arm.overall, name, estimates), "by": stages})


def _filled(group: G, name: str, estimates: Estimates) -> G:
    chosen = estimates.chosen(name, {} if group.stage is None else {"stage": group.stage})
    stream = {key: _one(getattr(group.stream, key), chosen, key) for key in _OF_STREAMS}
    whole = _one(group.non_stream.total_time_s, chosen, "non_stream_total_time_s")
    update = {
        "stream": group.stream.model_copy(update=stream),
        "non_stream": group.non_stream.model_copy(update={"total_time_s": whole}),
        "tpot_s": _one(group.tpot_s, chosen, "tpot_s"),
    }
    return group.model_copy(update=update)


def _one(found: D, chosen: Chosen, name: str) -> D:
    """Percentiles without enough data keep none."""
    rows = _with_number(chosen, name)
    values, block = column(chosen.side.frame, name)[rows], chosen.block[rows]
    intervals = {}
    for key, q in _QUANTILES.items():
        if getattr(found, key) is None or not len(rows):
            continue
        made = quantile_bootstrap(values, block, q, seed=chosen.seed)
        if made.low is not None and made.high is not None and np.isfinite([made.low, made.high]).all():
            intervals[key] = (made.low, made.high)
    return found.model_copy(update={"intervals": intervals}) if intervals else found


def _with_number(chosen: Chosen, name: str) -> Ints:
    frame, rows = chosen.side.frame, chosen.rows
    has = frame.ok & population(frame, name) & ~np.isnan(column(frame, name))
    return rows[has[rows]]
