"""Asking for a run: once for each key, whoever asks again."""

from __future__ import annotations

import sqlite3

from fastapi.concurrency import run_in_threadpool

from loadgen.record import new_run_id
from loadgen.service.api.models import RunStart
from loadgen.service.api.scenarios import kept_of
from loadgen.service.offers import fingerprint, offer
from loadgen.service.problems import Problem
from loadgen.service.registry import IdempotencyConflict, RunRow
from loadgen.service.state import Service


async def ask_for(service: Service, who: str, asked: RunStart, key: str | None) -> tuple[RunRow, bool]:
    """The run, and whether it is new. Checked and planned first, unless `who` has asked for the same with this key
    before. Raises Problem."""
    sha256 = fingerprint(asked.model_dump(mode="json"))
    before = await asked_before(service, who, key, sha256)
    if before is not None:
        return before, False
    if service.runner.closing:
        raise Problem(503, "stopping", "the service is being stopped")
    kept = await run_in_threadpool(kept_of, service, asked.scenario)
    found = await offer(service, kept, asked.arms, asked.overrides, asked.time_budget_s)
    if (await run_in_threadpool(service.registry.runs.count))["queued"] >= service.config.limits.queued:
        raise Problem(
            429, "queue-full", "the queue is full (limits.queued): try again later", headers={"Retry-After": "60"}
        )
    try:
        row, new = await run_in_threadpool(
            service.registry.runs.add_once,
            who, key, sha256, new_run_id(kept.name), kept.name,
            scenario_text=kept.text, uploaded=kept.source == "uploaded", arms=found.arms, overrides=asked.overrides,
            time_budget_s=asked.time_budget_s, started_by=who, kind=found.kind,
        )  # fmt: skip
    except IdempotencyConflict:
        raise _used() from None
    except sqlite3.IntegrityError:
        raise Problem(409, "again", "another run was asked for at the same moment: ask again") from None
    if new:
        service.runner.asked(row)
    return row, new


async def asked_before(service: Service, who: str, key: str | None, sha256: str | None) -> RunRow | None:
    """The run that `who` asked for with this key. Raises Problem 409 where that was for another request; `sha256` None:
    whatever the request was."""
    if key is None:
        return None
    try:
        return await run_in_threadpool(service.registry.runs.of_key, who, key, sha256)
    except IdempotencyConflict:
        raise _used() from None


def _used() -> Problem:
    return Problem(409, "key-used", "this Idempotency-Key was used for another request")
