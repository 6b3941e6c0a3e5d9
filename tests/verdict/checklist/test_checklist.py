"""The go-live checklist from hand-made evidence: every item passes, fails, and is not shown for the reason it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from loadgen.analyze import (
    Absent,
    AccessCheck,
    AccessResult,
    AnomaliesArm,
    AnomaliesResult,
    AnomalyRow,
    ComparisonRow,
    Difference,
    DrillPull,
    DrillResult,
    Estimate,
    ExperimentResult,
    G,
    Losses,
    N,
    SeriesTrend,
    Stability,
    Summary,
    Validity,
    key_checks,
)
from loadgen.analyze.found.anomaly_models import AnomalySkipped
from loadgen.analyze.summary import Arm, ArmResources, Interval, Resources, ResourceUse, Speculation, Speedup
from loadgen.record import ArmFacts
from loadgen.verdict import (
    ITEMS,
    AlertFired,
    AuditEvidence,
    CanaryEvidence,
    Checklist,
    Item,
    Result,
    RunEvidence,
    Verdict,
    checklist_of,
)
from loadgen.verdict.checklist.beside import DRAFTER, GROUPS
from server_adapters.anomalies import CATALOGUE
from server_adapters.anomalies import GROUPS as CATALOGUE_GROUPS
from server_adapters.base import Fact

AT = "2026-11-30T12:00:00+00:00"
CANARY = CanaryEvidence(
    id="canary-1", at=AT, state="pass", share=0.05, model="m",
    alerts=[AlertFired(name="a", about="acceptance", fired=True), AlertFired(name="r", about="rollback", fired=True)],
)  # fmt: skip
AUDIT = AuditEvidence(id="audit-1", at=AT, rows=12)
ENVIRONMENT = {
    "engine.version": "0.32.0", "model.weights": "org/m", "model.revision": "abc", "tokenizer.sha256": "t1",
    "gpu.name": "H100", "speculation.method": "draft_model", "speculation.draft_model": "org/d",
    "speculation.draft_tokenizer_sha256": "t1", "speculation.draft_revision": "def",
    "speculation.rejection_sample_method": "standard", "speculation.acceptance_threshold": "not set",
    "network.round_trip_s": 0.001, "load.running": 0.0,
}  # fmt: skip


def untold(key: str) -> Fact:
    return Fact(None, None, f"{key} untold")


def facts(speculation: bool | None = True, **environment: Any) -> ArmFacts:
    values = {**ENVIRONMENT, **{key.replace("__", "."): value for key, value in environment.items()}}
    if not speculation:
        values = {key: value for key, value in values.items() if not key.startswith("speculation.")}
    return ArmFacts(
        replicas=["http://a"], metrics_sources=[], adapter="vllm", chunk_unit="step", model="m", endpoint="chat",
        capabilities={"version": "0.32.0"},
        environment={k: Fact(v, "test") if v is not None else untold(k) for k, v in values.items()},
        facts={}, spec_method="draft_model" if speculation else None, k=4 if speculation else None,
        speculation=speculation,
    )  # fmt: skip


def interval(value: float | None, low: float | None = None, high: float | None = None, n: int = 20) -> Interval:
    return Interval(value=value, low=low, high=high, n=n, source="client", unit="blocks", method="t")


def row(stage: str = "c4", kind: Any = "net_throughput", **more: Any) -> ComparisonRow:
    speedup = Speedup.model_construct(kind=kind, why="closed loop", value=more.pop("speedup", interval(1.5, 1.4, 1.6)))
    varied = {"baseline": more.pop("variation", interval(0.02, n=5)), "candidate": interval(0.02, n=5)}
    return ComparisonRow.model_construct(
        stage=stage, candidate="candidate", baseline="baseline", task_type=None, input_segment=None,
        output_segment=None, speedup=speedup, repeat_variation=varied, **more,
    )  # fmt: skip


def result(metric: str, aggregate: str, ok: bool | None = True, **where: str) -> Result:
    return Result.model_construct(
        name=f"{metric}: {aggregate}", metric=metric, aggregate=aggregate, arm="candidate", where=where, ok=ok,
        value=1.0, sentence=f"{metric} {aggregate} is {ok}",
    )  # fmt: skip


TAILS = [result("ttft_s", "p95"), result("tpot_s", "p95"), result("total_time_s", "p99")]


def resources(cost: float | None = 2.0, peak: float | None = 8e9) -> Resources:
    def arm() -> ArmResources:
        use = ResourceUse.model_construct(
            cost_per_million_output_tokens=N(value=cost, n=1, source="x", reason="no price"),
            memory_peak_bytes=N(value=peak, n=1, source="x", reason="no telemetry"),
        )
        return ArmResources.model_construct(overall=use, kv_capacity_tokens=N(value=None, n=0, source="x"))

    return Resources.model_construct(arms={"baseline": arm(), "candidate": arm()}, comparison=[])


def summary(**parts: Any) -> Summary:
    unreal = parts.pop("representative", True)
    spec = Speculation.model_construct(representative=unreal, representative_reason="9 of 9 prompts are generated")
    group = G.model_construct(task_type="code", stage=None, speculation=spec)
    base: dict[str, Any] = {
        "validity": Validity(state="valid", reasons=[], client={}), "finished": True, "comparison": [row()],
        "environment": [], "resources": resources(), "stability": Absent(reason="no soak"),
        "arms": {"candidate": Arm.model_construct(by=[group])},
    }  # fmt: skip
    return Summary.model_construct(**{**base, **parts})


def estimate(value: float = 0.7, low: float | None = 0.68, high: float | None = 0.72) -> Estimate:
    return Estimate(value, low, high, 400, "cases", "clustered", "per_request")


def compared(run_id: str = "r-compare", started: str = "2026-11-29T10:00:00+00:00", **more: Any) -> RunEvidence:
    verdict = Verdict.model_construct(run_id=run_id, thresholds=more.pop("thresholds", TAILS))
    base: dict[str, Any] = {
        "arms": {"baseline": facts(False), "candidate": facts(True)}, "summary": summary(**more.pop("parts", {})),
        "verdict": verdict, "acceptance": {"candidate": {"code": estimate()}}, "experiment": "run", "finished": True,
    }  # fmt: skip
    return RunEvidence(run_id=run_id, started=started, **{**base, **more})


def found(kind: Any, state: Any = "pass", reasons: list[str] | None = None) -> ExperimentResult:
    common = {"run_id": "x", "state": state, "reasons": reasons or [], "findings": [], "conditions": {}}
    if kind == "drill":
        return DrillResult(**common, known_by="header", known_note="", pulls=[], limits={}, course=[], served_by={})
    return ExperimentResult(kind=kind, **common)


def experiment(kind: Any, state: Any = "pass", reasons: list[str] | None = None, **more: Any) -> RunEvidence:
    base: dict[str, Any] = {
        "run_id": f"r-{kind}", "started": "2026-11-29T11:00:00+00:00", "experiment": kind, "finished": True,
        "arms": {"candidate": facts(True)}, "summary": summary(comparison=Absent(reason="one arm")),
        "found": None if kind == "soak" else found(kind, state, reasons),
    }  # fmt: skip
    return RunEvidence(**{**base, **more})


def soak(seconds: float = 7200.0, drift: bool = False, n: int = 120, **more: Any) -> RunEvidence:
    drifted = type("Drift", (), {"matters": True, "worse": True, "text": "acceptance falls from 0.7 to 0.6"})()
    names = ("acceptance_rate", "tpot_s", "error_share")
    series = [SeriesTrend.model_construct(name=name, n=n, drift=None) for name in names]
    if drift:
        series[0] = series[0].model_copy(update={"drift": drifted})
    state = "drifting" if drift else "steady"
    part = Stability.model_construct(arm="candidate", stage="c4", state=state, seconds=seconds, series=series)
    whole = summary(stability=[part], comparison=Absent(reason="one arm"))
    return experiment("soak", found=None, summary=whole, **more)


def everything() -> list[RunEvidence]:
    kinds = ("quality", "anomalies", "drill", "access")
    return [compared(), soak(), *(experiment(kind) for kind in kinds)]


def listed(*runs: RunEvidence, files: Any = (), **ages: float) -> Checklist:
    by_id = {name.replace("_", "-"): days for name, days in ages.items()}
    return checklist_of(runs, files, at=AT, age_days=by_id)


def item(found: Checklist, name: str) -> Item:
    return next(one for one in found.items if one.name == name)


def of(name: str, *runs: RunEvidence, files: Any = ()) -> Item:
    return item(listed(*runs, files=files), name)


def test_nothing_given_shows_nothing() -> None:
    found = listed()
    assert {one.state for one in found.items} == {"not_shown"}
    assert (found.state, found.target, found.runs) == ("not_shown", None, [])
    assert [one.name for one in found.items] == [rule.name for rule in ITEMS]
    assert all(one.why and not one.evidence for one in found.items)


def test_all_evidence_shows_all() -> None:
    found = listed(*everything(), files=[CANARY, AUDIT])
    assert {one.name: (one.state, one.why) for one in found.items if one.state != "pass"} == {}
    assert found.state == "pass"
    assert all(one.evidence for one in found.items)
    assert found.target is not None
    assert (found.target.baseline, found.target.candidate) == ("baseline", "candidate")
    assert found.target.facts["engine.version"] == "0.32.0"
    assert "model.dtype" in found.target.unknown


def test_one_failure_fails_the_list() -> None:
    found = listed(*everything(), experiment("drill", "fail", ["3 requests were lost"], run_id="r-drill-2",
                                             started="2026-11-29T12:00:00+00:00"), files=[CANARY, AUDIT])  # fmt: skip
    assert found.state == "fail"
    assert item(found, "kill_switch").why == "3 requests were lost"
    assert item(found, "kill_switch").evidence == ["r-drill-2"], "the newest decides"


def test_the_newest_decides_for_the_better_too() -> None:
    old = experiment("drill", "fail", ["lost"], run_id="r-old", started="2026-11-01T00:00:00+00:00")
    assert of("kill_switch", compared(), old, experiment("drill")).state == "pass"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"engine__version": "0.31.0"}, "engine.version 0.31.0, not 0.32.0"),
        ({"model__revision": "zzz"}, "model.revision zzz, not abc"),
        ({"gpu__name": "A100"}, "gpu.name A100, not H100"),
        ({"speculation__draft_model": "org/other"}, "speculation.draft_model org/other, not org/d"),
        ({"speculation__method": "ngram"}, "speculation.method ngram, not draft_model"),
    ],
)
def test_evidence_of_another_thing_does_not_add_up(changes: dict[str, Any], said: str) -> None:
    drill = experiment("drill", arms={"gateway": facts(True, **changes)})
    found = listed(compared(), drill)
    one = item(found, "kill_switch")
    assert one.state == "not_shown"
    assert "no run of experiment: drill was given (r-drill is of another environment" in one.why
    assert said in one.why
    assert [aside.run_id for aside in found.set_aside] == ["r-drill"]
    assert found.runs == ["r-compare"]


def test_a_different_k_is_another_candidate() -> None:
    drill = experiment("drill", arms={"gateway": facts(True).model_copy(update={"k": 2})})
    assert "speculation.k 2, not 4" in of("kill_switch", compared(), drill).why


def test_the_moment_and_the_way_may_differ_and_what_is_not_told_too() -> None:
    arms = {"gateway": facts(True, network__round_trip_s=0.9, load__running=3.0, gpu__name=None)}
    assert of("kill_switch", compared(), experiment("drill", arms=arms)).state == "pass"


def test_synthetic_acceptance_in_all_runs_is_no_difference_between_them() -> None:
    synthetic = {"speculation__synthetic_rates": [0.9]}
    arms = {"baseline": facts(False), "candidate": facts(True, **synthetic)}
    drill = experiment("drill", arms={"gateway": facts(True, **synthetic)})
    assert of("kill_switch", compared(arms=arms), drill).state == "pass"


def test_the_target_is_the_newest_comparison() -> None:
    other = {"baseline": facts(False), "candidate": facts(True, speculation__draft_model="org/e")}
    newer = compared("r-new", "2026-11-29T20:00:00+00:00", arms=other)
    found = listed(compared(), newer, experiment("drill"))
    assert found.target is not None
    assert found.target.run_id == "r-new"
    assert {aside.run_id for aside in found.set_aside} == {"r-compare", "r-drill"}


def test_numbers_under_a_drill_or_of_a_quality_run_are_no_ordinary_load() -> None:
    """Both have arms, rows and thresholds of their own."""
    own = {"thresholds": [result("ttft_s", "p99", False)], "acceptance": {"candidate": {"code": estimate(0.1)}}}
    quality = compared("r-q", "2026-11-30T00:00:00+00:00", experiment="quality", found=found("quality"), **own)
    seen = listed(compared(), quality)
    for name in ("acceptance_by_task", "net_throughput", "latency_slo", "baseline_reproducible"):
        assert item(seen, name).evidence == ["r-compare"]
    assert seen.target is not None
    assert seen.target.run_id == "r-compare"


def test_access_checks_are_known_by_their_addresses() -> None:
    """They ask nothing of a model and measure nothing."""
    blind = facts(None).model_copy(update={"model": "", "environment": {}, "k": None})
    nothing = summary(validity=invalid(), comparison=[])
    here = experiment("access", arms={"candidate": blind}, summary=nothing, started="2026-11-30T09:00:00+00:00")
    assert of("access", compared(), here, files=[AUDIT]).state == "pass"
    there = replace(here, arms={"candidate": blind.model_copy(update={"replicas": ["http://b"]})})
    assert "of other addresses: http://b" in of("access", compared(), there, files=[AUDIT]).why
    assert listed(here).target is not None


def test_access_to_the_baseline_alone_shows_nothing_of_the_candidate() -> None:
    """The candidate's addresses are others, and all of them must have been looked at."""

    def at(*urls: str, speculation: bool | None = None) -> ArmFacts:
        return facts(speculation).model_copy(update={"replicas": list(urls)})

    run = compared(arms={"baseline": at("http://a", speculation=False), "candidate": at("http://b", "http://c")})

    def asked(*urls: str) -> Item:
        return of("access", run, experiment("access", arms={"server": at(*urls)}), files=[AUDIT])

    assert (asked("http://a").state, "of other addresses: http://a" in asked("http://a").why) == ("not_shown", True)
    assert (asked("http://b").state, asked("http://b").why) == ("not_shown", "r-access did not look at http://c")
    assert asked("http://a", "http://b", "http://c").state == "pass"
    alone = compared(arms={"baseline": at("http://a", speculation=False)})
    only = experiment("access", arms={"server": at("http://a")})
    assert of("access", alone, only, files=[AUDIT]).state == "pass", "no run has shown a candidate"


