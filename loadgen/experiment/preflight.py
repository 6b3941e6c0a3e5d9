"""Before any load: is every target there, is it what the scenario says, and what can it tell?"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import httpx
from pydantic import SecretStr

from loadgen.drive import asking_of
from loadgen.errors import TargetUnusable
from loadgen.experiment.environment import Probed, capture
from loadgen.experiment.network import Way
from loadgen.record import ArmFacts
from loadgen.redact import Redactor, names_of
from loadgen.scenario import Arm, Reach, Scenario, SecretSource, reach_of, read_secret, switch_secrets
from server_adapters import adapter_named
from server_adapters.base import Adapter, Capabilities, Target, TargetError

PROBE_TIMEOUT_S = 15.0


@dataclass(frozen=True)
class ReadyArm:
    """One arm, found usable. `targets`: one a replica, in the scenario's order."""

    name: str
    adapter: Adapter
    targets: tuple[Target, ...]
    model: str
    capabilities: Capabilities
    facts: ArmFacts
    notes: tuple[str, ...]
    reach: Reach = field(default_factory=Reach)

    def client(self, timeout_s: float) -> httpx.AsyncClient:
        """An ordinary client that reaches the arm's servers as the load does."""
        return httpx.AsyncClient(timeout=timeout_s, follow_redirects=False, **self.reach.httpx_options())


@dataclass(frozen=True)
class Preflight:
    arms: Mapping[str, ReadyArm]
    redact: Redactor
    notes: tuple[str, ...]


def redactor_of(scenario: Scenario) -> Redactor:
    """Masks the secrets of all arms, and of a drill's switch. Raises ScenarioError where one cannot be read."""
    switch = () if scenario.drill is None else switch_secrets(scenario.drill.switch, "drill.switch")
    return Redactor([*arm_secrets(scenario), *switch])


def arm_secrets(scenario: Scenario) -> list[SecretStr]:
    """Of all arms. Raises ScenarioError where one cannot be read."""
    secrets = [s for arm in scenario.arms.values() for s in _headers(arm).values()]
    reaches = (reach_of(name, arm) for name, arm in scenario.arms.items())
    return [*secrets, *(r.proxy_auth for r in reaches if r.proxy_auth is not None)]


async def preflight(scenario: Scenario, only: Collection[str] | None = None) -> Preflight:
    """Probe every replica of every arm (of those in `only`). Raises TargetUnusable with every problem found, one a
    line."""
    redact = redactor_of(scenario)
    wanted = {name: arm for name, arm in scenario.arms.items() if only is None or name in only}
    found = await asyncio.gather(
        *(_ready(reach_of(name, arm), name, arm, scenario, redact) for name, arm in wanted.items()),
        return_exceptions=True,
    )
    problems: list[str] = []
    arms: dict[str, ReadyArm] = {}
    for result in found:
        if isinstance(result, TargetUnusable):
            problems.append(str(result))
        elif isinstance(result, BaseException):
            raise result
        else:
            arms[result.name] = result
    if problems:
        raise TargetUnusable(redact("\n".join(problems)))
    arms = await _with_environments(scenario, arms, redact)
    notes = tuple(redact(f"{name}: {note}") for name, arm in arms.items() for note in arm.notes)
    return Preflight(arms, redact, notes)


async def _with_environments(scenario: Scenario, arms: Mapping[str, ReadyArm], redact: Redactor) -> dict[str, ReadyArm]:
    endpoint, samplings = scenario.workload.endpoint, asking_of(scenario).sampling
    probed = [
        Probed(
            name,
            scenario.arms[name],
            Way(arm.adapter, replace(arm.targets[0], model=arm.model), arm.model, arm.capabilities, endpoint),
            len(arm.targets),
            samplings,
            partial(arm.client, PROBE_TIMEOUT_S),
        )
        for name, arm in arms.items()
    ]
    captured = await capture(probed, redact)
    return {
        name: replace(arm, facts=arm.facts.model_copy(update={"environment": captured[name]}))
        for name, arm in arms.items()
    }


def _headers(arm: Arm) -> dict[str, SecretStr]:
    return dict(arm.headers) | ({} if arm.api_key is None else bearer(arm.api_key))


def bearer(source: SecretSource) -> dict[str, SecretStr]:
    """The header that lets us in. Raises ScenarioError where there is no key."""
    return {"Authorization": SecretStr(f"Bearer {read_secret(source).get_secret_value()}")}


def targets_of(arm: Arm) -> tuple[Target, ...]:
    """One target a replica; all of them know all of the arm's metrics pages."""
    urls = [u.rstrip("/") for u in (arm.urls or [arm.url or ""])]
    pages = tuple(arm.metrics_urls) if arm.metrics_urls is not None else tuple(f"{u}/metrics" for u in urls)
    headers = _headers(arm)
    return tuple(Target(url, pages, arm.model, headers, arm.spec_method) for url in urls)


async def _ready(reach: Reach, name: str, arm: Arm, scenario: Scenario, redact: Redactor) -> ReadyArm:
    async with httpx.AsyncClient(timeout=PROBE_TIMEOUT_S, follow_redirects=False, **reach.httpx_options()) as client:
        return await _look_at(client, reach, name, arm, scenario, redact)


