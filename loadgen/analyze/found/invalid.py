"""Times of a client that could not keep up are not the servers'."""

from __future__ import annotations

from loadgen.analyze.arms import arm_data
from loadgen.analyze.validity import validity
from loadgen.record import RunData

_WORD = "invalid: "


def invalid_because(run: RunData) -> str | None:
    """The worst reason; None where the measurement is valid, or doubtful."""
    arms = {name: arm_data(run, name) for name in run.manifest.arms}
    found = validity(run, {name: (data.frame, data.windows) for name, data in arms.items()}, ())
    return next((reason.removeprefix(_WORD) for reason in found.reasons if reason.startswith(_WORD)), None)
