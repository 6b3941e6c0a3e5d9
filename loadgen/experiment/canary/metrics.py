"""The canary as live metrics; every series that is known to come begins at 0."""

from __future__ import annotations

import math

from loadgen.control import CANARY_STATES, CanaryResult, CanaryStanding, CanaryVerdict, CheckId
from loadgen.drive import Outcome
from loadgen.export import Metrics
from loadgen.observe import CounterWindow, Scrape
from loadgen.scenario import CanaryKeys

#: As the metrics call them: the codes of a run's verdict.
_CODES: dict[CanaryVerdict | CanaryResult, float] = {
    "fail": 0, "pass": 1, "inconclusive": -1, "unclear": -1, "no_data": -1, "skipped": -1,
}  # fmt: skip
_CALLS = ("delivered", "failed", "dropped", "dry_run")
_SPECULATION = {"drafts": "verify_rounds_total", "draft_tokens": "draft_tokens_total",
                "accepted_tokens": "accepted_tokens_total"}  # fmt: skip
_GAUGES = {"running": "server_running_requests", "waiting": "server_waiting_requests"}
_POSITIONS = 16


class CanaryMetrics:
    """Nothing is told where nobody asked for metrics. `name` of the canary: its scenario's."""

    def __init__(self, metrics: Metrics | None, name: str, arms: tuple[str, str], keys: CanaryKeys) -> None:
        self._told, self._name, self._arms, self._keys = metrics, {"canary": name}, arms, keys

    def begin(self, canary_id: str, checks: tuple[CheckId, ...], at_s: float) -> None:
        if (told := self._told) is None:
            return
        name, keys = self._name, self._keys
        told.set("canary_info", 1, **name, canary_id=canary_id, arm=self._arms[0], baseline=self._arms[1])
        told.set("canary_active", 1, **name)
        told.set("canary_start_timestamp_seconds", at_s, **name)
        told.set("canary_window_seconds", keys.window_s, **name)
        told.set("canary_verdict", _CODES["inconclusive"], **name)
        for state in CANARY_STATES:
            told.set("canary_state", float(state == "no_data"), **name, state=state)
            told.declare("canary_windows_total", **name, state=state)
            told.declare("canary_transitions_total", **name, to=state)
        for check in checks:
            told.set("canary_check_limit", getattr(keys.limits, check.name), **self._check(check))
            told.declare("canary_check_failing_windows", **self._check(check))
        for hook in [*["webhook"] * bool(keys.webhooks), *["switch"] * (keys.on_fail == "switch")]:
            for result in _CALLS:
                told.declare("canary_hook_calls_total", **name, hook=hook, result=result)
        for arm in self._arms:
            for outcome in Outcome if keys.probes is not None else ():
                told.declare("canary_probes_total", **name, arm=arm, outcome=outcome.value)
            for counter in ("server_scrapes_total", "server_scrape_errors_total", "server_resets_total"):
                if keys.counters:
                    told.declare(counter, arm=arm)

    def window(self, standing: CanaryStanding) -> None:
        if (told := self._told) is None:
            return
        name = self._name
        told.set("canary_window_end_timestamp_seconds", standing.window.end_s, **name)
        told.set("canary_verdict", _CODES[standing.verdict], **name)
        told.set("canary_traffic_ratio", standing.window.share, **name)
        for state in CANARY_STATES:
            told.set("canary_state", float(state == standing.state), **name, state=state)
        told.inc("canary_windows_total", 1, **name, state=standing.state)
        if standing.changed:
            told.inc("canary_transitions_total", 1, **name, to=standing.state)
        for check in standing.checks:
            labels = self._check(check.check)
            told.set("canary_check_failing_windows", check.failing, **labels)
            told.set("canary_check_result", _CODES[check.reading.result], **labels)
            for number in ("value", "low", "high"):
                told.set(f"canary_check_{number}", _known(getattr(check.reading, number)), **labels)

    def probe(self, arm: str, outcome: str) -> None:
        if self._told is not None:
            self._told.inc("canary_probes_total", 1, **self._name, arm=arm, outcome=outcome)

    def call(self, hook: str, result: str) -> None:
        if self._told is not None:
            self._told.inc("canary_hook_calls_total", 1, **self._name, hook=hook, result=result)

    def look(self, look: Scrape, since: CounterWindow | None) -> None:
        """The arms' counters, as `specload watch` tells them: the same recording rules read them."""
        if (told := self._told) is None:
            return
        arm = look.arm
        told.inc("server_scrapes_total", arm=arm)
        told.inc("server_scrape_errors_total", float(look.page is None), arm=arm)
        told.set("server_scrape_duration_seconds", (look.answered_ns - look.asked_ns) / 1e9, arm=arm)
        for canonical, name in _GAUGES.items():
            values = [s.value for s in look.page.series if s.name == canonical] if look.page is not None else []
            told.set(name, sum(values) if values else None, arm=arm)
        if since is None:
            return
        labels = {"arm": arm, "task_type": "all", "source": "server_window"}
        told.inc("server_resets_total", since.restarts, arm=arm)
        for canonical, name in _SPECULATION.items():
            if canonical in since.deltas:
                told.inc(name, since.deltas[canonical], **labels)
        for position, n in enumerate(since.by_position.get("accepted_at", ())[:_POSITIONS]):
            told.inc("accepted_position_total", n, arm=arm, position=str(position), source="server_window")
        if "generation_tokens" in since.deltas:
            told.inc("output_tokens_total", since.deltas["generation_tokens"], arm=arm, task_type="all", stage="all")

    def end(self, at_s: float) -> None:
        """The last values stay; what is over is told apart by `canary_active` and the end's time."""
        if self._told is not None:
            self._told.set("canary_active", 0, **self._name)
            self._told.set("canary_end_timestamp_seconds", at_s, **self._name)

    def _check(self, check: CheckId) -> dict[str, str]:
        return {**self._name, "check": check.name, "source": check.source}


def _known(number: float | None) -> float | None:
    """+Inf is a number to Prometheus; NaN would be none."""
    return None if number is None or math.isnan(number) else number