def test_a_single_arm_with_limits_of_its_own_shows_its_tails() -> None:
    alone = compared("r-slo", "2026-11-30T00:00:00+00:00", arms={"candidate": facts(True)},
                     parts={"comparison": Absent(reason="one arm")})  # fmt: skip
    assert of("latency_slo", compared(), alone).evidence == ["r-slo"]


def test_old_evidence_is_set_aside() -> None:
    found = listed(compared(), experiment("drill"), files=[CANARY], r_drill=31.0, canary_1=45.0)
    assert item(found, "kill_switch").why == (
        "no run of experiment: drill was given (r-drill is too old: 31 days, at most 30)"
    )
    assert item(found, "canary").state == "not_shown"
    assert {aside.run_id for aside in found.set_aside} == {"r-drill", "canary-1"}


def invalid() -> Validity:
    return Validity(state="invalid", reasons=["invalid: the event loop stood still"], client={})


@pytest.mark.parametrize("name", ["baseline_reproducible", "acceptance_by_task", "net_throughput", "latency_slo",
                                  "memory_and_cost"])  # fmt: skip
def test_an_invalid_or_unfinished_run_shows_nothing(name: str) -> None:
    one = of(name, compared(parts={"validity": invalid()}))
    assert (one.state, one.why) == (
        "not_shown", "r-compare is an invalid measurement: invalid: the event loop stood still"
    )  # fmt: skip
    assert of(name, compared(finished=False)).why == "r-compare did not finish"


