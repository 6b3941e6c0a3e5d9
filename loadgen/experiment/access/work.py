"""`experiment: access`: a run directory without segments, whose events are the looks at each server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime

from loadgen import __version__
from loadgen.analyze import AccessCheck, access_found
from loadgen.clock import anchor, now_ns
from loadgen.errors import TargetUnusable
from loadgen.experiment.access.checks import Checks, Place
from loadgen.experiment.access.looks import Looks
from loadgen.experiment.before import refuse_unwritable
from loadgen.experiment.judging import judged_run
from loadgen.experiment.manifest import client_facts
from loadgen.experiment.preflight import redactor_of, targets_of
from loadgen.experiment.progress import Progress
from loadgen.experiment.single import RunOptions, RunResult
from loadgen.plan import ESTIMATE, build_plan
from loadgen.record import ArmFacts, Event, Manifest, RunWriter, new_run_id
from loadgen.redact import Redactor, names_of, printable
from loadgen.scenario import LoadedScenario, Scenario, reach_of
from server_adapters import adapter_named
from server_adapters.probing import NOTHING_KNOWN


async def run_access(loaded: LoadedScenario, options: RunOptions, progress: Progress) -> RunResult:
    """Raises ScenarioError, TargetUnusable (no server answers), StorageError. Nothing that is sent changes anything."""
    scenario = loaded.scenario
    redact = redactor_of(scenario)
    refuse_unwritable(options.out)
    writer = RunWriter(options.out, _manifest(loaded, options, redact), redact)
    looks, answered, state = Looks(scenario.access.timeout_s), False, "failed"
    try:
        for place in places_of(scenario, redact):
            progress.say(f"looking at {place.arm} ({place.shown}) …")

            def note(check: AccessCheck) -> None:
                data = {k: printable(redact(v)) for k, v in check.model_dump().items()}
                writer.event(Event(now_ns(), "access", data))

            answered |= await Checks(place, scenario.access, looks, note).all()
        state = "finished" if answered else "failed"
    except asyncio.CancelledError:
        state = "interrupted"
        raise
    finally:
        writer.event(Event(now_ns(), "access_over", {"requests": looks.asked}))
        writer.finish(state, None if state == "finished" else "no server answered")
    if not answered:
        raise TargetUnusable(f"no server of {', '.join(scenario.arms)} answers; {writer.path} says what was seen")
    judged, found = judged_run(writer.path, access_found, progress)
    return RunResult(writer.path, judged.summary, state, None, None, found)


def places_of(scenario: Scenario, redact: Redactor) -> Iterator[Place]:
    """Every replica; an arm's metrics pages are looked at with its first one."""
    for name, arm in scenario.arms.items():
        for number, target in enumerate(targets_of(arm)):
            pages = {} if number else {shown: url for url, shown in names_of(target.metrics_urls, redact).items()}
            yield Place(name, target.url, redact(target.url), arm.adapter, target.headers, reach_of(name, arm), pages)


def _manifest(loaded: LoadedScenario, options: RunOptions, redact: Redactor) -> Manifest:
    scenario, plan = loaded.scenario, build_plan(loaded)
    return Manifest(
        run_id=options.run_id or new_run_id(scenario.name),
        specload_version=__version__,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        scenario=scenario.model_dump(mode="json"),
        scenario_path=loaded.path.name if loaded.path else None,
        scenario_sha256=loaded.text_sha256,
        overrides=list(options.overrides),
        arm_urls=dict(options.arm_urls),
        plan_hash=plan.hash,
        workers=0,
        design="access",
        comparison={"baseline": scenario.baseline},
        length_model={"source": ESTIMATE.source},
        arms={name: _facts(scenario, name, redact) for name in scenario.arms},
        client=client_facts(options.transport),
        anchors=[anchor()],
    )


def _facts(scenario: Scenario, name: str, redact: Redactor) -> ArmFacts:
    """What the scenario says: nothing is asked of the model."""
    arm = scenario.arms[name]
    targets, adapter = targets_of(arm), adapter_named(arm.adapter)
    return ArmFacts(
        replicas=[redact(t.url) for t in targets],
        metrics_sources=list(names_of(targets[0].metrics_urls, redact).values()),
        adapter=adapter.name,
        chunk_unit=adapter.chunk_unit,
        model=arm.model or "",
        endpoint=scenario.access.endpoint or scenario.workload.endpoint,
        capabilities=asdict(NOTHING_KNOWN),
        environment={},
        facts=dict(arm.facts),
        spec_method=arm.spec_method,
        k=None,
        speculation=None,
    )
