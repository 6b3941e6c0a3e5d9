"""What a quality run found, from its directory: state, sentences, tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from loadgen.analyze.conditions import of_run
from loadgen.analyze.environment import environment_diff
from loadgen.analyze.found.base import worst_state
from loadgen.analyze.found.quality import ArmQuality, QualityResult
from loadgen.analyze.found.quality_records import QualityRecords, quality_records
from loadgen.analyze.found.quality_tables import (
    acceptance_rows,
    difference_rows,
    known_rows,
    load_rows,
    numerics_rows,
    test_rows,
)
from loadgen.analyze.quality import Answers, Compared, compare_answers, counted, decide_answers
from loadgen.analyze.summary import Finding
from loadgen.record import RunData

#: Below this share of successes in a stage answers are those of the survivors. By stage: thousands of short answers
#: must not hide the long ones that failed.
LEAST_SUCCESS = 0.9
#: Facts of docs/environment.md that say how far an engine promises the same answer to the same question.
DETERMINISM = ("kernels.batch_invariant", "model.seed", "scheduling.max_num_seqs")
_REFUSED = "sampling.refused"
#: Differences that make answers late, not others.
_NO_MATTER = ("load.", "network.", "host.")


def quality_of(run: RunData) -> QualityResult:
    """From the records alone. Raises ValueError where the texts of the run were dropped."""
    if run.manifest.experiment.get("texts") == "dropped":
        raise ValueError("the texts of this run were dropped")
    records = quality_records(run)
    compared = compare_answers(records.evidence)
    whole = list(_of_run(run))
    arms = []
    for found in compared.answers:
        unlike = _unlike(run, records.evidence.baseline, found.arm)
        state, reasons = decide_answers(found, compared, [*_of_arm(run, records, found.arm), *whole, *unlike])
        arms.append(ArmQuality(arm=found.arm, state=state, reasons=reasons))
    several = len(arms) > 1
    return QualityResult(
        run_id=run.manifest.run_id,
        state=worst_state(arm.state for arm in arms),
        reasons=_once([_told(reason, a.arm, several) for a in arms for reason in a.reasons]),
        findings=list(_findings(run, records, compared)),
        conditions={**of_run(run), "quality": run.manifest.scenario.get("quality")},
        baseline=records.evidence.baseline,
        level=compared.level,
        near_tie_nat=compared.limit.nat,
        near_tie_n=compared.limit.n,
        text_kept=True,
        asked_again=records.asked_again,
        numerics=numerics_rows(compared, records.numerics_missing),
        arms=arms,
        passes=records.passes,
        loads=load_rows(compared),
        differences=difference_rows(compared),
        tests=test_rows(compared, records.acceptance_missing),
        known=known_rows(compared, records.evidence),
        acceptance=acceptance_rows(compared, records.reference_run, records.acceptance_missing),
        same_seed=records.same_seed,
        determinism=_determinism(run),
    )


def _told(reason: str, arm: str, several: bool) -> str:
    return f"{arm}: {reason}" if several and not reason.startswith(arm) else reason


def _once(reasons: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(reasons))


def _of_run(run: RunData) -> Iterator[str]:
    """What of the measurement keeps its answers from being compared."""
    manifest = run.manifest
    if manifest.state != "finished":
        why = f" ({manifest.stop_reason})" if manifest.stop_reason else ""
        yield f"the run is not whole: its state is {manifest.state}{why}"
    if manifest.lost_workers:
        yield f"{len(manifest.lost_workers)} of {manifest.workers} worker processes died: their share was not asked"


def _of_arm(run: RunData, records: QualityRecords, candidate: str) -> Iterator[str]:
    """H10: a server that refuses the scenario's parameters is not comparable; nor is one that fails too often."""
    for arm in (records.evidence.baseline, candidate):
        fact = run.manifest.arms[arm].environment.get(_REFUSED)
        if fact is not None and fact.value:
            yield f"{arm} is not comparable: it refuses the scenario's sampling parameters ({fact.value[0]})"
        mine = [one for one in records.passes if one.arm == arm]
        if not any(one.requests for one in mine) and not (fact is not None and fact.value):
            yield f"{arm} was not asked"
        for one in mine:
            failed = Counter(one.failed)
            if one.requests - failed.total() < LEAST_SUCCESS * one.requests:
                kinds = ", ".join(f"{kind} {n}" for kind, n in failed.most_common(3))
                yield (
                    f"{arm}: {failed.total()} of {one.requests} requests of {one.stage} failed ({kinds}): what is left "
                    "is of the survivors"
                )