def test_an_experiment_that_passed_on_an_invalid_measurement_shows_nothing() -> None:
    bad = summary(validity=invalid(), comparison=Absent(reason="one arm"))
    assert of("kill_switch", compared(), experiment("drill", summary=bad)).state == "not_shown"


def test_reproducible() -> None:
    """P: five repeats, 5 %, or what is documented."""

    def variation(value: float, n: int = 5) -> RunEvidence:
        return compared(parts={"comparison": [row(), row("c8", variation=interval(value, n=n))]})

    passed, failed = of("baseline_reproducible", variation(0.05)), of("baseline_reproducible", variation(0.051))
    assert (passed.state, passed.numbers["variation"], passed.numbers["repeats"]) == ("pass", 0.05, 5.0)
    assert (failed.state, failed.numbers["limit"]) == ("fail", 0.05)
    assert of("baseline_reproducible", variation(0.01, n=4)).why == (
        "needs 5 repeats of every load, r-compare has 4"
    )  # fmt: skip
    documented = facts(False).model_copy(update={"facts": {"repeat_variation": 0.08}})
    run = replace(variation(0.07), arms={"baseline": documented, "candidate": facts(True)})
    assert of("baseline_reproducible", run).state == "pass"
    assert of("baseline_reproducible", run).why.endswith("within the 8.0% that baseline's facts document")


