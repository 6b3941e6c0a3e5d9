"""Which runs are about the same thing: model, draft, engine, hardware and settings. Evidence of different ones does not
add up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.analyze import differences
from loadgen.record import ArmFacts
from loadgen.verdict.checklist.evidence import RunEvidence
from loadgen.verdict.checklist.model import Target

BASELINE, CANDIDATE = "baseline", "candidate"
#: Of the moment or of the way there: the same servers may have others in another run.
_OF_THE_MOMENT = ("network.", "load.", "requests.", "declared.")
#: What the speculation of a candidate is; arms of one run may differ in it, candidates of two runs may not.
SPECULATION = tuple(
    f"speculation.{key}"
    for key in ("method", "k", "draft_model", "draft_revision", "draft_dtype", "draft_sample_method",
                "rejection_sample_method", "acceptance_threshold")
)  # fmt: skip
#: What a target is known by, for people.
SHOWN = ("engine.name", "engine.version", "model.weights", "model.revision", "model.dtype", "gpu.name", "gpu.count",
         "parallel.tensor", *SPECULATION)  # fmt: skip
MOST_NAMED = 3
ACCESS = "access"


@dataclass(frozen=True)
class Sides:
    """The target's arms, by what they do. None: no run has shown one."""

    run_id: str
    baseline: tuple[str, ArmFacts] | None
    candidate: tuple[str, ArmFacts] | None

    def of(self, facts: ArmFacts) -> tuple[str, ArmFacts] | None:
        return self.baseline if facts.speculation is False else self.candidate

    @property
    def known(self) -> ArmFacts | None:
        """The candidate's; the baseline's where no run has shown one."""
        side = self.candidate or self.baseline
        return None if side is None else side[1]

    @property
    def addresses(self) -> frozenset[str]:
        return frozenset(() if self.known is None else self.known.replicas)

    def shown(self) -> Target:
        values = {} if self.known is None else {key: _value(self.known, key) for key in SHOWN}
        return Target(
            run_id=self.run_id,
            baseline=None if self.baseline is None else self.baseline[0],
            candidate=None if self.candidate is None else self.candidate[0],
            facts={key: value for key, value in values.items() if value is not None},
            unknown=[key for key, value in values.items() if value is None],
        )


def sides_of(runs: Sequence[RunEvidence]) -> Sides | None:
    """`runs`: newest first. Of the newest run or soak that compares a speculating arm with a plain one; else of the
    newest of any experiment that does, or has a speculating arm. Access checks know addresses alone."""
    known = [run for run in runs if run.experiment != ACCESS]
    both = [run for run in known if _first(run, True) and _first(run, False)]
    measured = [run for run in both if run.measured]
    one = [run for run in known if _first(run, True)]
    chosen = next(iter([*measured, *both, *one, *known, *runs]), None)
    if chosen is None:
        return None
    return Sides(chosen.run_id, _first(chosen, False), _first(chosen, True))


def _first(run: RunEvidence, speculating: bool) -> tuple[str, ArmFacts] | None:
    """Arms that do not tell whether they speculate are candidates."""
    return next(((n, f) for n, f in run.arms.items() if (f.speculation is not False) is speculating), None)


def another(run: RunEvidence, sides: Sides) -> str | None:
    """Why a run is about something else; None: it is about the target."""
    if run.experiment == ACCESS:
        return _other_addresses(run, sides)
    found: list[str] = []
    for name, facts in run.arms.items():
        ours = sides.of(facts)
        if ours is not None:
            found += [f"{name}: {text}" for text in _apart(facts, ours[1])]
    if not found:
        return None
    more = f", and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"of another environment: {', '.join(found[:MOST_NAMED])}{more}"


def _other_addresses(run: RunEvidence, sides: Sides) -> str | None:
    theirs = addresses_of(run)
    return None if sides.addresses & theirs else f"of other addresses: {', '.join(sorted(theirs)[:MOST_NAMED])}"


def addresses_of(run: RunEvidence) -> frozenset[str]:
    return frozenset(url for facts in run.arms.values() for url in facts.replicas)


def _apart(facts: ArmFacts, ours: ArmFacts) -> Iterator[str]:
    if facts.model != ours.model and _value(facts, "model.weights") is None:
        yield f"model {facts.model}, not {ours.model}"
    for found in differences({"target": ours, "run": facts}, {}):
        theirs, mine = (found.values.get(name) for name in ("target", "run"))
        if found.rule == "inconclusive" and not found.key.startswith(_OF_THE_MOMENT) and mine != theirs:
            yield f"{found.key} {_short(mine)}, not {_short(theirs)}"
    if facts.speculation is False:
        return
    for key in SPECULATION:
        mine, theirs = _value(facts, key), _value(ours, key)
        if mine is not None and theirs is not None and mine != theirs:
            yield f"{key} {_short(mine)}, not {_short(theirs)}"


def _value(facts: ArmFacts, key: str) -> Any:
    fact = facts.environment.get(key)
    if fact is not None and fact.value is not None:
        return fact.value
    told: Mapping[str, Any] = {"speculation.k": facts.k, "speculation.method": facts.spec_method}
    return told.get(key)


def _short(value: Any) -> str:
    return str(value)[:40]
