"""A canary beside its baseline: estimates of one window, or of several together (docs/canary.md)."""

from loadgen.analyze.canary.counted import CountedArm, counted_estimates, traffic_share
from loadgen.analyze.canary.probed import Probe, probed_estimates

__all__ = ["CountedArm", "Probe", "counted_estimates", "probed_estimates", "traffic_share"]
