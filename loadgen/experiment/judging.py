"""A run directory to its verdict: what analyze found, laid before the verdict room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from loadgen.analyze import Absent, Difference, Estimates, ExperimentResult, Summary, analyze
from loadgen.errors import ScenarioError, StorageError
from loadgen.experiment.nodes import node_effects
from loadgen.experiment.progress import Progress
from loadgen.record import Manifest, RunData, open_run
from loadgen.report import render_html, reproduce
from loadgen.scenario import Threshold, read_thresholds
from loadgen.verdict import Facts, Verdict, default_thresholds, judge

#: Experiments whose findings are a file of their own, with a state.
FOUND = ("quality", "anomalies", "drill", "access")


@dataclass(frozen=True)
class Judged:
    """`verdict` None: one arm, and no thresholds. It stands in `summary`, too."""

    summary: Summary
    verdict: Verdict | None


def judge_run(run: RunData, thresholds: Sequence[Threshold] | None = None) -> Judged:
    """Every number of a run, and its verdict. `thresholds`: of the command line, instead of the scenario's. Raises
    ScenarioError where one of those names an arm that the run does not have."""
    asked = thresholds is not None
    if run.manifest.experiment.get("passes"):  # its passes are at different loads: there is no speed to judge
        return Judged(analyze(run), None)
    if thresholds is None:
        thresholds = read_thresholds(run.manifest.scenario.get("thresholds") or ())
    else:
        refuse_other_arms(thresholds, tuple(run.manifest.arms), f"of {run.manifest.run_id}")
    estimates = Estimates(run)
    summary = analyze(run, estimates)
    verdict = judge(thresholds, estimates, _facts(run, summary, estimates, thresholds))
    if verdict is not None and asked:
        verdict = verdict.model_copy(update={"thresholds_from": "command_line"})
    if verdict is not None:
        summary = summary.model_copy(update={"verdict": verdict.model_dump(mode="json")})
    else:
        summary = summary.model_copy(update={"verdict": Absent(reason=_unjudged(run))})
    return Judged(summary, verdict)


def _unjudged(run: RunData) -> str:
    kind = str(run.manifest.scenario.get("experiment", "run"))
    told = f"; what the {kind} found is judged by itself" if kind in FOUND else ""
    return f"one arm, and no thresholds in its scenario{told}"


def refuse_other_arms(thresholds: Sequence[Threshold], arms: Sequence[str], whose: str) -> None:
    """Raises ScenarioError where a threshold names an arm that is not one of these."""
    problems = [
        f'"{threshold}": {arm} is no arm {whose}; these are: {", ".join(arms)}'
        for threshold in thresholds
        if (arm := threshold.selector("arm")) is not None and arm not in arms
    ]
    if problems:
        raise ScenarioError(problems)


def _facts(run: RunData, summary: Summary, estimates: Estimates, thresholds: Sequence[Threshold]) -> Facts:
    manifest, compared = run.manifest, estimates.baseline is not None
    stages = pooled_stages(estimates)
    return Facts(
        run_id=manifest.run_id,
        arms=estimates.arms,
        baseline=estimates.baseline,
        design=estimates.design.partition(":")[0] if compared else None,
        paired=estimates.paired if compared else None,
        finished=summary.finished,
        stop_reason=manifest.stop_reason,
        validity=summary.validity.state,
        validity_reasons=tuple(summary.validity.reasons),
        differences=tuple(difference_text(d) for d in summary.environment if d.rule == "inconclusive"),
        noted=(*_noted(summary.environment), *(_short_blocks(estimates) if compared else ())),
        swapped=bool(manifest.comparison.get("swap")),
        unexchanged=tuple(unexchanged(run, estimates)),
        node_effects=node_effects(run, thresholds or default_thresholds(2, stages if len(stages) > 1 else ())),
        shard=manifest.shard,
        reproduce=reproduce(manifest),
        stages=stages,
        mixed=estimates.mixed(),
    )


def _short_blocks(estimates: Estimates) -> Iterator[str]:
    short = [f"{stage} {seconds:.2g} s" for stage, seconds in estimates.short_blocks()]
    if short:
        yield f"blocks are short, mostly filling and draining (10 to 30 s are good): {', '.join(short)}"


def unexchanged(run: RunData, estimates: Estimates) -> Iterator[str]:
    """Where nodes were to be swapped: the stages whose whole blocks are not half and half (of an odd number one more),
    as "c8: 20 before the exchange, 3 after it". What the nodes add is then in the difference of the arms."""
    if not run.manifest.comparison.get("swap"):
        return
    for stage, before, after in estimates.halves():
        if not before or not after or abs(before - after) > 1:
            yield f"{stage}: {before} before the exchange, {after} after it"


def pooled_stages(estimates: Estimates) -> tuple[str, ...]:
    """Those that a question without a stage is about: stages that end by time are not paired."""
    return tuple(stage for stage in estimates.stages() if stage not in estimates.unpaired)


def difference_text(found: Difference) -> str:
    """ "dtype (baseline: bfloat16, candidate: float16): …"."""
    values = ", ".join(f"{arm}: {str(value)[:40]}" for arm, value in found.values.items())
    return f"{found.key} ({values}): {found.text}"


def _noted(environment: Sequence[Difference]) -> Iterator[str]:
    """The other differences by name: what they are stands in the environment's table."""
    noted = [d for d in environment if d.rule == "noted"]
    for words, which in (
        ("differences that the scenario declares", [d for d in environment if d.rule == "declared"]),
        ("further differences", [d for d in noted if not _unknown(d)]),
        ("not known to be alike", [d for d in noted if _unknown(d)]),
    ):
        if which:
            yield f"environment: {words}: {', '.join(d.key for d in which)}"


