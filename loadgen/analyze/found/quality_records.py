"""A quality run's directory to what is compared: outputs of every pass, acceptance, what was asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from loadgen.analyze.found.quality import AskedAgain, PassAsked, SameSeed
from loadgen.analyze.quality import (
    LOADS,
    Accepted,
    Evidence,
    Format,
    Load,
    Output,
    Told,
    margins_of,
    stop_ids_of,
)
from loadgen.record import Event, RunData

_COLUMNS = (
    "arm", "phase", "stage", "repeat_idx", "case_id", "case_index", "task_type", "outcome", "text", "token_ids",
    "finish_reason", "seed", "sampling", "drafted_tokens", "accepted_tokens", "input_len",
    "mean_logprob", "output_len", "output_len_source", "max_tokens",
)  # fmt: skip
#: Names of the events of a quality run.
ASKED_AGAIN, QUESTIONS, REFERENCE_ACCEPTANCE = "asked_again", "asked_again_all", "acceptance_reference"
NUMERICS = "numerics"
#: Drafters that remember more than the answer they are at.
LEARNING: Mapping[str, str] = {
    "suffix": "drafts from earlier answers",
    "custom_class": "is of the server's owner and may learn from answers",
}
Row = dict[str, Any]


@dataclass(frozen=True)
class QualityRecords:
    """`evidence`: what is compared. `reference_run`: whose acceptance is the reference. `numerics_missing`: by
    candidate, why its numerics could not be asked for; `acceptance_missing`: likewise, why its acceptance is not
    compared."""

    evidence: Evidence
    passes: list[PassAsked]
    same_seed: list[SameSeed]
    asked_again: AskedAgain
    reference_run: str | None
    numerics_missing: dict[str, str]
    acceptance_missing: dict[str, str]


def quality_records(run: RunData) -> QualityRecords:
    """Of a run whose manifest tells its passes."""
    manifest = run.manifest
    told = {one["stage"]: one for one in manifest.experiment.get("passes") or ()}
    keys = manifest.scenario.get("quality") or {}
    baseline = str(manifest.comparison.get("baseline"))
    candidates = tuple(arm for arm in manifest.arms if arm != baseline)
    rows = [r for r in run.requests.select(_COLUMNS).to_pylist() if r["phase"] == "measure" and r["stage"] in told]
    outputs = _outputs(rows, baseline, manifest.experiment, keys)
    by_kind: dict[str, list[tuple[Row, Output]]] = {}
    for row, one in outputs:
        by_kind.setdefault(told[row["stage"]]["kind"], []).append((row, one))
    sampled, again = _apart(by_kind.get("sampled", ()), told)
    greedy: dict[Load, list[Output]] = {load: [one for _, one in by_kind[load]] for load in LOADS if by_kind.get(load)}
    reference = next((e for e in run.events if e.name == REFERENCE_ACCEPTANCE), None)
    accepted = {arm: pair for arm in candidates if (pair := _accepted(by_kind, arm, reference)) is not None}
    facts = {arm: manifest.arms[arm] for arm in accepted if manifest.arms[arm].speculation is not False}
    learning = {arm: why for arm, one in facts.items() if (why := learns(one.spec_method)) is not None}
    evidence = Evidence(
        baseline=baseline,
        candidates=candidates,
        greedy=greedy,
        sampled=sampled,
        repeated=[one for _, one in by_kind.get("second", ())],
        known={case: (one[0], one[1]) for case, one in (manifest.experiment.get("known") or {}).items()},
        accepted={arm: pair for arm, pair in accepted.items() if arm not in learning},
        margins=margins_of({key: told for key, told in _told(run.events) if told}),
        numerics={e.data["arm"]: e.data["differences"] for e in _numerics(run.events) if "differences" in e.data},
        prompt_tokens=_prompt_tokens(rows),
        seed=int(manifest.scenario.get("seed") or 0),
        level=float(keys.get("level") or 0.002),
    )
    return QualityRecords(
        evidence,
        list(_passes(run, rows, told)),
        again,
        _asked_again(run.events),
        None if reference is None else str(reference.data.get("run_id")),
        {e.data["arm"]: str(e.data["reason"]) for e in _numerics(run.events) if e.data.get("reason")},
        learning,
    )


def _numerics(events: Sequence[Event]) -> list[Event]:
    return [e for e in events if e.name == NUMERICS]


def _outputs(
    rows: Sequence[Row], baseline: str, experiment: Mapping[str, Any], keys: Mapping[str, Any]
) -> list[tuple[Row, Output]]:
    """Successful answers. Which ids end an answer is told by the baseline's."""
    schemas, formats = experiment.get("schemas") or {}, keys.get("formats") or {}
    found = [(row, _output(row, schemas, formats)) for row in rows if row["outcome"] == "ok"]
    stops = stop_ids_of(one for row, one in found if row["arm"] == baseline and not _ignores_eos(row))
    return [(row, one if _ignores_eos(row) else replace(one, stop_ids=stops)) for row, one in found]


def _output(row: Row, schemas: Mapping[str, Any], formats: Mapping[str, str]) -> Output:
    case, kind = row["case_id"], formats.get(row["task_type"])
    form = None
    if case in schemas:
        form = Format("json_schema", schemas[case])
    elif kind is not None:
        form = Format("python" if kind == "python" else "json")
    ids = row["token_ids"]
    return Output(
        case, row["arm"], row["repeat_idx"], None if ids is None else tuple(ids), row["text"] or "",
        row["finish_reason"], tuple(_sampling(row).get("stop") or ()), row["seed"], form,
        mean_logprob=row["mean_logprob"],
        n_tokens=row["output_len"] if row["output_len_source"] == "usage" else None,
        max_tokens=row["max_tokens"],
    )  # fmt: skip