def _unlike(run: RunData, baseline: str, candidate: str) -> Iterator[str]:
    """What else than speculation is not alike in the two and not declared: their answers may differ for that."""
    for one in environment_diff(run):
        values = [one.values.get(arm) for arm in (baseline, candidate)]
        if one.rule == "inconclusive" and values[0] != values[1] and not one.key.startswith(_NO_MATTER):
            told = ", ".join(
                f"{arm}: {str(value)[:40]}" for arm, value in zip((baseline, candidate), values, strict=True)
            )
            yield f"the arms are not alike in {one.key} ({told}): {one.text}"


def _findings(run: RunData, records: QualityRecords, compared: Compared) -> Iterator[Finding]:
    where = {"baseline": records.evidence.baseline, "near_tie_nat": compared.limit.nat, "level": compared.level}
    for found in compared.answers:
        of_arm = {**where, "arm": found.arm, "near_tie_nat": found.limit.nat}
        for one in found.diagnoses:
            numbers = {"cases": float(len(one.cases)), **{f"p_{n}": found.tests.adjusted[n] for n in one.tests}}
            yield _finding(one.fault, f"{found.arm}: {one.text}", "bad", numbers, of_arm)
        yield from _of_answers(found, of_arm)
    yield from _of_sampling(run, records, where)


def _of_answers(found: Answers, where: dict[str, Any]) -> Iterator[Finding]:
    if passing := counted(found, "passing") + counted(found, "unsteady"):
        text = (
            f"{found.arm}: {passing} of {len(found.cases)} greedy cases differ, not by a near tie and not the same "
            "each time: look at them; by themselves they are no proof"
        )
        yield _finding("passing_differences", text, "warning", {"cases": float(passing)}, where)
    ties = sum(case.finding.kind == "near_tie" for case in found.cases)
    if ties:
        text = f"{found.arm}: {ties} of {len(found.cases)} greedy cases differ by near ties alone: numerics"
        yield _finding("near_ties", text, "info", {"cases": float(ties)}, where)
    if not any(share for arm in found.right for shares in arm.values() for share in shares) and found.right[0]:
        text = f"{found.arm}: no known answer was right in either arm: this says nothing about quality"
        yield _finding("known_answers_all_wrong", text, "info", {"cases": float(len(found.right[0]))}, where)


def _of_sampling(run: RunData, records: QualityRecords, where: dict[str, Any]) -> Iterator[Finding]:
    if not records.evidence.sampled and not records.evidence.repeated:
        text = "greedy answers alone were asked: nothing is known of the sampler"
        yield _finding("greedy_answers_only", text, "warning", {}, where)
    for one in records.same_seed:
        text = (
            f"{one.arm}: {one.same} of {one.asked} sampled answers came out the same when they were asked again with "
            "the same seed"
        )
        numbers = {"asked": float(one.asked), "same": float(one.same)}
        yield _finding("same_seed", text, "info", numbers, {**where, "arm": one.arm})
    told = ", ".join(f"{arm}: {_mode(facts)}" for arm, facts in _determinism(run).items())
    text = f"temperature 0 is no promise of the same answer; the engines' modes: {told}"
    yield _finding("determinism_mode", text, "info", {}, where)


def _mode(facts: dict[str, Any]) -> str:
    value = facts["kernels.batch_invariant"]["value"]
    return "batch invariance not shown" if value is None else f"VLLM_BATCH_INVARIANT {value}"


def _determinism(run: RunData) -> dict[str, dict[str, Any]]:
    """H6, H7: what each engine says of itself; no claim is made from it."""
    found: dict[str, dict[str, Any]] = {}
    for arm, facts in run.manifest.arms.items():
        found[arm] = {}
        for key in DETERMINISM:
            fact = facts.environment.get(key)
            value, source = (None, None) if fact is None else (fact.value, fact.source)
            found[arm][key] = {"value": value, "source": source}
    return found


def _finding(id_: str, text: str, severity: Any, numbers: dict[str, float], where: dict[str, Any]) -> Finding:
    kept: dict[str, float | None] = dict(numbers)
    return Finding(id=id_, text=text, numbers=kept, conditions=where, severity=severity)


def without_texts(found: QualityResult) -> QualityResult:
    """The numbers alone: what was said stands nowhere in it."""
    bare = {"before": None, "baseline": None, "candidate": None}
    return found.model_copy(
        update={"text_kept": False, "differences": [d.model_copy(update=bare) for d in found.differences]}
    )
