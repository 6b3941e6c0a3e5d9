"""From evidence to the list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from loadgen.verdict.checklist.evidence import AuditEvidence, CanaryEvidence, FileEvidence, RunEvidence
from loadgen.verdict.checklist.model import Checklist, Item, ItemState, SetAside
from loadgen.verdict.checklist.rules import ITEMS, Rule
from loadgen.verdict.checklist.seen import Seen
from loadgen.verdict.checklist.targets import another, sides_of

#: Older evidence is of a system that has changed since.
MOST_DAYS = 30


def checklist_of(
    runs: Sequence[RunEvidence], files: Sequence[FileEvidence] = (), *, at: str, age_days: Mapping[str, float]
) -> Checklist:
    """`at`: when it is made. `age_days`: of runs and files, by their ids, at that moment; what is not there has no
    known age and is not called old."""
    newest = sorted(runs, key=lambda run: (run.started, run.run_id), reverse=True)
    aside = {run.run_id: why for run in newest if (why := _too_old(run.run_id, age_days))}
    fresh = [run for run in newest if run.run_id not in aside]
    sides = sides_of(fresh)
    aside |= {run.run_id: why for run in fresh if sides is not None and (why := another(run, sides))}
    kept = [run for run in fresh if run.run_id not in aside]
    young = sorted((f for f in files if not _too_old(f.id, age_days)), key=lambda file: file.at, reverse=True)
    seen = Seen(
        runs=kept,
        sides=sides,
        canaries=[file for file in young if isinstance(file, CanaryEvidence)],
        audits=[file for file in young if isinstance(file, AuditEvidence)],
        aside=_by_experiment(newest, kept, aside),
    )
    items = [_item(rule, seen) for rule in ITEMS]
    aside |= {file.id: why for file in files if (why := _too_old(file.id, age_days))}
    return Checklist(
        at=at,
        state=_state(items),
        items=items,
        target=None if sides is None else sides.shown(),
        runs=[run.run_id for run in kept],
        set_aside=[SetAside(run_id=run_id, why=why) for run_id, why in aside.items()],
    )


def _item(rule: Rule, seen: Seen) -> Item:
    found = rule.show(seen)
    return Item(
        name=rule.name,
        title=rule.title,
        state=found.state,
        why=found.why,
        evidence=list(found.evidence),
        numbers=dict(found.numbers),
    )


def _state(items: Iterable[Item]) -> ItemState:
    states = {item.state for item in items}
    if "fail" in states:
        return "fail"
    return "pass" if states == {"pass"} else "not_shown"


def _too_old(of: str, age_days: Mapping[str, float]) -> str | None:
    days = age_days.get(of, 0.0)
    return f"too old: {days:.0f} days, at most {MOST_DAYS}" if days > MOST_DAYS else None


def _by_experiment(
    newest: Sequence[RunEvidence], kept: Sequence[RunEvidence], aside: Mapping[str, str]
) -> Mapping[str, str]:
    """Why the newest run of an experiment is no evidence, where none of that experiment is left."""
    left = {run.experiment for run in kept}
    found: dict[str, str] = {}
    for run in newest:
        if run.experiment not in left and run.run_id in aside:
            found.setdefault(run.experiment, f"{run.run_id} is {aside[run.run_id]}")
    return found
