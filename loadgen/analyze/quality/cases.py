"""All repeats of a case together: is its difference repeatable, or is the baseline as unsteady itself?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from loadgen.analyze.quality.diverge import ALIKE, Divergence
from loadgen.analyze.quality.types import Kind


@dataclass(frozen=True, slots=True)
class CaseFinding:
    """A case over its repeats. `kind`: of most of its differing pairs, else "near_tie" or "identical".

    `differing`: pairs that are neither identical nor a near tie. `repeatable`: at least two pairs, all of them
    differing and parting at the same place, which the baseline's own runs reach without parting; None with one pair.
    `first`: the earliest differing pair, to be shown.
    """

    case_id: str
    kind: Kind
    pairs: int
    differing: int
    repeatable: bool | None
    first: Divergence | None


def case_findings(divergences: Iterable[Divergence], floor: Iterable[Divergence] = ()) -> list[CaseFinding]:
    """Cases in order of their first pair. `floor`: baseline-against-baseline comparisons of the same cases."""
    by_case: dict[str, list[Divergence]] = {}
    for one in divergences:
        by_case.setdefault(one.case_id, []).append(one)
    steady: dict[str, float] = {}
    for own in floor:
        if own.at is not None:
            steady[own.case_id] = min(steady.get(own.case_id, own.at), own.at)
    return [_finding(case, found, steady.get(case, float("inf"))) for case, found in by_case.items()]


def _finding(case_id: str, found: list[Divergence], baseline_parts_at: float) -> CaseFinding:
    differing = [d for d in found if d.kind not in ALIKE]
    if not differing:
        alike: Kind = "near_tie" if any(d.kind == "near_tie" for d in found) else "identical"
        return CaseFinding(case_id, alike, len(found), 0, None if len(found) < 2 else False, None)
    kind = Counter(d.kind for d in differing).most_common(1)[0][0]
    first = min(differing, key=lambda d: -1 if d.at is None else d.at)
    repeatable = None
    if len(found) > 1:
        places = {d.at for d in differing}
        at = first.at
        repeatable = len(differing) == len(found) and len(places) == 1 and (at is None or at < baseline_parts_at)
    return CaseFinding(case_id, kind, len(found), len(differing), repeatable, first)
