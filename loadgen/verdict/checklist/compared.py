"""Items that a comparison of the two arms shows (docs/checklist.md)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loadgen.analyze import ComparisonRow, Difference, Interval
from loadgen.record import ArmFacts
from loadgen.verdict.checklist.evidence import RunEvidence
from loadgen.verdict.checklist.model import ItemState
from loadgen.verdict.checklist.seen import Found, Seen, not_shown
from loadgen.verdict.model import Result

REPEATS, VARIATION = 5, 0.05
#: Where an arm's facts say that its baseline is known to vary by more, that is the limit; beyond the second it is no
#: baseline that a gain of the usual size can be held against, whatever is documented.
DOCUMENTED, MOST_DOCUMENTED = "repeat_variation", 0.20
#: Half the width of the 95 % interval of acceptance, in points of share.
HALF_WIDTH = 0.05
SPEEDUP = 1.0
NO_RUN = "no run that compares a baseline with a candidate was given"
#: Drafts without a second model, and heads on the target's own states: no tokenizer of their own.
_NO_MODEL = ("ngram", "suffix", "prompt_lookup")
_HEADS = ("eagle", "medusa", "mtp", "mlp_speculator")
#: Rejection that keeps the target's distribution.
_LOSSLESS = ("standard", "strict", "block", "probabilistic")
_LATENCIES = frozenset({"ttft_s", "ttft_answer_s", "ttft_from_due_s", "tpot_s", "total_time_s", "total_time_from_due_s",
                        "non_stream_total_time_s"})  # fmt: skip
#: What an engine says of a threshold that accepts nothing by itself.
_NO_THRESHOLD = ("not set", "no such option", 1, 1.0)


def reproducible(seen: Seen) -> Found:
    """Of the newest comparison with enough repeats; one with fewer cannot show it."""
    run = seen.compared(_repeated) or seen.compared()
    if run is None:
        return seen.without(NO_RUN, "run")
    if (why := run.unusable) is not None:
        return not_shown(why, run.run_id)
    baseline = _names(seen, run)[0]
    found = _variations(seen, run)
    if not _repeated(seen, run):
        repeats = min((n.n for n in found if n.value is None or n.n < REPEATS), default=0)
        return not_shown(f"needs {REPEATS} repeats of every load, {run.run_id} has {repeats}", run.run_id)
    worst, repeats = max(n.value for n in found if n.value is not None), min(n.n for n in found)
    numbers = {"variation": worst, "limit": VARIATION, "repeats": float(repeats)}
    text = f"the baseline varies by {worst:.1%} (coefficient of variation) over {repeats} repeats"
    documented = run.arms[baseline].facts.get(DOCUMENTED, VARIATION)
    limit = VARIATION if worst <= VARIATION else _limit(documented)
    if limit is None:
        said = f"{baseline}'s facts document {DOCUMENTED}: {documented!r:.40}"
        why = f"{text}; {said}, which is no share up to {MOST_DOCUMENTED:.0%}"
        return Found("not_shown", why, (run.run_id,), numbers)
    passed = worst <= limit
    whose = f"the {limit:.1%} that {baseline}'s facts document" if limit > VARIATION else f"{limit:.0%}"
    return Found(
        "pass" if passed else "fail", f"{text}, {'within' if passed else 'above'} {whose}", (run.run_id,),
        numbers | {"limit": limit},
    )  # fmt: skip


def _limit(documented: object) -> float | None:
    """None where it is no variation that can be documented. Less than the usual limit leaves that as it is."""
    if isinstance(documented, bool) or not isinstance(documented, int | float):
        return None
    return max(float(documented), VARIATION) if 0 <= documented <= MOST_DOCUMENTED else None


def _variations(seen: Seen, run: RunEvidence) -> list[Interval]:
    baseline = _names(seen, run)[0]
    return [row.repeat_variation[baseline] for row in _whole(run) if baseline in row.repeat_variation]


def _repeated(seen: Seen, run: RunEvidence) -> bool:
    found = _variations(seen, run)
    return bool(found) and all(n.value is not None and n.n >= REPEATS for n in found)


def tokenizer_and_revision(seen: Seen) -> Found:
    run = seen.compared()
    if run is None:
        return seen.without(NO_RUN, "run")
    unlike = _unlike(run, ("tokenizer.", "template.", "model.", "requests.prompt_tokens"))
    if unlike:
        return Found("fail", f"the arms are not alike: {_texts(unlike)}", (run.run_id,))
    facts = run.arms[_names(seen, run)[1]]
    method = str(_known(facts, "speculation.method") or facts.spec_method or "")
    if any(method.startswith(word) for word in _NO_MODEL):
        return Found("pass", f"{method} drafts without a second model; the arms' models are alike", (run.run_id,))
    if any(word in method for word in _HEADS):
        why = f"{method} drafts with heads on the target's own states; the arms' models are alike"
        return Found("pass", why, (run.run_id,))
    return _draft(run, facts)


def _draft(run: RunEvidence, facts: ArmFacts) -> Found:
    keys = ("tokenizer.sha256", "speculation.draft_tokenizer_sha256", "model.revision", "speculation.draft_revision")
    target, draft, revision, draft_revision = (_known(facts, key) for key in keys)
    if target is not None and draft is not None and target != draft:
        return Found("fail", f"draft and target have different tokenizers ({draft}, not {target})", (run.run_id,))
    missing = [key for key in keys if _known(facts, key) is None]
    if missing:
        reasons = {_reason(facts, key) for key in missing}
        return not_shown(f"not known: {', '.join(missing)} ({'; '.join(sorted(reasons))})", run.run_id)
    why = f"one tokenizer ({target}); revisions: target {revision}, draft {draft_revision}"
    return Found("pass", why, (run.run_id,))


def sampling(seen: Seen) -> Found:
    run = seen.compared()
    if run is None:
        return seen.without(NO_RUN, "run")
    unlike = _unlike(run, ("sampling.",))
    if unlike:
        return Found("fail", f"the arms are not alike: {_texts(unlike)}", (run.run_id,))
    facts = run.arms[_names(seen, run)[1]]
    threshold = _known(facts, "speculation.acceptance_threshold")
    if threshold not in (None, *_NO_THRESHOLD):
        why = f"drafts are accepted by a threshold ({threshold}): the outputs are not the target's own"
        return Found("fail", why, (run.run_id,))
    method = _known(facts, "speculation.rejection_sample_method")
    if method not in (None, *_LOSSLESS):
        return Found("fail", f"drafts are rejected by {method}: the outputs are not the target's own", (run.run_id,))
    if method is None:
        why = _reason(facts, "speculation.rejection_sample_method")
        return not_shown(f"how drafts are rejected is not known ({why})", run.run_id)
    if threshold is None:
        why = _reason(facts, "speculation.acceptance_threshold")
        return not_shown(f"whether a threshold accepts drafts is not known ({why})", run.run_id)
    why = f"every request carried the same sampling parameters to both arms; drafts are rejected by {method}"
    return Found("pass", why, (run.run_id,))


def acceptance(seen: Seen) -> Found:
    """Of the newest run or soak of a speculating arm."""
    run = seen.newest(lambda r: r.measured and any(r.acceptance.values()))
    if run is None:
        return seen.without("no run of a speculating arm was given", "run")
    if (why := run.unusable) is not None:
        return not_shown(why, run.run_id)
    arm, tasks = next((name, tasks) for name, tasks in run.acceptance.items() if tasks)
    numbers: dict[str, float | None] = {}
    wide = []
    for task, found in tasks.items():
        half = None if found.low is None or found.high is None else (found.high - found.low) / 2
        numbers |= {task: found.value, f"{task}_half_width": half}
        if half is None or half > HALF_WIDTH:
            wide.append(f"{task} {'no interval' if half is None else f'± {half:.1%}'} (n = {found.n})")
    if wide:
        why = f"too few samples for ± {HALF_WIDTH:.0%}: {', '.join(wide)}"
        return Found("not_shown", why, (run.run_id,), numbers)
    unreal = [g.speculation.representative_reason or "" for g in run.summary.arms[arm].by
              if g.task_type in tasks and g.stage is None and not g.speculation.representative]  # fmt: skip
    if unreal:
        return Found("not_shown", f"not representative: {unreal[0]}", (run.run_id,), numbers)
    shown = ", ".join(f"{task} {found.value:.1%}" for task, found in tasks.items() if found.value is not None)
    return Found("pass", f"{shown}, each within ± {HALF_WIDTH:.0%}", (run.run_id,), numbers)


def net_throughput(seen: Seen) -> Found:
    """By the verdict's own thresholds on it where there are any, else above 1 at every load."""
    run = seen.compared(lambda _, r: bool(_net(seen, r)))
    if run is None:
        missing = "no closed-loop comparison was given: only that measures net throughput"
        return seen.without(missing, "run")
    if (why := run.unusable) is not None:
        return not_shown(why, run.run_id)
    rows = _net(seen, run)
    numbers = {row.stage: row.speedup.value.value for row in rows}
    results = [r for r in _results(seen, run, {"speedup", "speedup_net"}) if r.where.get("stage") in {None, *numbers}]
    if results:
        return _by_results(results, run, numbers)
    bounds = [(row.stage, row.speedup.value.low, row.speedup.value.high) for row in rows]
    slower = [stage for stage, _, high in bounds if high is not None and high < SPEEDUP]
    open_ = [stage for stage, low, _ in bounds if low is None or low < SPEEDUP]
    state: ItemState = "fail" if slower else "not_shown" if open_ else "pass"
    text = ", ".join(f"{stage} {value:.3g}×" for stage, value in numbers.items() if value is not None)
    why = f"candidate ÷ baseline: {text or 'not known'}"
    if slower or open_:
        why += f"; {'below' if slower else 'not shown to be above'} 1 at {', '.join(slower or open_)}"
    return Found(state, why, (run.run_id,), numbers)


