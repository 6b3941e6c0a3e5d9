"""What a verdict is made from: answers to questions about a run."""

from __future__ import annotations

from typing import Protocol

from loadgen.analyze import Estimate, Query


class Evidence(Protocol):
    """The estimates of a run (`loadgen.analyze.Estimates`), or of two that are compared.

    Infinities are values: failed requests count as +∞. `value` None: not known. `low` and `high` None beside a value:
    too little data for an interval."""

    def estimate(self, query: Query, level: float) -> Estimate:
        """Never raises for absent data: `value` None and a `reason`."""
