"""Bad requests on purpose: what can be sent to a server, and which answers to it are right (docs/anomalies.md)."""

from server_adapters.anomalies.catalogue import CATALOGUE, GROUPS, chosen
from server_adapters.anomalies.expected import KNOWN, expected_of
from server_adapters.anomalies.types import (
    Absent,
    Anomaly,
    Await,
    Ended,
    Expected,
    Leave,
    Pause,
    Script,
    Send,
    Setting,
    Shape,
    Step,
)

__all__ = [
    "CATALOGUE",
    "GROUPS",
    "KNOWN",
    "Absent",
    "Anomaly",
    "Await",
    "Ended",
    "Expected",
    "Leave",
    "Pause",
    "Script",
    "Send",
    "Setting",
    "Shape",
    "Step",
    "chosen",
    "expected_of",
]