def _unknown(found: Difference) -> bool:
    """Of an arm the value is not known, and those that are do not differ."""
    known = [value for value in found.values.values() if value is not None]
    return len(known) < len(found.values) and all(value == known[0] for value in known)


def save_json(path: Path, name: str, value: Any) -> None:
    """Write a file into a run directory, whole or not at all."""
    _save(path, name, orjson.dumps(value, option=orjson.OPT_INDENT_2))


def save_report(path: Path, summary: Summary, manifest: Manifest, found: ExperimentResult | None = None) -> None:
    """report.html of a run directory."""
    save_page(path, "report.html", render_html(summary, manifest, found))


def save_page(path: Path, name: str, html: str) -> None:
    """A page into a directory, whole or not at all."""
    _save(path, name, html.encode())


def _save(path: Path, name: str, content: bytes) -> None:
    temporary = path / f"{name}.part"
    try:
        temporary.write_bytes(content)
        temporary.replace(path / name)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StorageError(f"{path}: {name} cannot be written: {error.strerror}") from None


def save_found(path: Path, found: ExperimentResult) -> None:
    """`quality.json`, `anomalies.json`, `drill.json` or `access.json` of a run directory."""
    save_json(path, f"{found.kind}.json", found.model_dump(mode="json"))


def save_judged(path: Path, judged: Judged) -> None:
    """summary.json, and verdict.json where there is a verdict."""
    save_json(path, "summary.json", judged.summary.model_dump(mode="json"))
    if judged.verdict is not None:
        save_json(path, "verdict.json", judged.verdict.model_dump(mode="json"))


def judged_run(
    path: Path, read: Callable[[RunData], ExperimentResult] | None, progress: Progress
) -> tuple[Judged, ExperimentResult | None]:
    """Everything that is made of a run directory once its run is over, written into it. `read`: as in RunOptions."""
    run = open_run(path)
    judged, found = judge_run(run), None if read is None else read(run)
    try:
        save_judged(path, judged)
        if found is not None:
            save_found(path, found)
    except StorageError as error:
        progress.say(str(error))
    try:
        save_report(path, judged.summary, run.manifest, found)
    except Exception as error:  # a page that cannot be made must not cost the run its summary and its exit code
        progress.say(f"report.html was not written: {error}")
    return judged, found
