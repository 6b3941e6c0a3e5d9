"""How long answers take here and now, by a handful of small requests: what a time budget is reckoned with."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import httpx

from loadgen.experiment.preflight import Preflight, ReadyArm
from loadgen.plan import ASSUMED, AnswerTime, Fitted, fit_budget
from loadgen.scenario import LoadedScenario, Scenario
from server_adapters.base import Ask, Sampling

#: The longer of the two probes; the other asks for one token.
TOKENS = 24
#: Asked at once, at most: pace under load is not that of a lone request.
AT_ONCE = 8
TIMEOUT_S = 60.0
PROMPT = "Count from one to fifty, in words."


@dataclass(frozen=True, slots=True)
class _Pace:
    first_token_s: float
    token_s: float


async def measure_answer(scenario: Scenario, ready: Preflight) -> AnswerTime:
    """Of the slowest arm that answers (on one node only one does), with as many requests at once as the load's peak, at
    most 8: one token each, then 24. Where that cannot be measured, the assumption of every estimate."""
    at_once = min(AT_ONCE, max(round(stage.peak) for stage in scenario.load) or 1)
    paces = []
    for arm in ready.arms.values():
        async with arm.client(TIMEOUT_S) as client:
            paces.append(await _pace(client, arm, scenario, at_once))
    known = [pace for pace in paces if pace is not None]
    if not known:
        return ASSUMED
    first, token = max(p.first_token_s for p in known), max(p.token_s for p in known)
    source = (
        f"if an answer begins after {first:.3g} s and streams at {1 / token:,.3g} tokens/s, as {at_once} at once did "
        "just now (more load is slower)"
    )
    return AnswerTime(first, token, source)


async def _pace(client: httpx.AsyncClient, arm: ReadyArm, scenario: Scenario, at_once: int) -> _Pace | None:
    first = await _together(client, arm, scenario, 1, at_once)
    whole = await _together(client, arm, scenario, TOKENS, at_once)
    if first is None or whole is None or whole[1] <= first[1]:
        return None
    token_s = max(1e-6, (whole[0] - first[0]) / (whole[1] - first[1]))
    return _Pace(max(0.0, first[0] - token_s), token_s)


async def _together(
    client: httpx.AsyncClient, arm: ReadyArm, scenario: Scenario, tokens: int, at_once: int
) -> tuple[float, float] | None:
    """(seconds, tokens), means of so many requests sent together; None if one failed or told no count."""
    found = await asyncio.gather(*(_one(client, arm, scenario, tokens, i) for i in range(at_once)))
    known = [pair for pair in found if pair is not None]
    if len(known) < at_once:
        return None
    return sum(s for s, _ in known) / at_once, sum(n for _, n in known) / at_once


async def _one(
    client: httpx.AsyncClient, arm: ReadyArm, scenario: Scenario, tokens: int, number: int
) -> tuple[float, int] | None:
    target = arm.targets[0]
    salt = f"budget-{time.monotonic_ns()}-{number}"
    ask = Ask(
        endpoint=scenario.workload.endpoint,
        model=arm.model,
        prompt=PROMPT,
        max_tokens=tokens,
        sampling=Sampling(),
        stream=False,
        request_id=salt,
        cache_salt=salt if arm.capabilities.cache_salt else None,
    )
    wire = arm.adapter.build(ask, arm.capabilities)
    headers = {**wire.headers, **{name: value.get_secret_value() for name, value in target.headers.items()}}
    begin = time.perf_counter()
    try:
        answer = await client.post(target.url.rstrip("/") + wire.path, headers=headers, content=wire.body)
        took_s = time.perf_counter() - begin
        told = arm.adapter.parse_body(answer.content).completion_tokens if answer.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return None
    return (took_s, told) if told else None


async def fit_time(loaded: LoadedScenario, budget_s: float, ready: Preflight | None, starts_s: float = 0.0) -> Fitted:
    """The scenario fitted into the budget, with the pace of the servers where they could be asked. `starts_s`: how long
    one start of a server takes."""
    answer = ASSUMED if ready is None else await measure_answer(loaded.scenario, ready)
    return fit_budget(loaded, budget_s, answer, start_s=starts_s)