@pytest.mark.parametrize(
    ("documented", "state", "said"),
    [
        (0.25, "not_shown", "baseline's facts document repeat_variation: 0.25, which is no share up to 20%"),
        (5.0, "not_shown", "which is no share up to 20%"),
        (-0.1, "not_shown", "which is no share up to 20%"),
        (True, "not_shown", "repeat_variation: True, which is no share"),
        ("a lot", "not_shown", "repeat_variation: 'a lot', which is no share"),
        (0.20, "pass", "within the 20.0% that baseline's facts document"),
        (0.10, "fail", "above the 10.0% that baseline's facts document"),
        (0.01, "fail", "above 5%"),
    ],
)
def test_a_documented_variation_is_bounded(documented: Any, state: str, said: str) -> None:
    """Of a baseline that varies by 12 %: what is documented allows more than 5 %, and not everything."""
    arm = facts(False).model_copy(update={"facts": {"repeat_variation": documented}})
    rows = [row(variation=interval(0.12, n=5))]
    run = compared(arms={"baseline": arm, "candidate": facts(True)}, parts={"comparison": rows})
    one = of("baseline_reproducible", run)
    assert (one.state, said in one.why) == (state, True), one.why
    steady = replace(run, summary=summary(comparison=[row(variation=interval(0.04, n=5))]))
    assert of("baseline_reproducible", steady).state == "pass", "whatever is documented"


