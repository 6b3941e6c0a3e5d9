"""Who is let in: from the looks of an access check to access.json (docs/access.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from loadgen.analyze.conditions import of_run
from loadgen.analyze.found.base import ExperimentResult, State
from loadgen.analyze.summary import Finding
from loadgen.analyze.summary.base import Model
from loadgen.record import RunData

AccessWord = Literal["pass", "fail", "warning", "info", "not_shown"]
#: What must be known of every server for a pass, besides the keys of the route that is asked (`key_checks`).
NEEDED = ("key_missing", "key_wrong", "transport")
_SEVERITY: Mapping[AccessWord, Literal["good", "info", "warning", "bad"]] = {
    "pass": "good", "fail": "bad", "warning": "warning", "info": "info", "not_shown": "info"
}  # fmt: skip


class AccessCheck(Model):
    """One look. `place`: the server or page. `seen`: what came back. `how`: what was asked for it. `not_shown`: cannot
    be known from here, for the reason in `seen`."""

    arm: str
    place: str
    check: str
    state: AccessWord
    seen: str
    how: str


class AccessResult(ExperimentResult):
    """access.json. `requests`: HTTP requests that were sent for it, at most 50."""

    kind: Literal["access"] = "access"
    checks: list[AccessCheck]
    requests: int


def access_found(run: RunData) -> AccessResult:
    checks = [AccessCheck.model_validate(e.data) for e in run.events if e.name == "access"]
    asked = max((int(e.data["requests"]) for e in run.events if e.name == "access_over"), default=0)
    faults = [c for c in checks if c.state == "fail"]
    needed = dict.fromkeys((*NEEDED, *(k for arm in run.manifest.arms.values() for k in key_checks(arm.endpoint))))
    missing = [c for c in checks if c.state == "not_shown" and c.check in needed]
    unmade = [name for name in needed if name not in {c.check for c in checks}]
    state: State = "fail" if faults else "inconclusive" if missing or unmade else "pass"
    return AccessResult(
        run_id=run.manifest.run_id,
        state=state,
        reasons=[*(_sentence(c) for c in (*faults, *missing)), *_unmade(checks, unmade)],
        findings=[_finding(c) for c in checks if c.state in ("fail", "warning")],
        conditions=dict(of_run(run)),
        checks=checks,
        requests=asked,
    )


def key_checks(endpoint: str) -> tuple[str, str]:
    """Checks of who is let in to completions or chat."""
    return f"{endpoint}_key_missing", f"{endpoint}_key_wrong"


def _unmade(checks: Sequence[AccessCheck], names: Sequence[str]) -> list[str]:
    if not checks:
        return ["nothing was looked at"]
    return [f"not looked at: {', '.join(names)}"] if names else []


def _sentence(check: AccessCheck) -> str:
    return f"{check.arm}: {check.place}: {check.check}: {check.seen}"


def _finding(check: AccessCheck) -> Finding:
    return Finding(
        id=f"access_{check.check}", text=f"{_sentence(check)} ({check.how})", numbers={},
        conditions={"arm": check.arm, "place": check.place}, severity=_SEVERITY[check.state],
    )  # fmt: skip