def _sampling(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(row["sampling"] or "{}")
    return found


def _ignores_eos(row: Row) -> bool:
    return bool(_sampling(row).get("ignore_eos"))


def _apart(
    sampled: Sequence[tuple[Row, Output]], told: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Output], list[SameSeed]]:
    """Answers with seeds of their own, and by arm how many of those asked again came out the same."""
    first: dict[tuple[str, int], Output] = {}
    again: list[tuple[tuple[str, int], Output]] = []
    for row, one in sampled:
        asked = told[row["stage"]]
        different = int(asked["prompts"]) * int(asked["samples"])
        arm, within = divmod(int(row["case_index"]), int(asked["requests"]))
        place = (row["arm"], arm * int(asked["requests"]) + within % different)
        if within < different:
            first[place] = one
        elif one.seed is not None:
            again.append((place, one))
    pairs = [(place[0], first[place], one) for place, one in again if place in first]
    counts = Counter(arm for arm, _, _ in pairs)
    same = Counter(arm for arm, a, b in pairs if (a.token_ids, a.text) == (b.token_ids, b.text))
    return list(first.values()), [SameSeed(arm=arm, asked=n, same=same[arm]) for arm, n in counts.items()]


def _accepted(
    by_kind: Mapping[str, Sequence[tuple[Row, Output]]], arm: str, reference: Event | None
) -> tuple[list[Accepted], list[Accepted]] | None:
    """(reference, now) of a candidate's greedy answers under load: an earlier run's, else its own first passes against
    its last. None where its answers carry no draft counts, or there is nothing to compare with."""
    now = accepted_of([row for row, _ in by_kind.get("greedy", ())], arm)
    if not now:
        return None
    if reference is not None:
        told = (reference.data.get("arms") or {}).get(arm) or ()
        before = [Accepted(str(case), int(drafted), int(taken)) for case, drafted, taken in told]
        return (before, [one for _, one in now]) if before else None
    repeats = sorted({repeat for repeat, _ in now})
    half = len(repeats) // 2
    if not half:
        return None
    return [a for r, a in now if r in repeats[:half]], [a for r, a in now if r in repeats[-half:]]


def learns(method: str | None) -> str | None:
    """Why acceptance at one time says nothing of that at another: the drafter keeps what it has seen, or may."""
    if method is None:
        return (
            "the drafter's method is not told, and one that learns from answers accepts more each time: name it with "
            "the arm's spec_method"
        )
    if method in LEARNING:
        return f"the drafter ({method}) {LEARNING[method]}, so that its acceptance rises with every answer it has seen"
    return None


def accepted_of(rows: Sequence[Row], arm: str) -> list[tuple[int, Accepted]]:
    """(repeat, draft counts) of an arm's rows that carry them."""
    return [
        (row["repeat_idx"], Accepted(row["case_id"], row["drafted_tokens"], row["accepted_tokens"]))
        for row in rows
        if row["arm"] == arm and row["drafted_tokens"] is not None and row["accepted_tokens"] is not None
    ]


def greedy_acceptance(run: RunData) -> dict[str, list[tuple[str, int, int]]]:
    """By arm, (case, drafted, accepted) of the greedy answers under load: what a later run is held against."""
    told = {one["stage"] for one in run.manifest.experiment.get("passes") or () if one["kind"] == "greedy"}
    rows = run.requests.select(_COLUMNS).to_pylist()
    asked = [r for r in rows if r["phase"] == "measure" and r["stage"] in told and r["outcome"] == "ok"]
    found = {arm: [a for _, a in accepted_of(asked, arm)] for arm in run.manifest.arms}
    return {arm: [(a.case_id, a.drafted, a.accepted) for a in some] for arm, some in found.items() if some}


def _prompt_tokens(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        if row["input_len"] is not None:
            found.setdefault(row["arm"], {}).setdefault(row["case_id"], row["input_len"])
    return found


def _told(events: Sequence[Event]) -> Iterator[tuple[str, list[Told]]]:
    for event in events:
        if event.name == ASKED_AGAIN:
            told = [one for one in event.data.get("told", ()) if "least" in one]
            whole = len(told) == len(event.data.get("told", ()))
            yield event.data["key"], [Told(o["ours"], o["theirs"], o["least"]) for o in told] if whole else []


def _asked_again(events: Sequence[Event]) -> AskedAgain:
    asked = [event for event in events if event.name == ASKED_AGAIN]
    whole = next((event.data for event in events if event.name == QUESTIONS), {})
    why = Counter(
        str(one["reason"]) for event in asked for one in event.data.get("told", ()) if "reason" in one
    )  # fmt: skip
    answered = sum(all("least" in one for one in event.data.get("told", ())) for event in asked)
    return AskedAgain(
        questions=int(whole.get("questions", len(asked))), asked=len(asked), answered=answered, unanswered=dict(why)
    )


def _passes(run: RunData, rows: Sequence[Row], told: Mapping[str, Mapping[str, Any]]) -> Iterator[PassAsked]:
    users = {phase.stage: phase.concurrency for phase in run.phases}
    for stage, asked in told.items():
        for arm in run.manifest.arms:
            mine = [row for row in rows if row["stage"] == stage and row["arm"] == arm]
            failed = Counter(row["outcome"] for row in mine if row["outcome"] != "ok")
            yield PassAsked(
                stage=stage, kind=asked["kind"], arm=arm, passes=len({row["repeat_idx"] for row in mine}),
                concurrency=users.get(stage), requests=len(mine), failed=dict(failed),
            )  # fmt: skip
