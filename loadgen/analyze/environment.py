"""Were the arms alike? Their captured environments side by side, by the rules of docs/environment.md. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loadgen.analyze.arms import baseline_among, reference_of
from loadgen.analyze.environment_rules import KeyRule, covers, rule_for
from loadgen.analyze.summary import Difference
from loadgen.record import ArmFacts, RunData

Outcome = Literal["may_differ", "declared", "noted", "inconclusive"]
_ORDER: Mapping[Outcome, int] = {"inconclusive": 0, "declared": 1, "noted": 2, "may_differ": 3}
_LOAD = ("load.running", "load.waiting")
_BUFFERING = "network.buffering"
_SYNTHETIC = ("speculation.synthetic_rates", "speculation.synthetic_length")
#: Values of these keys are judged by themselves, also where all arms agree.
_ALONE = frozenset({*_LOAD, *_SYNTHETIC, _BUFFERING})
_NOT_SET = (None, "not set")


def environment_diff(run: RunData) -> list[Difference]:
    """Every difference between the arms of a run, the worst first. A single arm is judged by itself."""
    return _differences(run.manifest.arms, run.manifest.scenario, reference_of(run))


def differences(arms: Mapping[str, ArmFacts], scenario: Mapping[str, Any]) -> list[Difference]:
    """As `environment_diff`, before there is a run. `scenario`: as in a manifest, for what it declares."""
    return _differences(arms, scenario, baseline_among(arms, scenario) or next(iter(arms), ""))


def _differences(arms: Mapping[str, ArmFacts], scenario: Mapping[str, Any], reference: str) -> list[Difference]:
    declared = declared_by(scenario)
    side = _Sides(arms, reference, declared)
    found = [*_alone(side), *_compared(side), *_unseen(side, arms)] if arms else []
    return in_order(found)


def in_order(found: Iterable[Difference]) -> list[Difference]:
    return sorted(found, key=lambda d: (_ORDER[d.rule], d.key))


def declared_by(scenario: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """`declared_differences` of every arm."""
    arms = scenario.get("arms") or {}
    return {name: tuple(arm.get("declared_differences") or ()) for name, arm in arms.items()}


def judged(
    key: str, values: Mapping[str, Any], affected: Iterable[str], declared: Mapping[str, Sequence[str]], text: str
) -> Difference:
    """Inconclusive, unless every affected arm has declared it."""
    meant = all(any(covers(entry, key) for entry in declared.get(arm, ())) for arm in affected)
    return Difference(key=key, values=dict(values), rule="declared" if meant else "inconclusive", text=text)


@dataclass(frozen=True)
class _Sides:
    arms: Mapping[str, ArmFacts]
    baseline: str
    declared: Mapping[str, Sequence[str]]

    def values(self, key: str) -> dict[str, Any]:
        """Of every arm; None where it is not known."""
        facts = {name: arm.environment.get(key) for name, arm in self.arms.items()}
        return {name: None if fact is None else fact.value for name, fact in facts.items()}

    @property
    def keys(self) -> list[str]:
        return sorted({key for arm in self.arms.values() for key in arm.environment})

    @property
    def speculation_differs(self) -> bool:
        told = {(arm.speculation, arm.k, arm.spec_method) for arm in self.arms.values()}
        return len(told) > 1


def _compared(side: _Sides) -> Iterator[Difference]:
    if len(side.arms) < 2:
        return
    for key in side.keys:
        values, rule = side.values(key), rule_for(key)
        base = values[side.baseline]
        known = {name: value for name, value in values.items() if value is not None}
        if not known:
            if rule.expected:
                yield Difference(key=key, values=values, rule="noted", text=_reason(side, key))
            continue
        other = [n for n, v in known.items() if base is not None and not _equal(v, base, rule)]
        if base is None:
            reference = next(iter(known.values()))
            other = [n for n, v in known.items() if not _equal(v, reference, rule)]
        if other and key not in _ALONE:
            yield _difference(side, rule, values, other)
        elif len(known) < len(values) and key not in _ALONE:
            yield _one_sided(rule, values, known)


def _difference(side: _Sides, rule: KeyRule, values: dict[str, Any], other: list[str]) -> Difference:
    key = rule.key
    text = f"{', '.join(other)} differs from {side.baseline}: {rule.why}"
    if rule.rule == "inconclusive" or (rule.rule == "follows" and not side.speculation_differs):
        if any(None not in side.values(k).values() for k in rule.settled_by):
            told = " or ".join(rule.settled_by)
            return Difference(key=key, values=values, rule="noted", text=f"only a name: {told} tells the thing itself")
        return judged(key, values, other, side.declared, text)
    outcome: Outcome = "may_differ" if rule.rule == "may_differ" else "noted"
    return Difference(key=key, values=values, rule=outcome, text=text)


def _one_sided(rule: KeyRule, values: dict[str, Any], known: Mapping[str, Any]) -> Difference:
    if rule.rule == "may_differ":
        return Difference(key=rule.key, values=values, rule="may_differ", text=rule.why)
    missing = ", ".join(n for n in values if n not in known)
    text = f"known of {', '.join(known)} only: whether {missing} has the same is not shown"
    return Difference(key=rule.key, values=values, rule="noted", text=text)


def _equal(one: Any, other: Any, rule: KeyRule) -> bool:
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (one, other))
    if numbers and (rule.apart or rule.share):
        return math.isclose(one, other, rel_tol=rule.share, abs_tol=rule.apart)
    return bool(one == other)


def _reason(side: _Sides, key: str) -> str:
    facts = [arm.environment[key] for arm in side.arms.values() if key in arm.environment]
    return next((fact.reason for fact in facts if fact.reason), "no arm tells it")


def _alone(side: _Sides) -> Iterator[Difference]:
    """What is wrong of an arm whatever the others are."""
    yield from _busy(side)
    held = side.values(_BUFFERING)
    if bad := [name for name, value in held.items() if value not in (None, "none")]:
        text = f"streams of {', '.join(bad)} do not come as they are made: something on the way buffers them"
        yield judged(_BUFFERING, held, bad, side.declared, text)
    for key in _SYNTHETIC:
        values = side.values(key)
        if made := [name for name, value in values.items() if value not in _NOT_SET]:
            text = f"{', '.join(made)} accepts drafts at a set rate: acceptance is no property of the models"
            yield judged(key, values, made, side.declared, text)
    yield from _tokenizers(side)


def _busy(side: _Sides) -> Iterator[Difference]:
    for key in _LOAD:
        values = side.values(key)
        if busy := [name for name, value in values.items() if value]:
            what = key.rpartition(".")[2]
            text = f"before we sent anything, requests of others were {what} on {', '.join(busy)}"
            yield judged(key, values, busy, side.declared, text)


def _tokenizers(side: _Sides) -> Iterator[Difference]:
    """Within an arm: a drafter that cuts text differently proposes what the target rarely accepts."""
    key = "speculation.draft_tokenizer_sha256"
    target = side.values("tokenizer.sha256")
    for name, draft in side.values(key).items():
        if draft is not None and target[name] is not None and draft != target[name]:
            text = f"draft and target of {name} have different tokenizers; the target's is {target[name]}"
            yield Difference(key=key, values={name: draft}, rule="noted", text=text)


def _unseen(side: _Sides, arms: Mapping[str, ArmFacts]) -> Iterator[Difference]:
    """Declared, and yet nothing differs there: a slip, or not shown by the server."""
    keys = [*side.keys, "requests.prompt_tokens", "requests.cache_hit_share", "load.foreign"]
    for name in arms:
        for entry in side.declared.get(name, ()):
            if not any(covers(entry, key) for key in keys):
                text = f"{name} declares it, and no captured fact goes by this name"
                yield Difference(key=f"declared.{entry}", values={name: entry}, rule="noted", text=text)
