"""Bad requests under normal load (docs/anomalies.md)."""

from loadgen.experiment.anomalies.work import run_anomalies

__all__ = ["run_anomalies"]
