"""Items that experiments of their own show, and files of the canary and of the audit log (docs/checklist.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loadgen.analyze import (
    AccessResult,
    AnomaliesArm,
    AnomaliesResult,
    DrillPull,
    DrillResult,
    N,
    Stability,
    key_checks,
)
from loadgen.verdict.checklist.evidence import CanaryEvidence, RunEvidence
from loadgen.verdict.checklist.model import ItemState
from loadgen.verdict.checklist.seen import Found, Seen, not_shown, speculates
from loadgen.verdict.checklist.targets import addresses_of

#: A shorter soak is none that shows stability.
SOAK_S = 1800.0
#: What must have been followed in it, in so many windows.
FOLLOWED, WINDOWS = ("acceptance_rate", "tpot_s", "error_share"), 40
#: Groups of anomalies of which each must have been sent.
GROUPS = ("too_long", "empty", "json", "types", "text", "range", "disconnect", "ids")
#: And the one that is longer than the drafter takes.
DRAFTER = "long_for_drafter"
_STATES: Mapping[str, ItemState] = {"pass": "pass", "fail": "fail", "inconclusive": "not_shown"}


def quality(seen: Seen) -> Found:
    return _experiment(seen, "quality", "no quality run was given (specload quality)")


def anomalies(seen: Seen) -> Found:
    found = _experiment(seen, "anomalies", "no run of experiment: anomalies was given")
    run = _newest(seen, "anomalies")
    if found.state != "pass" or run is None or not isinstance(run.found, AnomaliesResult):
        return found
    arms = [arm for arm in run.found.arms if run.arms[arm.arm].speculation is not False]
    numbers = {"sent": float(sum(arm.sent for arm in run.found.arms))}
    missing = [group for group in GROUPS if any(group not in {row.group for row in arm.rows} for arm in arms)]
    missing += [DRAFTER] if not all(map(_beyond_drafter, arms)) and "too_long" not in missing else []
    if missing:
        why = f"{run.run_id} sent none of {', '.join(missing)} (anomalies.include, exclude)"
        return Found("not_shown", why, found.evidence, numbers)
    return Found("pass", found.why, found.evidence, numbers)


def _beyond_drafter(arm: AnomaliesArm) -> bool:
    """Sent, or known to have nothing to hit."""
    return any(row.name == DRAFTER for row in arm.rows) or any(
        one.name == DRAFTER and not one.unknown for one in arm.skipped
    )


def kill_switch(seen: Seen) -> Found:
    found = _experiment(seen, "drill", "no run of experiment: drill was given")
    run = _newest(seen, "drill")
    if run is None or not isinstance(run.found, DrillResult):
        return found
    lost, most = (sum(getattr(pull.losses, key) for pull in run.found.pulls) for key in ("lost", "lost_most"))
    numbers: dict[str, float | None] = {
        "pulls": float(len(run.found.pulls)), "lost": float(lost), "lost_most": float(most)
    }  # fmt: skip
    numbers |= {key: _most_s(run.found.pulls, key) for key in ("last_routed_s", "last_token_s", "last_round_s")}
    why = found.why
    if found.state == "pass":
        why = f"{lost} requests lost in {_pulls(run.found.pulls)}; {_last(numbers)}"
    return Found(found.state, why, found.evidence, numbers)


def _pulls(pulls: Sequence[DrillPull]) -> str:
    there = sum(pull.direction == "off" for pull in pulls)
    back, words = len(pulls) - there, f"{there} pull{'' if there == 1 else 's'}"
    if not back:
        return words
    return f"{words} there and back" if back == there else f"{words} there and {back} back"


def _most_s(pulls: Sequence[DrillPull], key: str) -> float | None:
    """Of all pulls off the upper bound, the value itself where it has no other; None where one of them has neither."""
    told: list[N | None] = [getattr(pull, key) for pull in pulls if pull.direction == "off"]
    most = [None if n is None else n.high if n.high is not None else n.value for n in told]
    known = [s for s in most if s is not None]
    return max(known) if known and len(known) == len(most) else None


def _last(numbers: Mapping[str, float | None]) -> str:
    """What the drill has shown of the end of speculation."""
    routed, rounds = numbers["last_routed_s"], numbers["last_round_s"]
    if routed is not None:
        return f"the last request was routed to the speculating side after at most {routed:.3g} s"
    if rounds is not None:
        return (
            f"the last round of verification came after at most {rounds:.3g} s, by counters; which request was the "
            "last is not known"
        )
    return "when the last request was routed there is not known"


def stability(seen: Seen) -> Found:
    run = _newest(seen, "soak")
    if run is None:
        return seen.without("no soak was given (experiment: soak)", "soak")
    if (why := run.unusable) is not None:
        return not_shown(why, run.run_id)
    candidates = {name for name, facts in run.arms.items() if facts.speculation is not False}
    parts = [s for s in run.summary.stability if s.arm in candidates] if isinstance(run.summary.stability, list) else []
    if not parts:
        return not_shown(f"{run.run_id} has no stage of constant load of a speculating arm", run.run_id)
    seconds = min(part.seconds for part in parts)
    numbers: dict[str, float | None] = {"seconds": seconds, "drifts": float(sum(map(_worse, parts)))}
    drifts = [s.drift.text for part in parts for s in part.series if s.drift and s.drift.matters and s.drift.worse]
    if drifts:
        return Found("fail", "; ".join(drifts[:3]), (run.run_id,), numbers)
    if run.verdict is not None and run.verdict.verdict == "fail":
        broken = next((r.sentence for r in run.verdict.thresholds if r.ok is False), "its verdict is fail")
        return Found("fail", f"steady, and not good: {broken}", (run.run_id,), numbers)
    if any(part.state == "too_short" for part in parts) or seconds < SOAK_S:
        why = f"{seconds / 60:.0f} minutes of steady load are too short, at least {SOAK_S / 60:.0f} are needed"
        return Found("not_shown", why, (run.run_id,), numbers)
    if missing := list(dict.fromkeys(name for part in parts for name in _not_followed(part))):
        return Found("not_shown", f"{', '.join(missing)} could not be followed", (run.run_id,), numbers)
    return Found("pass", f"nothing drifted for the worse in {seconds / 60:.0f} minutes", (run.run_id,), numbers)


def _not_followed(part: Stability) -> Iterator[str]:
    """A number that hardly ever changes is followed, though no test is made of it."""
    told = {s.name: s.n for s in part.series}
    yield from (name for name in FOLLOWED if told.get(name, 0) < WINDOWS)


def access(seen: Seen) -> Found:
    """The endpoints by experiment: access, the log by audit.json. One alone shows half of it."""
    found = _experiment(seen, "access", "no run of experiment: access was given")
    if found.state == "fail":
        return found
    audit = next(iter(seen.audits), None)
    if audit is not None and audit.broken_at is not None:
        why = f"row {audit.broken_at} of the audit log is not what was written"
        return Found("fail", why, (*found.evidence, audit.id), {"rows": float(audit.rows)})
    if found.state != "pass":
        return found
    if (less := _less_than_all(seen)) is not None:
        return Found("not_shown", less, found.evidence)
    if audit is None:
        return Found("not_shown", "the endpoints pass; no audit log was given (audit.json)", found.evidence)
    why = f"the endpoints pass; the audit log has {audit.rows} rows in an unbroken chain"
    return Found("pass", why, (*found.evidence, audit.id), {"rows": float(audit.rows)})


def _less_than_all(seen: Seen) -> str | None:
    """Of an access check that passed: why it is not all that is asked for."""
    run = _newest(seen, "access")
    if run is None or seen.sides is None:
        return None
    if left_out := sorted(seen.sides.addresses - addresses_of(run)):
        return f"{run.run_id} did not look at {', '.join(left_out)}"
    if not isinstance(run.found, AccessResult):
        return None
    weak = [c for c in run.found.checks if c.check == "transport" and c.state == "warning"]
    if weak:
        return f"transport encryption is not shown: {weak[0].place}: {weak[0].seen}"
    ours = seen.sides.known
    open_ = None if ours is None else _key_unseen(run.found, ours.endpoint)
    return (
        None if open_ is None else f"{run.run_id} does not show whether a key is asked for where requests go ({open_})"
    )


def _key_unseen(found: AccessResult, endpoint: str) -> str | None:
    """Of the route that the target's requests take."""
    for name in key_checks(endpoint):
        made = [c for c in found.checks if c.check == name]
        if not made:
            return f"{name} was not looked at"
        if open_ := [c for c in made if c.state != "pass"]:
            return f"{open_[0].place}: {name}: {open_[0].seen}"
    return None


