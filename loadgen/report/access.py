"""The table of access.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadgen.analyze import AccessResult, ExperimentResult
from loadgen.report.page import Row, Table

_TONES: Mapping[str, str] = {"pass": "good", "fail": "bad", "warning": "warning"}


def access_tables(found: ExperimentResult) -> Sequence[Table]:
    assert isinstance(found, AccessResult)
    rows = [
        Row([c.arm, c.place, c.check, c.state.replace("_", " "), c.seen, c.how], _TONES.get(c.state, ""))
        for c in found.checks
    ]
    note = f"{found.requests} requests (GET and OPTIONS alone) and some TLS handshakes were sent"
    return [Table("who is let in", ("arm", "where", "what", "", "seen", "how"), rows, 6, note)]