def test_what_cannot_show_it_hides_nothing() -> None:
    """A newer soak of both arms, and a newer run, of one repeat each."""
    once = [row(variation=interval(None, n=1))]
    both = {"baseline": facts(False), "candidate": facts(True)}
    newer = soak(arms=both, started="2026-11-29T20:00:00+00:00", run_id="r-soak-2")
    newer = replace(newer, summary=newer.summary.model_copy(update={"comparison": once, "resources": Resources()}))
    seen = listed(compared(), newer)
    for name in ("baseline_reproducible", "tokenizer_and_revision", "sampling_equal", "net_throughput",
                 "memory_and_cost"):  # fmt: skip
        assert (item(seen, name).state, item(seen, name).evidence) == ("pass", ["r-compare"]), name
    quick = compared("r-quick", "2026-11-29T20:00:00+00:00", parts={"comparison": once})
    assert of("baseline_reproducible", compared(), quick).evidence == ["r-compare"]
    assert of("net_throughput", compared(), quick).evidence == ["r-quick"], "the newest that could show it"
    assert of("baseline_reproducible", newer).why == "needs 5 repeats of every load, r-soak-2 has 1"


def unlike(key: str) -> Difference:
    return Difference(key=key, values={"a": 1, "b": 2}, rule="inconclusive", text="the model reads other tokens")


def candidate(**environment: Any) -> RunEvidence:
    return compared(arms={"baseline": facts(False), "candidate": facts(True, **environment)})


def test_tokenizer_and_revision() -> None:
    name = "tokenizer_and_revision"
    assert of(name, compared()).why == "one tokenizer (t1); revisions: target abc, draft def"
    assert of(name, compared(parts={"environment": [unlike("tokenizer.ids")]})).state == "fail"
    assert of(name, compared(parts={"environment": [unlike("model.dtype")]})).state == "fail"
    assert of(name, candidate(speculation__draft_tokenizer_sha256="t2")).state == "fail"
    unknown = of(name, candidate(speculation__draft_tokenizer_sha256=None))
    assert (unknown.state, "speculation.draft_tokenizer_sha256 untold" in unknown.why) == ("not_shown", True)
    assert of(name, candidate(speculation__method="ngram", speculation__draft_tokenizer_sha256=None)).state == "pass"
    assert of(name, candidate(speculation__method="eagle3", speculation__draft_tokenizer_sha256=None)).state == "pass"


def test_sampling() -> None:
    name = "sampling_equal"
    assert of(name, compared()).state == "pass"
    assert of(name, compared(parts={"environment": [unlike("sampling.defaults")]})).state == "fail"
    assert of(name, candidate(speculation__rejection_sample_method="synthetic")).state == "fail"
    assert of(name, candidate(speculation__acceptance_threshold=0.09)).state == "fail"
    for exact in ("not set", "no such option", 1.0):
        assert of(name, candidate(speculation__acceptance_threshold=exact)).state == "pass"
    assert of(name, candidate(speculation__rejection_sample_method=None)).state == "not_shown"
    unknown = of(name, candidate(speculation__acceptance_threshold=None))
    assert (unknown.state, unknown.why) == (
        "not_shown", "whether a threshold accepts drafts is not known (speculation.acceptance_threshold untold)"
    )  # fmt: skip
    synthetic = {"speculation__acceptance_threshold": None, "speculation__rejection_sample_method": "synthetic"}
    assert of(name, candidate(**synthetic)).state == "fail", "what is known to be wrong needs no more"


def test_acceptance() -> None:
    name = "acceptance_by_task"
    narrow = of(name, compared())
    assert (narrow.state, narrow.numbers["code"]) == ("pass", 0.7)
    assert narrow.numbers["code_half_width"] == pytest.approx(0.02)
    wide = compared(acceptance={"candidate": {"code": estimate(), "qa": estimate(0.6, 0.5, 0.7)}})
    assert (of(name, wide).state, "qa ± 10.0% (n = 400)" in of(name, wide).why) == ("not_shown", True)
    unknown = compared(acceptance={"candidate": {"code": estimate(0.7, None, None)}})
    assert "code no interval" in of(name, unknown).why
    unreal = compared(parts={"representative": False})
    assert of(name, unreal).why == "not representative: 9 of 9 prompts are generated"