def canary(seen: Seen) -> Found:
    """State and share of the newest; alerts that fired of any of the target's: they are proven on a canary that is bad
    on purpose."""
    other = [f"{file.id} {why}" for file in seen.canaries if (why := _another(seen, file))]
    given = [file for file in seen.canaries if _another(seen, file) is None]
    if not given:
        return not_shown("; ".join(["no canary's evidence was given (canary.json)", *other[:1]]))
    one = given[0]
    told = [alert for file in given for alert in file.alerts if alert.fired]
    fired, proofs = {alert.about for alert in told}, [f.id for f in given if any(a.fired for a in f.alerts)]
    numbers = {"share": one.share, "alerts_fired": float(len(told))}
    runs = tuple(dict.fromkeys([one.id, *proofs]))
    if one.state == "fail":
        why = one.reasons[0] if one.reasons else "the canary failed"
        return Found("fail", why, (one.id,), numbers)
    missing = [f"no alert on {about} was seen to fire" for about in ("acceptance", "rollback") if about not in fired]
    if missing and other:
        missing.append(other[0])
    if one.share is None:
        missing.insert(0, "its share of the traffic is not set")
    if one.state != "pass":
        missing.insert(0, one.reasons[0] if one.reasons else "the canary came to no verdict")
    if missing:
        return Found("not_shown", "; ".join(missing), runs, numbers)
    return Found("pass", f"{one.share:.1%} of the traffic; alerts on acceptance and rollback fired", runs, numbers)


