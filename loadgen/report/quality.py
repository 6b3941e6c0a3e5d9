"""Tables of a quality result, for terminal and page: classes, differences side by side, tests, known answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadgen.analyze import DifferenceShown, ExperimentResult, NumericsCompared, QualityResult, Share, TestMade
from loadgen.report.format import DASH, percent
from loadgen.report.page import Row, Table, bounded

#: Differences that are shown; quality.json has more.
SHOWN = 24
#: Characters of what both have, and of how each goes on.
BEFORE, AFTER = 24, 32
#: Where two answers part.
HERE = "▸"
_IN_RESULT = "the others stand in quality.json"
_TONES = {
    "shown": "bad", "wrong_end": "warning", "unsteady": "warning", "between": "warning", "unknown": "warning",
    "once": "warning", "passing": "warning", "alike": "",
}  # fmt: skip
_STANDINGS = {
    "shown": "repeatable", "wrong_end": "wrong end, not twice", "unsteady": "not each time, no near tie",
    "between": "repeatable, no near tie; its numerics?", "unknown": "repeatable, near tie?", "once": "seen once",
    "passing": "not each time", "alike": "numerics",
}  # fmt: skip
_LOADS = {"greedy": "under load", "alone": "one at a time"}


def quality_tables(found: ExperimentResult) -> Sequence[Table]:
    assert isinstance(found, QualityResult)
    return [
        _passes(found), _loads(found), _differences(found), _tests(found), _known(found), _acceptance(found)
    ]  # fmt: skip


def _passes(found: QualityResult) -> Table:
    rows = [
        Row([p.stage, p.arm, str(p.passes), _or_dash(p.concurrency), str(p.requests), _counts(p.failed)],
            "warning" if p.failed else "")
        for p in found.passes
    ]  # fmt: skip
    note = "Passes of different loads, to compare answers: their speeds are no performance result."
    return Table("What was asked", ("pass", "arm", "passes", "users", "requests", "failed"), rows, 2, note)


def _loads(found: QualityResult) -> Table:
    rows = [
        Row([_LOADS[one.load], one.arm, str(one.cases), _counts(one.floor_kinds), _counts(one.kinds),
             _share(one.floor_share), _share(one.share)])
        for one in found.loads
    ]  # fmt: skip
    head = ("load", "arm", "cases", f"{found.baseline} with itself", "with the arm", "differs itself", "differs")
    again = found.asked_again
    limit = f"Near ties: margins up to {found.near_tie_nat:.3g} nat, from {found.near_tie_n} of the baseline's own."
    asked = f"Asked again at {again.asked} of {again.questions} divergences, {again.answered} answered."
    why = " ".join(f"Not answered {n}: {reason}." for reason, n in again.unanswered.items())
    parts = (limit, *map(_numerics, found.numerics), asked, why)
    return Table("Greedy answers: pairs by class", head, rows, 2, " ".join(part for part in parts if part))


def _numerics(one: NumericsCompared) -> str:
    """Of a candidate that parts from the baseline: up to where its own numerics may have made it."""
    if one.p99_nat is None:
        if not one.positions:
            return ""
        told = f"{one.arm}: numerics not known ({one.reason})"
    else:
        told = (
            f"{one.arm}: where both say the same its log probabilities are {one.p99_nat:.2g} nat apart (P99 of "
            f"{one.positions} positions)"
        )
    if one.sure_nat <= one.near_tie_nat:
        return f"{told}: its numerics makes no more than a near tie."
    margin = f"a margin from {one.near_tie_nat:.3g} to {one.sure_nat:.3g} nat"
    return f"{told}, so {margin} is no near tie and proves nothing."


def _differences(found: QualityResult) -> Table:
    kept, note = bounded(found.differences, SHOWN, "differing cases", _IN_RESULT)
    several = len(found.arms) > 1
    rows = [Row([*([one.arm] if several else []), *_difference(one)], _TONES[one.standing]) for one in kept]
    head = [
        *(["arm"] if several else []), "case", "class", "standing", "load", "at", "margin", "in common",
        found.baseline, "candidate",
    ]  # fmt: skip
    return Table("Where greedy answers part", head, rows, len(head), note)


def _difference(one: DifferenceShown) -> Iterator[str]:
    yield one.case_id
    yield ", ".join((one.kind, *one.also))
    yield f"{_STANDINGS[one.standing]} ({one.differing}/{one.pairs})"
    yield _LOADS[one.load]
    yield _at(one)
    yield _margin(one)
    yield from _side_by_side(one)


def _at(one: DifferenceShown) -> str:
    if one.token_index is not None:
        return f"token {one.token_index}"
    return "the end" if one.char_index is None else f"character {one.char_index}"


def _margin(one: DifferenceShown) -> str:
    if one.margin_nat is None:
        return DASH
    return f"{'≥ ' if one.margin_at_least else ''}{one.margin_nat:.2g} nat"


def _side_by_side(one: DifferenceShown) -> tuple[str, str, str]:
    if one.before is None or one.baseline is None or one.candidate is None:
        return DASH, DASH, DASH
    cut = "…" if len(one.before) > BEFORE or (one.char_index or 0) > len(one.before) else ""
    return f"{cut}{_line(one.before[-BEFORE:])}", _goes_on(one.baseline), _goes_on(one.candidate)


def _goes_on(text: str) -> str:
    return f"{HERE}{_line(text[:AFTER])}{'…' if len(text) > AFTER else ''}" if text else f"{HERE}(ends)"


def _line(text: str) -> str:
    """White space that a table would swallow, made visible."""
    return text.replace("\n", "⏎").replace("\t", "⇥")


def _tests(found: QualityResult) -> Table:
    rows = [
        Row([one.name, one.arm, _p(one.p), _p(one.adjusted_p), _value(one), f"{one.n_baseline} / {one.n_candidate}",
             str(one.groups), _within_reach(one)], "bad" if one.alarm else "")
        for one in found.tests
        if one.p is not None
    ]  # fmt: skip
    head = ("test", "arm", "p", "corrected", "difference", "n", "cases", "what it can find")
    note = f"An alarm is a corrected p of {found.level:g} or less: the chance of any false one in a run."
    return Table("Tests", head, rows, 2, " ".join((note, *_not_made(found))))


def _not_made(found: QualityResult) -> Iterator[str]:
    missing = dict.fromkeys(f"{one.name} ({one.reason})" for one in found.tests if one.p is None)
    if missing:
        yield f"Not made: {'; '.join(missing)}."


def _p(p: float | None) -> str:
    return DASH if p is None else f"{p:.2g}"


def _value(one: TestMade) -> str:
    if one.value is None:
        return DASH
    return f"{one.value:+.3g}" + ("" if one.unit in ("share", "distance") else f" {one.unit}")


def _within_reach(one: TestMade) -> str:
    if one.detectable is not None:
        unit = "" if one.unit in ("share",) else f" {one.unit}"
        return f"{one.detectable:.3g}{unit} with power 0.9"
    return DASH if one.needs_cases is None else f"{one.needs_cases} cases in one arm alone"


def _known(found: QualityResult) -> Table:
    rows = [
        Row([k.arm, str(k.cases), str(k.both), str(len(k.baseline_only)), str(len(k.candidate_only)), str(k.neither),
             k.reason or ", ".join((*k.baseline_only, *k.candidate_only)[:6]) or DASH])
        for k in found.known
    ]  # fmt: skip
    head = ("arm", "cases", "both right", f"only {found.baseline}", "only the arm", "neither", "which")
    return Table("Known answers", head, rows)


def _acceptance(found: QualityResult) -> Table:
    rows = [
        Row([a.arm, a.reference_run or "its own first passes", percent(a.reference), percent(a.now), str(a.cases),
             _p(a.p), a.reason or DASH])
        for a in found.acceptance
    ]  # fmt: skip
    head = ("arm", "reference", "acceptance there", "now", "cases", "p", "")
    return Table("Acceptance of the greedy answers", head, rows, 2)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items()) or DASH


def _share(share: Share | None) -> str:
    if share is None or share.value is None:
        return DASH
    if share.low is None or share.high is None:
        return percent(share.value)
    return f"{percent(share.value)} [{percent(share.low)}, {percent(share.high)}]"


def _or_dash(n: int | None) -> str:
    return DASH if n is None else str(n)