def test_net_throughput() -> None:
    name = "net_throughput"
    assert of(name, compared()).numbers == {"c4": 1.5}

    def rows(*found: ComparisonRow, thresholds: Any = TAILS) -> Item:
        return of(name, compared(parts={"comparison": list(found)}, thresholds=thresholds))

    slower = row("c16", speedup=interval(0.9, 0.85, 0.95))
    unsure = row("c16", speedup=interval(1.0, 0.9, 1.1))
    assert (rows(row(), slower).state, rows(row(), unsure).state) == ("fail", "not_shown")
    assert "below 1 at c16" in rows(row(), slower).why
    assert rows(row(kind="tpot")).why.startswith("no closed-loop comparison was given")
    own = [result("speedup", "value", True, stage="c4")]
    assert rows(row(), thresholds=own).why == "the threshold on it is met"
    assert rows(row(), thresholds=[result("speedup", "value", False)]).state == "fail"
    assert rows(row(), thresholds=[result("speedup", "value", None)]).state == "not_shown"
    elsewhere = [result("speedup", "value", False, stage="r2")]
    assert rows(row(), row("r2", kind="tpot"), thresholds=elsewhere).state == "pass", "an open loop's is of TPOT"


def test_latency() -> None:
    name = "latency_slo"
    assert of(name, compared()).state == "pass"
    assert of(name, compared(thresholds=TAILS[:2])).why == "no limit on a P99 was judged"
    assert of(name, compared(thresholds=[*TAILS, result("ttft_s", "p99", False)])).state == "fail"
    assert of(name, compared(thresholds=[*TAILS, result("ttft_s", "p99", None)])).state == "not_shown"
    assert of(name, compared(thresholds=[result("ttft_s", "med")])).why == "no verdict on a P95 or P99 was given"


def test_memory_and_cost() -> None:
    name = "memory_and_cost"
    assert of(name, compared()).numbers["candidate_cost_per_million"] == 2.0
    without = of(name, compared(parts={"resources": resources(cost=None)}))
    assert (without.state, without.why) == ("not_shown", "cost of baseline: no price; cost of candidate: no price")
    assert of(name, compared(parts={"resources": resources(peak=None)})).state == "not_shown"
    assert of(name, compared(parts={"resources": Resources()})).why == "baseline has no telemetry"


def test_stability() -> None:
    assert of("stability", compared(), soak()).state == "pass"
    drifting = of("stability", compared(), soak(drift=True))
    assert (drifting.state, drifting.why) == ("fail", "acceptance falls from 0.7 to 0.6")
    assert of("stability", compared(), soak(seconds=600)).why == (
        "10 minutes of steady load are too short, at least 30 are needed"
    )


def test_a_soak_that_was_bad_all_the_time_or_saw_little_is_no_pass() -> None:
    """Half of the requests failing for hours is no drift."""
    verdict = Verdict.model_construct(
        run_id="r-soak", verdict="fail", thresholds=[result("error_share", "value", False)]
    )
    bad = of("stability", compared(), soak(verdict=verdict))
    assert (bad.state, bad.why) == ("fail", "steady, and not good: error_share value is False")
    blind = of("stability", compared(), soak(n=12))
    assert (blind.state, blind.why) == ("not_shown", "acceptance_rate, tpot_s, error_share could not be followed")


@pytest.mark.parametrize("kind", ["quality", "anomalies", "drill"])
def test_an_experiment_on_the_baseline_alone_shows_nothing(kind: str) -> None:
    name = {"drill": "kill_switch"}.get(kind, kind)
    assert of(name, compared(), experiment(kind, arms={"baseline": facts(False)})).state == "not_shown"


def bad_requests(*groups: str, arm: str = "candidate", skipped: bool | None = None, **more: Any) -> AnomaliesArm:
    """One anomaly of each group. `skipped`: the one beyond the drafter was not made; True: its limit is unknown."""
    rows = [AnomalyRow.model_construct(name=more.get(group, group), group=group) for group in groups]
    left_out = [] if skipped is None else [AnomalySkipped(name=DRAFTER, reason="r", unknown=skipped)]
    return AnomaliesArm.model_construct(arm=arm, rows=rows, sent=len(rows), skipped=left_out)


def sent(*arms: AnomaliesArm) -> Item:
    told = AnomaliesResult.model_construct(state="pass", reasons=[], arms=list(arms))
    names = {arm.arm: facts(arm.arm != "baseline") for arm in arms}
    return of("anomalies", compared(), experiment("anomalies", found=told, arms=names))


