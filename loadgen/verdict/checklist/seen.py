"""The evidence that is left once what is about something else, or too old, is set aside; and what a rule answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from loadgen.verdict.checklist.evidence import AuditEvidence, CanaryEvidence, RunEvidence
from loadgen.verdict.checklist.model import ItemState
from loadgen.verdict.checklist.targets import Sides


@dataclass(frozen=True)
class Found:
    """What a rule says of its item."""

    state: ItemState
    why: str
    evidence: tuple[str, ...] = ()
    numbers: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """`runs`: of the target, newest first. `canaries`, `audits`: likewise. `aside`: experiments of which only set-aside
    runs were given, and why."""

    runs: Sequence[RunEvidence]
    sides: Sides | None
    canaries: Sequence[CanaryEvidence] = ()
    audits: Sequence[AuditEvidence] = ()
    aside: Mapping[str, str] = field(default_factory=dict)

    def newest(self, wanted: Callable[[RunEvidence], bool]) -> RunEvidence | None:
        return next((run for run in self.runs if wanted(run)), None)

    def compared(self, fit: Callable[[Seen, RunEvidence], bool] = lambda _seen, _run: True) -> RunEvidence | None:
        """The newest run that compares the target's arms and is `fit`; a soak of both, which has as a rule one repeat,
        only where no run does."""
        found = [r for r in self.runs if r.measured and self._compares(r) and fit(self, r)]
        return next(iter([*(r for r in found if r.experiment == "run"), *found]), None)

    def _compares(self, run: RunEvidence) -> bool:
        return self.names(run) is not None and isinstance(run.summary.comparison, list)

    def candidate(self, run: RunEvidence) -> str | None:
        """The speculating arm of a run."""
        return next((name for name, facts in run.arms.items() if facts.speculation is not False), None)

    def names(self, run: RunEvidence) -> tuple[str, str] | None:
        """Baseline and candidate of a run; None where it has not both."""
        plain = next((n for n, facts in run.arms.items() if facts.speculation is False), None)
        speculating = self.candidate(run)
        return None if plain is None or speculating is None else (plain, speculating)

    def without(self, what: str, experiment: str) -> Found:
        """Nothing was given that could show it."""
        why = self.aside.get(experiment)
        return not_shown(f"{what} ({why})" if why else what)


def speculates(run: RunEvidence) -> bool:
    """Also where no arm tells."""
    return any(facts.speculation is not False for facts in run.arms.values())


def not_shown(why: str, *runs: str) -> Found:
    return Found("not_shown", why, runs)