def latency(seen: Seen) -> Found:
    run = seen.newest(lambda r: r.measured and bool(_tails(seen, r)))
    if run is None:
        return seen.without("no verdict on a P95 or P99 was given", "run")
    if (why := run.unusable) is not None:
        return not_shown(why, run.run_id)
    results = _tails(seen, run)
    missing = [word for word in ("p95", "p99") if word not in {r.aggregate for r in results}]
    found = _by_results(results, run, {r.name: r.value for r in results})
    if missing and found.state == "pass":
        return Found("not_shown", f"no limit on a {missing[0].upper()} was judged", (run.run_id,), found.numbers)
    return found


def memory_and_cost(seen: Seen) -> Found:
    run = seen.compared()
    if run is None:
        return seen.without(NO_RUN, "run")
    if (why := run.unusable) is not None:
        return not_shown(why, run.run_id)
    numbers: dict[str, float | None] = {}
    missing: dict[str, None] = {}
    for name in _names(seen, run):
        arm = run.summary.resources.arms.get(name)
        if arm is None:
            return not_shown(f"{name} has no telemetry", run.run_id)
        cost, peak = arm.overall.cost_per_million_output_tokens, arm.overall.memory_peak_bytes
        kv = arm.kv_capacity_tokens
        numbers |= {f"{name}_cost_per_million": cost.value, f"{name}_memory_peak_bytes": peak.value,
                    f"{name}_kv_capacity_tokens": kv.value}  # fmt: skip
        if cost.value is None:
            missing[f"cost of {name}: {cost.reason}"] = None
        if peak.value is None and kv.value is None:
            missing[f"memory of {name}: {peak.reason}"] = None
    if missing:
        return Found("not_shown", "; ".join(missing), (run.run_id,), numbers)
    return Found("pass", _cost_text(seen, run, numbers), (run.run_id,), numbers)


