"""Each threshold against its interval, and all of them together (docs/verdict.md, "Three values")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from loadgen.analyze import LEVEL, Estimate, Query, bonferroni
from loadgen.scenario import METRICS, Condition, Threshold
from loadgen.verdict.defaults import default_thresholds
from loadgen.verdict.model import Result, Verdict, Word
from loadgen.verdict.rules import Facts, Obstacle, notes, obstacles
from loadgen.verdict.types import Evidence
from loadgen.verdict.words import because, joined, noted, sentence


@dataclass(frozen=True, slots=True)
class _Item:
    """One condition of one threshold on one arm."""

    threshold: Threshold
    condition: Condition
    arm: str
    where: tuple[tuple[str, str], ...]

    @property
    def compares(self) -> bool:
        return self.condition.relative is not None or METRICS[self.threshold.metric].versus_baseline


def judge(thresholds: Sequence[Threshold], evidence: Evidence, facts: Facts) -> Verdict | None:
    """The verdict of a run; None where one arm was measured and nothing was asked of it.

    A threshold passes if its 95 % interval lies within the limit, fails if an interval at 1 - 0.05/m (m conditions
    judged) lies beyond it, and is inconclusive otherwise, or with fewer than `min_samples` requests. The run fails if
    one fails, passes if all pass and nothing stands in the way, and is inconclusive otherwise.
    """
    chosen = tuple(thresholds) or default_thresholds(len(facts.arms), facts.stages if len(facts.stages) > 1 else ())
    items = [item for threshold in chosen for part in _stages(threshold, facts) for item in _items(part, facts)]
    if not items:
        return None
    in_the_way = obstacles(facts)
    fail_level = bonferroni(LEVEL, len(items))
    results = [_result(item, evidence, fail_level, in_the_way, facts) for item in items]
    word = _word(results, in_the_way)
    return Verdict(
        run_id=facts.run_id,
        verdict=word,
        reasons=_reasons(word, results, in_the_way),
        thresholds=results,
        thresholds_from="scenario" if thresholds else "defaults",
        obstacles=[obstacle.text for obstacle in in_the_way],
        notes=[*notes(facts), *_pooled(chosen, facts), *_multiple(results, fail_level)],
        baseline=facts.baseline,
        design=facts.design,
        paired=facts.paired,
        validity=facts.validity,
        reproduce=list(facts.reproduce),
    )


def _stages(threshold: Threshold, facts: Facts) -> Sequence[Threshold]:
    """A speedup of closed and open loops, stage by stage: there is no one number of both."""
    if threshold.metric != "speedup" or not facts.mixed or {key for key, _ in threshold.where} - {"arm"}:
        return (threshold,)
    return [replace(threshold, where=(("stage", stage), *threshold.where)) for stage in facts.stages]


def _items(threshold: Threshold, facts: Facts) -> Iterator[_Item]:
    """Without an arm, a threshold is about every arm but the baseline, or about the only one."""
    named = threshold.selector("arm")
    arms = [named] if named else [a for a in facts.arms if a != facts.baseline or len(facts.arms) == 1]
    for condition in threshold.conditions:
        for arm in arms:
            where = threshold.where if named else (*threshold.where, ("arm", arm))
            yield _Item(threshold, condition, arm, where)


def _result(item: _Item, evidence: Evidence, fail_level: float, in_the_way: Sequence[Obstacle], facts: Facts) -> Result:
    threshold, condition, metric = item.threshold, item.condition, METRICS[item.threshold.metric]
    found = _ask(evidence, item, LEVEL)
    ok, reason = _ruling(item, found, evidence, fail_level, in_the_way)
    selectors = item.where if len(facts.arms) > 1 else threshold.where
    name = Threshold(threshold.metric, selectors, (condition,)).named(condition)
    return Result(
        name=name,
        metric=threshold.metric,
        aggregate=condition.aggregate,
        arm=item.arm,
        where=dict(item.where),
        op=condition.op,
        limit=condition.limit,
        relative=condition.relative,
        unit="×" if condition.relative == "ratio" else metric.unit,
        ok=ok,
        value=_finite(found.value),
        interval=None if found.low is None or found.high is None else (_finite(found.low), _finite(found.high)),
        level=LEVEL,
        fail_level=fail_level,
        n=found.n,
        n_unit=found.unit,
        needs_n=found.needs_n,
        min_samples=threshold.min_samples,
        method=found.method,
        source=found.source,
        reason=reason,
        sentence=sentence(name, ok, found, condition, metric, reason, of_speedup=threshold.metric == "speedup"),
    )


def _ruling(
    item: _Item, found: Estimate, evidence: Evidence, fail_level: float, in_the_way: Sequence[Obstacle]
) -> tuple[bool | None, str | None]:
    """ok, why it is not decided, and what must be known of the number either way."""
    least = item.threshold.min_samples
    if least is not None and (samples := _samples(evidence, item)) < least:
        return None, f"{samples:,} requests are fewer than min_samples ({least:,})"
    ok = _within(found, item.condition)
    if ok is None:
        return None, because(found, item.condition)
    if ok is False:
        strict = found if fail_level == LEVEL else _ask(evidence, item, fail_level)
        if _within(strict, item.condition) is not False:
            why = (
                f"beyond the limit at {LEVEL:.0%}, but not at {fail_level:.2%}, which it takes to fail where several "
                "conditions are judged"
            )
            return None, joined(why, noted(found))
        if void := _voided(item, in_the_way):
            return None, joined(f"it lies beyond the limit, which counts for nothing here: {void}", noted(found))
    return ok, noted(found)


def _ask(evidence: Evidence, item: _Item, level: float) -> Estimate:
    """The largest of what was measured is exact: it is a number of these requests, not of the server."""
    condition = item.condition
    found = evidence.estimate(Query(item.threshold.metric, condition.aggregate, item.where, condition.relative), level)
    if condition.aggregate == "max" and found.value is not None:
        return replace(found, low=found.value, high=found.value, reason=None)
    return found


def _within(found: Estimate, condition: Condition) -> bool | None:
    """Whether the whole interval is within the limit, or (False) the whole interval beyond it."""
    if found.value is None or found.low is None or found.high is None:
        return None
    near, far = (found.low, found.high) if condition.upper else (-found.high, -found.low)
    limit = condition.limit if condition.upper else -condition.limit
    strict = condition.op in ("<", ">")
    if far < limit or (far == limit and not strict):
        return True
    return False if near > limit or (near == limit and strict) else None


def _samples(evidence: Evidence, item: _Item) -> int:
    """Requests of the arm under the selection."""
    return evidence.estimate(Query(item.threshold.metric, "count", item.where), LEVEL).n


def _voided(item: _Item, in_the_way: Sequence[Obstacle]) -> str | None:
    """Why this threshold cannot fail. Errors are counted, not timed: they are the server's also where the client was
    too slow to measure times."""
    for obstacle in in_the_way:
        timed = obstacle.voids == "times" and item.threshold.metric != "error_share"
        if timed or (obstacle.voids == "comparison" and item.compares):
            return obstacle.text
    return None


def _word(results: Sequence[Result], in_the_way: Sequence[Obstacle]) -> Word:
    if any(result.ok is False for result in results):
        return "fail"
    return "pass" if not in_the_way and all(result.ok for result in results) else "inconclusive"


def _reasons(word: Word, results: Sequence[Result], in_the_way: Sequence[Obstacle]) -> list[str]:
    """What decided, first; of a pass, that every threshold was met. Of what is undecided, first what has an interval:
    the others have too little data."""
    failed = [r.sentence for r in results if r.ok is False]
    undecided = sorted((r for r in results if r.ok is None), key=lambda r: r.interval is None)
    open_ = [r.sentence for r in undecided]
    if word == "pass":
        n = len(results)
        return [f"{'the threshold is' if n == 1 else f'all {n} thresholds are'} met", *(r.sentence for r in results)]
    return [*failed, *(obstacle.text for obstacle in in_the_way), *open_]


def _pooled(thresholds: Sequence[Threshold], facts: Facts) -> list[str]:
    """Thresholds whose number is one over stages of different load."""
    named = {"stage", "concurrency", "rate_per_s"}
    parts = [part for threshold in thresholds for part in _stages(threshold, facts)]
    pooled = [str(t) for t in parts if not named & {key for key, _ in t.where}]
    if len(facts.stages) < 2 or not pooled:
        return []
    return [f"over all stages together ({', '.join(facts.stages)}): {'; '.join(pooled)}; {{stage:…}} tells them apart"]


def _multiple(results: Sequence[Result], fail_level: float) -> list[str]:
    if len(results) < 2:
        return []
    return [
        f"{len(results)} conditions were judged: each passes by its interval at {LEVEL:.0%}, and fails only by one at "
        f"{fail_level:.2%} (Bonferroni), so that equal arms fail one of them in at most 2.5 of 100 runs"
    ]


def _finite(value: float | None) -> float | None:
    return value if value is None or isfinite(value) else None
