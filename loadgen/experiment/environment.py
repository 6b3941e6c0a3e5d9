"""What each arm runs on, captured before any load: told by the server, read from files, measured, declared.

The keys, and what a difference of each means for a verdict: docs/environment.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx

from loadgen.analyze import ENVIRONMENT_KEYS, EXPECTED_KEYS
from loadgen.experiment.background import background, is_local, this_machine
from loadgen.experiment.network import Way, buffering, round_trip
from loadgen.experiment.parameters import refused
from loadgen.observe import gpu_facts
from loadgen.redact import Redactor, printable
from loadgen.scenario import Arm
from server_adapters.base import Fact, Sampling, TargetError
from server_adapters.model_files import sampling_defaults, template_hash, tokenizer_hash

Facts = dict[str, Fact]
#: Short names of `arms.<name>.facts` for keys a server may tell too.
ALIASES: Mapping[str, str] = {
    "gpu": "gpu.name", "gpus": "gpu.count", "gpu_count": "gpu.count", "driver": "gpu.driver", "cuda": "gpu.cuda",
    "cpu": "host.cpu_model", "cpus": "host.cpu_count", "dtype": "model.dtype", "quantization": "model.quantization",
    "revision": "model.revision", "attention_backend": "kernels.attention_backend",
}  # fmt: skip
DECLARED = "declared in the scenario"
_LONGEST = 2000


@dataclass(frozen=True)
class Probed:
    """One arm that was found usable, and the way to its first replica."""

    name: str
    arm: Arm
    way: Way
    replicas: int
    samplings: tuple[Sampling, ...]
    #: a client that reaches the servers as the load does
    client: Callable[[], httpx.AsyncClient]


async def capture(probed: list[Probed], redact: Redactor) -> dict[str, Facts]:
    """Facts of every arm, one arm after the other, so that none is measured while another is asked.

    Every probe must have ended: what runs on the servers now is somebody else's. Never raises for what a server
    does not tell or do: that is a fact without a value, and its reason.
    """
    machine = this_machine()
    loads: dict[str, Facts] = {}
    for one in probed:
        async with one.client() as client:
            loads[one.name] = await background(client, one.way.adapter, one.way.target)
    found: dict[str, Facts] = {}
    for one in probed:
        async with one.client() as client:
            facts = await _asked(client, one)
        if one.arm.telemetry.nvml:
            facts = _filled(facts, await asyncio.to_thread(gpu_facts, one.arm.telemetry.nvml))
        if is_local(one.way.target.url):
            facts = _filled(_filled(facts, _from_files(facts)), machine)
        facts = _declared(facts | loads[one.name], one.arm)
        found[one.name] = {key: _clean(fact, redact) for key, fact in sorted(_complete(facts).items())}
    return found


def _filled(facts: Facts, more: Facts) -> Facts:
    """`more` where nothing is known yet."""
    known = {key for key, fact in facts.items() if fact.value is not None}
    return facts | {key: fact for key, fact in more.items() if key not in known}


async def _asked(client: httpx.AsyncClient, one: Probed) -> Facts:
    """What the server tells, and what its answers show."""
    facts = await _told(client, one) | await _network(client, one)
    facts["sampling.refused"] = await refused(client, one.way, one.samplings)
    return facts


async def _told(client: httpx.AsyncClient, one: Probed) -> Facts:
    try:
        facts = await one.way.adapter.environment(client, one.way.target)
    except (TargetError, httpx.HTTPError) as error:
        return {"engine.name": Fact(None, None, f"the environment could not be read: {type(error).__name__}")}
    return facts


async def _network(client: httpx.AsyncClient, one: Probed) -> Facts:
    facts = await round_trip(client, one.way.target)
    facts["network.buffering"] = await buffering(client, one.way)
    facts["network.hops"] = Fact(None, None, "the number of hops cannot be seen from a client")
    if one.replicas > 1:
        note = f"; the first of {one.replicas} replicas"
        facts = {key: replace(f, source=f"{f.source}{note}") if f.source else f for key, f in facts.items()}
    return facts


def _from_files(facts: Facts) -> Facts:
    """Hashes of local model folders that the server names."""
    model = _text(facts, "model.weights")
    tokenizer = _text(facts, "tokenizer.name") or model
    draft = _text(facts, "speculation.draft_tokenizer") or _text(facts, "speculation.draft_model")
    found = {"tokenizer.sha256": tokenizer_hash(tokenizer), "template.sha256": template_hash(tokenizer)}
    if draft is not None:
        found["speculation.draft_tokenizer_sha256"] = tokenizer_hash(draft)
    if _text(facts, "sampling.generation_config") in (None, "auto"):
        found["sampling.defaults"] = sampling_defaults(model)
    return found


def _text(facts: Facts, key: str) -> str | None:
    value = facts[key].value if key in facts else None
    return value if isinstance(value, str) else None


def _declared(facts: Facts, arm: Arm) -> Facts:
    """The scenario's facts fill what was not captured; the others stay beside it under `facts.`"""
    merged = dict(facts)
    if arm.tokenizer is not None and _text(facts, "tokenizer.sha256") is None:
        told = tokenizer_hash(str(arm.tokenizer))
        merged["tokenizer.sha256"] = replace(told, source=told.source and f"{told.source}, {DECLARED}")
    stated = dict(arm.facts) | ({} if arm.spec_method is None else {"speculation.method": arm.spec_method})
    for name, value in stated.items():
        key = ALIASES.get(name, name)
        if key not in ENVIRONMENT_KEYS or (key in facts and facts[key].value not in (None, value)):
            key = f"facts.{name}"
        elif key in facts and facts[key].value is not None:
            continue
        merged[key] = Fact(value, DECLARED)
    return merged


def _complete(facts: Facts) -> Facts:
    """Every key a reader expects: with a reason where nothing is known of it."""
    off = "speculation.on" in facts and facts["speculation.on"].value is False
    wanted = [key for key in EXPECTED_KEYS if not (off and key.startswith("speculation."))]
    return {key: Fact(None, None, _why_not(key)) for key in wanted} | facts


def _why_not(key: str) -> str:
    if key == "sampling.effective":
        return "the server does not tell with which parameters it sampled; all of them are sent with every request"
    if key.endswith("sha256"):
        return "not shown: its file cannot be read from here"
    return f"not shown by this server; vLLM tells more with VLLM_SERVER_DEV_MODE=1, or declare it: facts: {{{key}: …}}"


def _clean(fact: Fact, redact: Redactor) -> Fact:
    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return printable(redact(value))[:_LONGEST]
        if isinstance(value, Mapping):
            return {clean(str(k)): clean(v) for k, v in value.items()}
        return [clean(v) for v in value] if isinstance(value, list | tuple) else value

    return Fact(clean(fact.value), clean(fact.source), clean(fact.reason))