async def _look_at(
    client: httpx.AsyncClient, reach: Reach, name: str, arm: Arm, scenario: Scenario, redact: Redactor
) -> ReadyArm:
    adapter = adapter_named(arm.adapter)
    targets = targets_of(arm)
    capabilities: list[Capabilities] = []
    for target in targets:
        try:
            capabilities.append(await adapter.probe(client, target, scenario.workload.endpoint))
        except TargetError as error:
            raise TargetUnusable(f"{name} ({redact(target.url)}): {error}") from None
    if reach.http2:
        await _check_http2(client, name, targets, redact)
    model = _model(name, arm, capabilities)
    first = capabilities[0]
    _check_replicas(name, targets, capabilities, redact)
    _check_expectations(name, arm, first)
    facts = _facts(arm, targets, adapter, model, first, scenario, redact)
    return ReadyArm(name, adapter, targets, model, first, facts, _notes(arm, first, scenario, reach), reach)


async def _check_http2(client: httpx.AsyncClient, name: str, targets: tuple[Target, ...], redact: Redactor) -> None:
    """The load speaks nothing else: a server that does not agree on it would answer no request."""
    for target in targets:
        try:
            spoken = (await client.head(target.url)).http_version
        except httpx.HTTPError as error:
            raise TargetUnusable(
                f"{name} ({redact(target.url)}): {type(error).__name__}: {redact(str(error))}"
            ) from None
        if spoken != "HTTP/2":
            raise TargetUnusable(
                f"{name} ({redact(target.url)}): the scenario says http2: true, but the server speaks {spoken}; "
                "remove http2, or switch it on there"
            )


def _model(name: str, arm: Arm, capabilities: list[Capabilities]) -> str:
    if arm.model is not None:
        return arm.model
    listed = capabilities[0].models
    if len(listed) != 1:
        raise TargetUnusable(
            f"{name}: the server lists {len(listed)} models {list(listed)}; say which with arms.{name}.model"
        )
    return listed[0]


def _check_replicas(name: str, targets: tuple[Target, ...], capabilities: list[Capabilities], redact: Redactor) -> None:
    first = capabilities[0]
    for target, other in zip(targets[1:], capabilities[1:], strict=True):
        for fact in ("version", "speculation", "k", "max_model_len"):
            if getattr(other, fact) != getattr(first, fact):
                raise TargetUnusable(
                    f"{name}: replicas differ in {fact}: {redact(targets[0].url)} has {getattr(first, fact)}, "
                    f"{redact(target.url)} has {getattr(other, fact)}; replicas of one arm must be alike"
                )


def _check_expectations(name: str, arm: Arm, capabilities: Capabilities) -> None:
    wants_metrics = arm.adapter == "vllm" and arm.metrics_urls != []
    if wants_metrics and not capabilities.metrics:
        raise TargetUnusable(
            f"{name}: no usable metrics page{_why_no_page(capabilities)}; draft and accept counters would be missing. "
            f"Name the pages with arms.{name}.metrics_urls, or set it to [] to run without server counters"
        )
    if arm.speculation is None:
        return
    if capabilities.speculation is None:
        raise TargetUnusable(
            f"{name}: the scenario says speculation: {arm.speculation}, but the server's counters cannot be read "
            "to check it"
        )
    found = "on" if capabilities.speculation else "off"
    if found != arm.speculation:
        raise TargetUnusable(
            f"{name}: the scenario says speculation: {arm.speculation}, but the server runs with speculation {found} "
            "(its draft counters are " + ("there" if capabilities.speculation else "absent") + "); "
            "check the server's --speculative-config or the arm's URL"
        )


def _why_no_page(capabilities: Capabilities) -> str:
    """What the probe said of each page, in brackets."""
    said = [note for note in capabilities.notes if note.startswith("no server counters from ")]
    return f" ({'; '.join(said)})" if said else ""


def _facts(
    arm: Arm,
    targets: tuple[Target, ...],
    adapter: Adapter,
    model: str,
    capabilities: Capabilities,
    scenario: Scenario,
    redact: Redactor,
) -> ArmFacts:
    absent: dict[str, str] = {}
    if not arm.telemetry.nvml and not arm.telemetry.gpu_metrics_urls:
        absent["gpu_mem_peak_bytes"] = "the arm's telemetry names no GPU source (nvml or gpu_metrics_urls)"
    if not capabilities.metrics:
        absent["batch_size"] = "no metrics page"
    return ArmFacts(
        replicas=[redact(t.url) for t in targets],
        metrics_sources=list(names_of(targets[0].metrics_urls, redact).values()),
        adapter=adapter.name,
        chunk_unit=adapter.chunk_unit,
        model=model,
        endpoint=scenario.workload.endpoint,
        capabilities={f: getattr(capabilities, f) for f in capabilities.__dataclass_fields__},
        environment={},  # captured once every arm is known to be usable
        facts=dict(arm.facts),
        spec_method=arm.spec_method or capabilities.spec_method,
        k=capabilities.k,
        speculation=capabilities.speculation,
        absent_columns=absent,
    )


def _notes(arm: Arm, capabilities: Capabilities, scenario: Scenario, reach: Reach) -> tuple[str, ...]:
    notes = list(capabilities.notes)
    if reach.plain_because is not None:
        notes.append(f"{reach.plain_because}: read with the plain transport, timestamps in user space")
    if not reach.verify:
        notes.append("the server's certificate is not checked (tls.verify: false)")
    if not capabilities.cache_salt and scenario.workload.cache == "cold":
        notes.append("the server takes no cache salt; prompts get a unique first line instead")
    if arm.spec_method and capabilities.spec_method and arm.spec_method != capabilities.spec_method:
        notes.append(f"spec_method is {arm.spec_method} in the scenario and {capabilities.spec_method} on the server")
    return tuple(notes)