def _cost_text(seen: Seen, run: RunEvidence, numbers: dict[str, float | None]) -> str:
    costs = [f"{name} {numbers[f'{name}_cost_per_million']:.4g}" for name in _names(seen, run)]
    delta = [row.sentence for row in run.summary.resources.comparison][:1]
    return "; ".join([f"per million output tokens: {', '.join(costs)}", *delta])


def _names(seen: Seen, run: RunEvidence) -> tuple[str, str]:
    names = seen.names(run)
    assert names is not None
    return names


def _rows(run: RunEvidence) -> Sequence[ComparisonRow]:
    return run.summary.comparison if isinstance(run.summary.comparison, list) else ()


def _whole(run: RunEvidence) -> list[ComparisonRow]:
    return [r for r in _rows(run) if (r.task_type, r.input_segment, r.output_segment) == (None, None, None)]


def _net(seen: Seen, run: RunEvidence) -> list[ComparisonRow]:
    names = seen.names(run)
    if names is None:
        return []
    return [r for r in _whole(run) if r.candidate == names[1] and r.speedup.kind == "net_throughput"]


def _results(seen: Seen, run: RunEvidence, metrics: Iterable[str]) -> list[Result]:
    """Of the candidate."""
    name, wanted = seen.candidate(run), frozenset(metrics)
    if run.verdict is None:
        return []
    return [r for r in run.verdict.thresholds if r.metric in wanted and r.arm == name]


def _tails(seen: Seen, run: RunEvidence) -> list[Result]:
    return [r for r in _results(seen, run, _LATENCIES) if r.aggregate in ("p95", "p99")]


def _by_results(results: Sequence[Result], run: RunEvidence, numbers: dict[str, float | None]) -> Found:
    failed = [r.sentence for r in results if r.ok is False]
    open_ = [r.sentence for r in results if r.ok is None]
    if failed or open_:
        first = (failed or open_)[0]
        more = f"; and {len(failed or open_) - 1} more" if len(failed or open_) > 1 else ""
        return Found("fail" if failed else "not_shown", f"{first}{more}", (run.run_id,), numbers)
    met = "the threshold on it is met" if len(results) == 1 else f"all {len(results)} thresholds on it are met"
    return Found("pass", met, (run.run_id,), numbers)


def _unlike(run: RunEvidence, prefixes: tuple[str, ...]) -> list[Difference]:
    return [d for d in run.summary.environment if d.rule == "inconclusive" and d.key.startswith(prefixes)]


def _texts(found: Iterable[Difference]) -> str:
    return "; ".join(f"{d.key}: {d.text}" for d in found)


def _known(facts: ArmFacts, key: str) -> object:
    fact = facts.environment.get(key)
    return None if fact is None else fact.value


def _reason(facts: ArmFacts, key: str) -> str:
    fact = facts.environment.get(key)
    return (fact.reason if fact is not None else None) or "the server does not tell it"