def test_a_part_of_the_anomalies_is_no_catalogue() -> None:
    assert set(GROUPS) <= set(CATALOGUE_GROUPS)
    assert sent(bad_requests("json")).why.startswith("r-anomalies sent none of too_long, empty, types")
    whole = sent(bad_requests(*GROUPS, too_long=DRAFTER))
    assert (whole.state, whole.numbers) == ("pass", {"sent": float(len(GROUPS))})
    other = sent(bad_requests("json"), bad_requests(*GROUPS, arm="baseline", too_long=DRAFTER))
    assert other.why.startswith("r-anomalies sent none of too_long, empty"), "what the baseline got is no evidence"


@pytest.mark.parametrize(("skipped", "state"), [(None, "not_shown"), (True, "not_shown"), (False, "pass")])
def test_nothing_beyond_the_drafters_limit_is_no_catalogue(skipped: bool | None, state: str) -> None:
    """J1: left out by the user, not known, or known to have nothing to hit; other long prompts are not it."""
    assert DRAFTER in CATALOGUE
    one = sent(bad_requests(*GROUPS, skipped=skipped))
    assert one.state == state
    if state == "not_shown":
        assert one.why == "r-anomalies sent none of long_for_drafter (anomalies.include, exclude)"
    assert sent(bad_requests(*GROUPS, too_long=DRAFTER), bad_requests(*GROUPS, arm="baseline")).state == "pass"


@pytest.mark.parametrize(
    ("pulls", "said"),
    [
        ([(0.5, 0.7), (0.9, None)], "the last request was routed to the speculating side after at most 0.9 s"),
        (
            [(0.5, 0.7), (None, 0.4)],
            "the last round of verification came after at most 0.7 s, by counters; which request was the last is not "
            "known",
        ),
        ([(None, None), (0.5, 0.7)], "when the last request was routed there is not known"),
    ],
)
def test_a_drill_says_what_it_has_shown(pulls: list[tuple[float | None, float | None]], said: str) -> None:
    """The latest of all pulls, of which each must tell; one number is exact, the other a bound."""

    def pull(routed: float | None, rounds: float | None) -> DrillPull:
        return DrillPull.model_construct(
            direction="off", losses=Losses.model_construct(lost=0, lost_most=0),
            last_routed_s=N(value=routed, n=9, source="header", reason="untold"),
            last_round_s=N(value=None, low=0.0, high=rounds, n=9, source="counters", reason="untold"),
        )  # fmt: skip

    told = found("drill").model_copy(update={"pulls": [pull(*one) for one in pulls]})
    one = of("kill_switch", compared(), experiment("drill", found=told))
    assert (one.state, one.why) == ("pass", f"0 requests lost in 2 pulls; {said}")


@pytest.mark.parametrize(
    ("directions", "pulls"),
    [(("off", "on"), "1 pull there and back"), (("off", "on", "off"), "2 pulls there and 1 back")],
)
def test_a_drills_last_request_is_told_by_its_upper_bound(directions: tuple[Any, ...], pulls: str) -> None:
    """None was sent to the speculating side after the pull; the first that went to the fallback came 1.68 s later."""

    def pull(direction: Any) -> DrillPull:
        return DrillPull.model_construct(
            direction=direction, losses=Losses.model_construct(lost=0, lost_most=0),
            last_routed_s=N(value=0.0, low=0.0, high=1.68, n=9, source="header"),
        )  # fmt: skip

    told = found("drill").model_copy(update={"pulls": [pull(one) for one in directions]})
    one = of("kill_switch", compared(), experiment("drill", found=told))
    assert one.why == (
        f"0 requests lost in {pulls}; the last request was routed to the speculating side after at most 1.68 s"
    )


def looked(state: Any = "pass", chat: Any = "pass") -> RunEvidence:
    """What an access check knows of its arm: where it is."""
    nothing = {"model": "", "environment": {}, "capabilities": {}, "spec_method": None, "k": None, "speculation": None}
    arm = facts().model_copy(update=nothing)
    keys = dict.fromkeys(key_checks("completions"), "pass") | dict.fromkeys(key_checks("chat"), chat)
    checks = [
        AccessCheck(arm="candidate", place="http://a", check=name, state=word, seen=words, how="")
        for name, word, words in (("transport", state, "plain HTTP"), *((n, w, "status 405") for n, w in keys.items()))
        if word is not None
    ]
    told = AccessResult(run_id="x", state="pass", reasons=[], findings=[], conditions={}, checks=checks, requests=9)
    return experiment("access", found=told, arms={"candidate": arm})


