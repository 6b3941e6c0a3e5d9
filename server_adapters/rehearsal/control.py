"""Our own routes under /rehearsal: the kill switch, faults, and the truth for tests."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from fastapi import FastAPI, Request, Response

from server_adapters.rehearsal.errors import ApiError, json_response
from server_adapters.rehearsal.faults import Faults
from server_adapters.rehearsal.protocol import SpeculationAsked
from server_adapters.rehearsal.runner import Runner


def add_control_routes(app: FastAPI, runner: Runner, faults: Faults) -> None:
    """POST /rehearsal/speculation, GET and POST /rehearsal/faults, GET /rehearsal/truth."""

    @app.post("/rehearsal/speculation")
    async def speculation(asked: SpeculationAsked) -> Response:
        if runner.engine.config.speculation is None:
            raise ApiError("speculation is not configured; start with --spec draft:k=4", 409, "Conflict")
        runner.speculation_enabled = asked.enabled
        return json_response({"enabled": asked.enabled})

    @app.get("/rehearsal/faults")
    async def shown() -> Response:
        return json_response(faults.shown())

    @app.post("/rehearsal/faults")
    async def set_fault(request: Request) -> Response:
        await _change(faults, request)
        return json_response(faults.shown())

    @app.get("/rehearsal/truth")
    async def truth() -> Response:
        return json_response(_truth(runner))


def _truth(runner: Runner) -> dict[str, Any]:
    """Counters of everything delivered, the last requests, our own lag. Times in CLOCK_MONOTONIC seconds."""
    now_s = time.monotonic()
    return {
        "now_s": now_s,
        "counters": dataclasses.asdict(runner.counters),
        "gauges": dataclasses.asdict(runner.engine.gauges()),
        "requests": runner.shown_truths(),
        "lag": runner.lag.shown(now_s),
        "speculation_enabled": runner.speculation_enabled,
    }


async def _change(faults: Faults, request: Request) -> None:
    """{"name": …, parameters…} sets a fault, {"name": …, "clear": true} ends it, {"clear": true} ends all."""
    try:
        asked = await request.json()
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise ApiError('send an object such as {"name": "truncate", "share": 0.1}')
    options = {key: value for key, value in asked.items() if key not in ("name", "clear")}
    name = asked.get("name")
    if asked.get("clear"):
        faults.clear(name)
    else:
        try:
            faults.set(str(name), options, time.monotonic())
        except ValueError as error:
            raise ApiError(str(error)) from None
