"""Which checks a canary can have, and an estimate as a reading against its limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loadgen.analyze import Estimate
from loadgen.control import CheckId, CheckReading, CheckSource
from loadgen.experiment.preflight import ReadyArm
from loadgen.scenario import AT_LEAST, BY_COUNTERS, BY_PROBES, CanaryKeys

#: Judged also while a server has just started: a canary that fails or restarts all the time has nothing else.
ALWAYS_JUDGED = frozenset({"error_share", "restarts"})


@dataclass(frozen=True)
class Checks:
    """What is watched, and what is not, by name and source, with the reason."""

    ids: tuple[CheckId, ...]
    left_out: Mapping[CheckId, str] = field(default_factory=dict)

    def of(self, source: CheckSource) -> list[str]:
        return [check.name for check in self.ids if check.source == source]


def checks_of(keys: CanaryKeys, canary: ReadyArm, baseline: ReadyArm) -> Checks:
    """A limit that the scenario names itself is always watched: where nothing tells its number, it has no data."""
    ids: list[CheckId] = []
    left_out: dict[CheckId, str] = {}
    for source, names in _sources(keys):
        for name in names:
            if getattr(keys.limits, name) is None:
                continue
            check, why = CheckId(name, source), _cannot(name, source, canary, baseline)
            if why is None or name in keys.limits.model_fields_set:
                ids.append(check)
            else:
                left_out[check] = why
    return Checks(tuple(ids), left_out)


def _sources(keys: CanaryKeys) -> list[tuple[CheckSource, tuple[str, ...]]]:
    found: list[tuple[CheckSource, tuple[str, ...]]] = []
    if keys.probes is not None:
        found.append(("probes", BY_PROBES))
    if keys.counters:
        found.append(("counters", BY_COUNTERS))
    return found


def _cannot(name: str, source: CheckSource, canary: ReadyArm, baseline: ReadyArm) -> str | None:
    arms = [canary] if name in ("acceptance", "rollback", "restarts") else [canary, baseline]
    if name == "acceptance_ratio" and baseline.capabilities.speculation is False:
        return "the baseline does not speculate"
    if source == "counters":
        without = [arm.name for arm in arms if not arm.capabilities.metrics]
        return f"no metrics page: {', '.join(without)}" if without else None
    if name in ("acceptance", "acceptance_ratio", "rollback"):
        silent = [arm.name for arm in arms if arm.capabilities.per_request_spec in (None, "none")]
        return f"answers tell no statistics of speculation: {', '.join(silent)}" if silent else None
    return None


def reading(check: CheckId, keys: CanaryKeys, estimate: Estimate, skipped: str | None = None) -> CheckReading:
    """`skipped`: why it is not judged in this window."""
    judged = skipped is None or check.name in ALWAYS_JUDGED
    return CheckReading(
        check=check,
        limit=float(getattr(keys.limits, check.name)),
        bad="below" if check.name in AT_LEAST else "above",
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        unit=estimate.unit,
        reason=estimate.reason if judged else skipped,
        skipped=not judged,
    )