def _another(seen: Seen, file: CanaryEvidence) -> str | None:
    """Why a canary is none of the target's; None: it is. Its model must be told, its engine where both are known."""
    if seen.sides is None or seen.sides.candidate is None:
        return None
    facts = seen.sides.candidate[1]
    version = facts.capabilities.get("version")
    if file.model is None:
        return "does not tell its model"
    if file.model != facts.model or (None not in (file.engine_version, version) and file.engine_version != version):
        return "is of another model or engine"
    return None


def _newest(seen: Seen, kind: str) -> RunEvidence | None:
    """Of a speculating arm: one of the baseline alone shows nothing of the candidate."""
    return seen.newest(lambda run: run.experiment == kind and speculates(run))


def _experiment(seen: Seen, kind: str, missing: str) -> Found:
    run = _newest(seen, kind)
    if run is None:
        return seen.without(missing, kind)
    if run.found is None:
        return not_shown(f"{run.run_id} has no result that this version can read", run.run_id)
    state = _STATES[run.found.state]
    if state == "pass" and (why := run.unusable) is not None:
        return not_shown(why, run.run_id)
    more = f"; and {len(run.found.reasons) - 1} more" if len(run.found.reasons) > 1 else ""
    text = f"{run.found.reasons[0]}{more}" if run.found.reasons else f"{kind}: nothing against it"
    return Found(state, text, (run.run_id,))


def _worse(part: Stability) -> int:
    return sum(bool(s.drift and s.drift.matters and s.drift.worse) for s in part.series)
