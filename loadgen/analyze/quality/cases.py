"""All repeats of a case together: is its difference repeatable, or is the baseline as unsteady itself?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from loadgen.analyze.quality.diverge import ALIKE, Divergence
from loadgen.analyze.quality.types import Kind

#: An end that is wrong for certain is shown where so many pairs have it, wherever they part.
TWICE = 2


@dataclass(frozen=True, slots=True)
class CaseFinding:
    """A case over its repeats. `kind`: of most of its differing pairs, of those with an end that is wrong for certain
    where there are any, else "near_tie" or "identical".

    `differing`: pairs that are neither identical nor a near tie. `repeatable`: at least two pairs, all of them
    differing and parting at the same place, which the baseline's own runs reach without parting; or `hard_twice`. None
    with one pair. `first`: the earliest of the pairs that `kind` is of, to be shown. `hard`: pairs whose end is wrong
    for certain; `hard_twice`: two or more, and the baseline's own runs have none.
    """

    case_id: str
    kind: Kind
    pairs: int
    differing: int
    repeatable: bool | None
    first: Divergence | None
    hard: int = 0
    hard_twice: bool = False


def case_findings(divergences: Iterable[Divergence], floor: Iterable[Divergence] = ()) -> list[CaseFinding]:
    """Cases in order of their first pair. `floor`: baseline-against-baseline comparisons of the same cases."""
    by_case: dict[str, list[Divergence]] = {}
    for one in divergences:
        by_case.setdefault(one.case_id, []).append(one)
    steady: dict[str, float] = {}
    wrong_itself: set[str] = set()
    for own in floor:
        if own.hard:
            wrong_itself.add(own.case_id)
        if own.at is not None:
            steady[own.case_id] = min(steady.get(own.case_id, own.at), own.at)
    return [
        _finding(case, found, steady.get(case, float("inf")), case in wrong_itself) for case, found in by_case.items()
    ]


def _finding(case_id: str, found: list[Divergence], baseline_parts_at: float, wrong_itself: bool) -> CaseFinding:
    differing = [d for d in found if d.kind not in ALIKE]
    if not differing:
        alike: Kind = "near_tie" if any(d.kind == "near_tie" for d in found) else "identical"
        return CaseFinding(case_id, alike, len(found), 0, None if len(found) < 2 else False, None)
    hard = [d for d in differing if d.hard]
    kind = Counter(d.kind for d in hard or differing).most_common(1)[0][0]
    first = min(hard or differing, key=lambda d: -1 if d.at is None else d.at)
    twice = len(hard) >= TWICE and not wrong_itself
    repeatable = None
    if len(found) > 1:
        repeatable = twice or (len(differing) == len(found) and _at_one_place(differing, baseline_parts_at))
    return CaseFinding(case_id, kind, len(found), len(differing), repeatable, first, len(hard), twice)


def _at_one_place(differing: list[Divergence], baseline_parts_at: float) -> bool:
    places = {d.at for d in differing}
    at = differing[0].at
    return len(places) == 1 and (at is None or at < baseline_parts_at)
