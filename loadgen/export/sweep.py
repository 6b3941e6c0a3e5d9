"""The findings of a sweep as gauges: taken from its summary, computed nowhere else."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.exposition import choose_encoder

from loadgen.analyze import Curve, SweepSummary
from loadgen.errors import StorageError
from loadgen.export.store import Metrics

#: Numbers of a point that have a family of their own.
_POINTS = {
    "net_tokens_per_s": "sweep_net_tokens_per_second",
    "tpot_s_p95": "sweep_tpot_p95_seconds",
    "ttft_s_p95": "sweep_ttft_p95_seconds",
    "acceptance_rate": "sweep_acceptance_ratio",
    "e_decode": "sweep_tokens_per_step",
    "speedup": "sweep_speedup_ratio",
}


def tell_sweep(told: Metrics, summary: SweepSummary) -> None:
    """Every level of every curve; knee, break-even, best k, highest rate. What is not known has no series."""
    for curve in summary.curves:
        if curve.metric in _POINTS:
            _curve(told, summary.sweep_id, curve)
    common = {"sweep_id": summary.sweep_id}
    for knee in summary.knee:
        labels = {**common, "axis": knee.axis, "where": text_of(knee.where), "arm": knee.arm}
        told.set("sweep_knee", knee.knee.value, **labels)
    for stops in summary.stops_paying:
        labels = {**common, "axis": stops.axis, "where": text_of(stops.where), "arm": stops.arm}
        told.set("sweep_stops_paying", stops.level.value, **labels)
    for best in summary.best_k:
        told.set("sweep_best_k", best.k, **common, where=text_of(best.where))
    for rate in summary.max_rate:
        labels = {**common, "where": text_of(rate.where), "arm": rate.arm}
        told.set("sweep_max_rate_per_second", rate.rate_per_s.value, **labels)
    for drift in summary.drift:
        told.set("sweep_drift_ratio", drift.change.value, **common, arm=drift.arm, metric=drift.metric)


def _curve(told: Metrics, sweep_id: str, curve: Curve) -> None:
    for at in curve.points:
        labels = {
            "sweep_id": sweep_id,
            "axis": curve.axis,
            "level": _level(at.level),
            "where": text_of(curve.where),
            "arm": curve.arm,
        }
        told.set(_POINTS[curve.metric], at.value.value, **labels)


def text_of(where: dict[str, int | float | str]) -> str:
    """ "k=4,temperature=0.7"; empty where there is no other axis."""
    return ",".join(f"{name}={_level(value)}" for name, value in where.items())


def _level(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def write_sweep_openmetrics(summary: SweepSummary, path: Path) -> int:
    """The gauges as OpenMetrics, without timestamps: what the sweep found has no place in time. How many samples.
    Raises StorageError."""
    metrics = Metrics()
    tell_sweep(metrics, summary)
    for state, n in summary.totals.items():
        metrics.set("sweep_visits", n, sweep_id=summary.sweep_id, state=state)
    encode, _ = choose_encoder("application/openmetrics-text")
    text = encode(metrics.registry).decode()
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from None
    return sum(not line.startswith("#") for line in text.splitlines())