def test_access_shows_the_route_that_the_targets_requests_take() -> None:
    """An access check of completions alone, and a candidate that is asked for chat."""
    open_ = of("access", compared(), looked(chat="not_shown"), files=[AUDIT])
    assert (open_.state, open_.why) == (
        "not_shown",
        "r-access does not show whether a key is asked for where requests go (http://a: chat_key_missing: status 405)",
    )
    assert "(chat_key_missing was not looked at)" in of("access", compared(), looked(chat=None), files=[AUDIT]).why
    completions = {name: facts(name == "candidate").model_copy(update={"endpoint": "completions"})
                   for name in ("baseline", "candidate")}  # fmt: skip
    assert of("access", compared(arms=completions), looked(chat="not_shown"), files=[AUDIT]).state == "pass"


def test_access_over_plain_http_shows_no_encryption() -> None:
    """On a loopback address that is a warning of the check, and no pass of the list."""
    assert of("access", compared(), looked(), files=[AUDIT]).state == "pass"
    open_ = of("access", compared(), looked(state="warning"), files=[AUDIT])
    assert (open_.state, open_.why) == ("not_shown", "transport encryption is not shown: http://a: plain HTTP")


@pytest.mark.parametrize(
    ("name", "kind"), [("quality", "quality"), ("anomalies", "anomalies"), ("kill_switch", "drill")]
)
def test_experiments(name: str, kind: str) -> None:
    assert of(name, compared(), experiment(kind)).state == "pass"
    assert of(name, compared(), experiment(kind, "fail", ["a", "b"])).why == "a; and 1 more"
    assert of(name, compared(), experiment(kind, "inconclusive", ["cut short"])).state == "not_shown"
    assert of(name, compared(), experiment(kind, found=None)).state == "not_shown"


def test_access_needs_the_endpoints_and_the_log() -> None:
    whole, broken = experiment("access"), AUDIT.model_copy(update={"broken_at": 7})
    assert of("access", compared(), whole, files=[AUDIT]).evidence == ["r-access", "audit-1"]
    assert of("access", compared(), whole).why == "the endpoints pass; no audit log was given (audit.json)"
    assert of("access", compared(), files=[AUDIT]).state == "not_shown"
    assert of("access", compared(), whole, files=[broken]).state == "fail"
    assert of("access", compared(), experiment("access", "fail", ["open"]), files=[AUDIT]).why == "open"


@pytest.mark.parametrize(
    ("changes", "state", "said"),
    [
        ({}, "pass", "5.0% of the traffic"),
        ({"state": "fail", "reasons": ["acceptance fell"]}, "fail", "acceptance fell"),
        ({"state": "inconclusive"}, "not_shown", "the canary came to no verdict"),
        ({"share": None}, "not_shown", "its share of the traffic is not set"),
        ({"alerts": CANARY.alerts[:1]}, "not_shown", "no alert on rollback was seen to fire"),
        ({"model": "another"}, "not_shown", "canary-1 is of another model or engine"),
        ({"engine_version": "0.31.0"}, "not_shown", "canary-1 is of another model or engine"),
        ({"model": None}, "not_shown", "canary-1 does not tell its model"),
        ({"engine_version": "0.32.0"}, "pass", "alerts on acceptance and rollback fired"),
    ],
)
def test_canary(changes: dict[str, Any], state: str, said: str) -> None:
    one = of("canary", compared(), files=[CANARY.model_copy(update=changes)])
    assert (one.state, said in one.why) == (state, True), one.why


def test_alerts_are_proven_on_a_canary_that_is_bad_on_purpose() -> None:
    bad = CANARY.model_copy(update={"id": "canary-0", "at": "2026-11-28T00:00:00+00:00", "state": "fail"})
    good = CANARY.model_copy(update={"alerts": []})
    one = of("canary", compared(), files=[bad, good])
    assert (one.state, one.evidence) == ("pass", ["canary-1", "canary-0"])
    for other in ({"model": "another"}, {"model": None}, {"engine_version": "0.31.0"}):
        shown = of("canary", compared(), files=[bad.model_copy(update=other), good])
        assert (shown.state, shown.evidence, shown.numbers["alerts_fired"]) == ("not_shown", ["canary-1"], 0.0)
        assert "no alert on acceptance was seen to fire" in shown.why
        assert "canary-0 " in shown.why, "and why its alerts prove nothing"


def test_the_order_in_which_evidence_is_given_does_not_matter() -> None:
    ids: Callable[[Checklist], Any] = lambda found: [(one.state, one.why, one.evidence) for one in found.items]  # noqa: E731
    runs = everything()
    assert ids(listed(*runs, files=[CANARY, AUDIT])) == ids(listed(*reversed(runs), files=[AUDIT, CANARY]))
