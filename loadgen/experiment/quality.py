"""`specload quality`: an ordinary scenario's answers compared, arm by arm (docs/quality.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from loadgen.analyze import QualityResult, greedy_acceptance, quality_of, without_texts
from loadgen.errors import ScenarioError, StorageError, TargetUnusable
from loadgen.experiment.afterwards import Done
from loadgen.experiment.asking_again import ask_again, prompts_asked
from loadgen.experiment.asking_numerics import ask_numerics
from loadgen.experiment.judging import judge_run, save_found, save_report
from loadgen.experiment.preflight import Preflight
from loadgen.experiment.progress import Progress
from loadgen.experiment.single import RunOptions, RunResult, run_scenario
from loadgen.plan import quality_scenario
from loadgen.record import RunData, drop_texts, open_run
from loadgen.scenario import LoadedScenario
from server_adapters.base import Fact

#: Name of the event that holds an earlier run's acceptance.
REFERENCE_ACCEPTANCE = "acceptance_reference"


async def run_quality(loaded: LoadedScenario, options: RunOptions, progress: Progress) -> RunResult:
    """Lay out the passes, drive them, ask again where answers part, compare. Errors as of `run_scenario`; ScenarioError
    where the scenario cannot be compared by its answers, or the reference is no quality run."""
    laid_out = quality_scenario(loaded)
    reference = None if options.reference is None else _reference(options.reference)
    keys = laid_out.scenario.quality

    async def afterwards(done: Done) -> None:
        if reference is not None:
            done.event(REFERENCE_ACCEPTANCE, **reference)
        prompts = prompts_asked(done)
        parted = await ask_again(done, keys, prompts)
        await ask_numerics(done, keys, prompts, laid_out.scenario.baseline, parted)

    options = replace(options, read=read_quality, adapted=_comparable, afterwards=afterwards)
    result = await run_scenario(laid_out, options, progress)
    if not keys.keep_text and isinstance(result.found, QualityResult):
        result = replace(result, found=_dropped(result.path, result.found))
    return result


def read_quality(run: RunData) -> QualityResult:
    """From the records; where their texts were dropped, as it was found before. Raises StorageError where that is not
    there."""
    if run.manifest.experiment.get("texts") != "dropped":
        return quality_of(run)
    file = Path(run.path) / "quality.json"
    try:
        return QualityResult.model_validate(orjson.loads(file.read_bytes()))
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{file}: the texts of this run were dropped, and its result cannot be read: {error}"
        ) from None


def _comparable(loaded: LoadedScenario, ready: Preflight) -> tuple[LoadedScenario, tuple[str, ...]]:
    """Arms that refuse the sampling parameters are left out (H10). Raises TargetUnusable where nothing is left to
    compare."""
    facts = {name: arm.facts.environment["sampling.refused"] for name, arm in ready.arms.items()}
    refused = {name: why for name, fact in facts.items() if (why := _refusal(fact)) is not None}
    said = tuple(f"{name} is not comparable: {why}" for name, why in refused.items())
    if loaded.scenario.baseline in refused or len(ready.arms) - len(refused) < 2:
        raise TargetUnusable("\n".join(said))
    passes = tuple(replace(one, left_out=tuple(refused)) for one in loaded.passes)
    loaded, more = _without_first_lines(replace(loaded, passes=passes), ready)
    return _with_logprobs(loaded, ready), (*said, *more)


def _refusal(fact: Fact) -> str | None:
    """Also of a server that fails at them: the load would be its end."""
    if fact.value is None:
        return fact.reason
    return f"it refuses sampling parameters of the scenario: {fact.value[0]}" if fact.value else None


def _with_logprobs(loaded: LoadedScenario, ready: Preflight) -> LoadedScenario:
    """Sampled answers tell the log probability of what was drawn, where every server is known to have that."""
    keys = loaded.scenario.quality.sampled
    if keys is None or not keys.logprobs or any(arm.adapter.name != "vllm" for arm in ready.arms.values()):
        return loaded
    sampled = {task.index for one in loaded.passes if one.kind == "sampled" for task in one.tasks}
    asked = {"logprobs": True} if loaded.scenario.workload.endpoint == "chat" else {"logprobs": 0}
    tasks = list(loaded.scenario.workload.tasks)
    for i in sampled:
        sampling = tasks[i].sampling or loaded.scenario.sampling
        more = sampling.model_copy(update={"extra": {**asked, **sampling.extra}})
        tasks[i] = tasks[i].model_copy(update={"sampling": more})
    workload = loaded.scenario.workload.model_copy(update={"tasks": tasks})
    return replace(loaded, scenario=loaded.scenario.model_copy(update={"workload": workload}))


def _without_first_lines(loaded: LoadedScenario, ready: Preflight) -> tuple[LoadedScenario, tuple[str, ...]]:
    """A server that takes no cache salt would be asked with a first line like no other: not the same prompts."""
    unsalted = [name for name, arm in ready.arms.items() if not arm.capabilities.cache_salt]
    workload = loaded.scenario.workload
    if not unsalted or workload.cache == "warm":
        return loaded, ()
    warm = workload.model_copy(update={"cache": "warm"})
    note = f"cache: warm, since {', '.join(unsalted)} takes no cache salt and all answers must be to the same prompts"
    return replace(loaded, scenario=loaded.scenario.model_copy(update={"workload": warm})), (note,)


def _reference(path: Path) -> dict[str, Any]:
    """Whose acceptance the candidates' is held against."""
    run = open_run(path)
    arms = greedy_acceptance(run)
    if not arms:
        raise ScenarioError([
            f"--reference {run.manifest.run_id}: is no quality run whose answers carry draft counts"
        ])  # fmt: skip
    return {"run_id": run.manifest.run_id, "arms": {arm: [list(one) for one in some] for arm, some in arms.items()}}


def _dropped(path: Path, found: QualityResult) -> QualityResult:
    """The numbers are kept, what was said is not: neither in the records nor in the result nor on the page."""
    bare = without_texts(found)
    save_found(path, bare)
    drop_texts(path)
    run = open_run(path)
    save_report(path, judge_run(run).summary, run.manifest, bare)
    return bare
