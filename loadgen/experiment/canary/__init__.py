"""The canary monitor: long-lived, by counters, by paired probes, or both."""

from loadgen.experiment.canary.checks import Checks
from loadgen.experiment.canary.lines import begun_lines, end_lines, window_lines
from loadgen.experiment.canary.monitor import CanaryOptions, CanaryWatch, canary_keys, new_canary_id, run_canary
from loadgen.experiment.canary.reading import list_canaries, read_canary, read_windows, silent_s, true_now
from loadgen.experiment.canary.records import CanaryResult
from loadgen.experiment.canary.webhooks import signature

__all__ = [
    "CanaryOptions",
    "CanaryResult",
    "CanaryWatch",
    "Checks",
    "begun_lines",
    "canary_keys",
    "end_lines",
    "list_canaries",
    "new_canary_id",
    "read_canary",
    "read_windows",
    "run_canary",
    "signature",
    "silent_s",
    "true_now",
    "window_lines",
]
