"""For rollout controllers: a run that is asked for once and then asked after, and canaries (docs/hooks.md)."""

from __future__ import annotations

import re
import time
from typing import Any

from fastapi import Response
from fastapi.concurrency import run_in_threadpool
from pydantic import ValidationError
from starlette.requests import Request

from loadgen.service.access import ServiceOf, Who, seen_of
from loadgen.service.api.base import RunId, ScenarioName, router_of
from loadgen.service.api.hook_models import ArgoAsk, FlaggerAsk, RolloutOut
from loadgen.service.api.models import RunStart
from loadgen.service.api.runs import row_of
from loadgen.service.asking import ask_for, asked_before
from loadgen.service.problems import Problem, not_found
from loadgen.service.registry import RunRow
from loadgen.service.rollouts import CODES, FlaggerHook, Outcome, flagger_answer, of_canary, of_run, starts

router = router_of("hooks")
_ARM = re.compile(r"arm\.([A-Za-z0-9_-]{1,40})")
_WAYS = ("halt", "go")
_TEXT: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}


@router.post("/hooks/argo", summary="Argo Rollouts: ask for a run, or after it; always 200 where it can be run")
async def argo(service: ServiceOf, who: Who, request: Request, asked: ArgoAsk) -> RolloutOut:
    """The first call with a key queues the run and returns at once; later ones say what has become of it."""
    start = RunStart(
        scenario=asked.scenario, arms=asked.arms, overrides=asked.overrides, time_budget_s=asked.time_budget_s
    )
    row, _ = await ask_for(service, who.name, start, f"argo:{asked.key}")
    seen_of(request).subject = row.id
    return _out(row)


@router.get("/hooks/argo/runs/{run_id}", summary="Argo Rollouts: a run's verdict, in types that never change")
def argo_run(service: ServiceOf, run_id: RunId) -> RolloutOut:
    return _out(row_of(service, run_id))


@router.get("/hooks/argo/canaries/{name}", summary="Argo Rollouts: the verdict of the scenario's newest canary")
async def argo_canary(service: ServiceOf, name: ScenarioName) -> RolloutOut:
    found = await run_in_threadpool(service.canaries.newest, name)
    if found is None:
        raise not_found(f"canary of the scenario {name}")
    outcome = of_canary(found, time.time())
    return _told(outcome, found.canary_id, found.state)


@router.post(
    "/hooks/flagger/{hook}",
    summary="Flagger: one route for each type of webhook; starts asynchronously",
    response_class=Response,
    responses={
        200: {
            "description": "go on; of rollback: roll back",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        202: {"description": "go on: nothing is known yet", "content": {"text/plain": {"schema": {"type": "string"}}}},
        409: {"description": "not yet", "content": {"text/plain": {"schema": {"type": "string"}}}},
        412: {"description": "halt", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
)
async def flagger(service: ServiceOf, who: Who, request: Request, hook: FlaggerHook, asked: FlaggerAsk) -> Response:
    """`metadata`: scenario, arm.NAME (a target), key, time_budget_s, inconclusive (halt or go)."""
    outcome = None
    if hook not in ("post-rollout", "event"):
        row = await _flagger_run(service, who.name, hook, asked)
        seen_of(request).subject = None if row is None else row.id
        outcome = None if row is None else of_run(row)
    seen_of(request).detail = f"{hook} of {asked.namespace}/{asked.name}, phase {asked.phase}"
    status, text = flagger_answer(hook, outcome, go_inconclusive=asked.metadata.get("inconclusive") == "go")
    return Response(service.redact(text) + "\n", status, media_type="text/plain")


async def _flagger_run(service: Any, who: str, hook: FlaggerHook, asked: FlaggerAsk) -> RunRow | None:
    """None: the hook starts none, and none is there. Raises Problem."""
    start, key = _start_of(asked), _key_of(asked)
    if starts(hook):
        row, _ = await ask_for(service, who, start, key)
        return row
    return await asked_before(service, who, key, None)


def _key_of(asked: FlaggerAsk) -> str:
    """A new revision is a new run; the same one, asked for again, is not."""
    revision = asked.metadata.get("key") or asked.checksum
    if not revision:
        raise Problem(422, "no-revision", "neither checksum nor metadata.key says which revision this is: set one")
    return f"flagger:{asked.namespace}/{asked.name}:{revision}"


def _start_of(asked: FlaggerAsk) -> RunStart:
    """Raises Problem 422 with everything that is wrong."""
    data: dict[str, Any] = {"scenario": asked.metadata.get("scenario", "")}
    data["arms"] = {found[1]: value for key, value in asked.metadata.items() if (found := _ARM.fullmatch(key))}
    if "time_budget_s" in asked.metadata:
        data["time_budget_s"] = asked.metadata["time_budget_s"]
    problems = []
    if asked.metadata.get("inconclusive", "halt") not in _WAYS:
        problems.append("metadata.inconclusive: is halt or go")
    try:
        start = RunStart.model_validate(data)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        problems += [f"metadata.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong]
    if problems:
        raise Problem(422, "invalid-request", "the webhook's metadata is not as it should be", problems)
    return start


def _out(row: RunRow) -> RolloutOut:
    return _told(of_run(row), row.id, row.state.value)


def _told(outcome: Outcome, known_as: str, state: str) -> RolloutOut:
    return RolloutOut(verdict=outcome.word, code=CODES[outcome.word], reason=outcome.reason, id=known_as, state=state)
