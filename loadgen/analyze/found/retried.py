"""What came of the suspicions: a symptom that an anomaly showed once, and what the tries with it and without it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from loadgen.analyze.found.anomaly_events import Told
from loadgen.analyze.summary.base import Model
from loadgen.control import SENDS, chance_of

Symptom = Literal["answer", "failed", "new", "all_failed", "stall"]


class Retried(Model):
    """`shown` of `sent` tries with the anomaly, and `shown_without` of `without` tries without it, showed it again, of
    `controls` planned. `state`: confirmed, by every try, with the chance `p` if the anomaly has no effect (before the
    correction for all suspicions); refuted: the tries ended with one that spoke against it; unfinished: the load ended
    first."""

    symptom: Symptom
    sent: int
    shown: int
    without: int
    shown_without: int
    controls: int
    state: Literal["confirmed", "refuted", "unfinished"]
    p: float | None = None


def retried_of(told: Told) -> dict[str, list[Retried]]:
    """By anomaly; of several repeats each by itself."""
    found: dict[str, list[Retried]] = {}
    if told.suspects is not None:
        for name, repeat, symptom in told.suspects["suspects"]:
            tries = [t for t in told.again if (t["name"], t["repeat"], t["symptom"]) == (name, repeat, symptom)]
            found.setdefault(str(name), []).append(_retried(symptom, tries, int(told.suspects["controls"])))
    return found


def _retried(symptom: Symptom, tries: list[Mapping[str, Any]], controls: int) -> Retried:
    sent = [bool(t["shown"]) for t in tries if t["sent"]]
    without = [bool(t["shown"]) for t in tries if not t["sent"]]
    refuted = not all(sent) or any(without)
    confirmed = not refuted and (len(sent), len(without)) == (SENDS, controls)
    return Retried(
        symptom=symptom, sent=len(sent), shown=sum(sent), without=len(without), shown_without=sum(without),
        controls=controls, state="refuted" if refuted else "confirmed" if confirmed else "unfinished",
        p=chance_of(controls) if confirmed else None,
    )  # fmt: skip


def untried(told: Told) -> Iterator[str]:
    """Anomalies whose symptom is known from events alone, where the run ended before any was tried again."""
    if told.suspects is None:
        for sent in told.sent:
            died = sent.outage is not None or (sent.down is not None and sent.down["died"])
            if not died and (sent.data.get("chance") or sent.seen in ("failed", "new")):
                yield sent.name
