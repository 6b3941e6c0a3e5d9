"""Values of the registry as people read them."""

from __future__ import annotations

from datetime import datetime

from loadgen.report import seconds

_TONES = {
    "finished": "good", "pass": "good", "valid": "good", "ok": "good",
    "failed": "bad", "fail": "bad", "invalid": "bad", "died": "bad",
    "interrupted": "warning", "stopped": "warning", "inconclusive": "warning", "doubtful": "warning",
    "running": "info", "queued": "info", "watching": "info", "starting": "info", "stopping": "info",
}  # fmt: skip


def tone(word: str | None) -> str:
    """good, bad, warning, info or nothing; never the only sign of what the word says."""
    return _TONES.get(word or "", "")


def moment(text: str | None) -> str:
    """A time of the registry (ISO 8601, UTC) to the second."""
    found = _read(text)
    return "" if found is None else found.strftime("%Y-%m-%d %H:%M:%S")


def took(started: str | None, ended: str | None) -> str:
    """How long it took; nothing where that is not known."""
    first, last = _read(started), _read(ended)
    return "" if first is None or last is None else seconds(max(0.0, (last - first).total_seconds()))


def _read(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
