"""Scenarios: look, check, upload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, TypeVar

from fastapi import Body, Response
from fastapi.concurrency import run_in_threadpool

from loadgen.errors import ScenarioError, StorageError
from loadgen.service.access import ServiceOf
from loadgen.service.api.base import ScenarioName, router_of
from loadgen.service.api.models import CheckedOut, ScenarioCheck, ScenarioOut, ScenariosOut, ScenarioTextOut
from loadgen.service.compose import checked_text
from loadgen.service.offers import offer, unusable
from loadgen.service.problems import Problem, not_found
from loadgen.service.scenarios import Kept, Listed, NoRoom, NoScenario, NotOurs, masked
from loadgen.service.state import Service, log

router = router_of("scenarios")
YAML = "application/yaml"
Found = TypeVar("Found")


@router.get("/scenarios", summary="All scenarios by name")
def scenarios(service: ServiceOf) -> ScenariosOut:
    return ScenariosOut(scenarios=[ScenarioOut(**asdict(one)) for one in service.shelf.listed()])


@router.get("/scenarios/{name}", summary="One scenario and its text")
def scenario(service: ServiceOf, name: ScenarioName) -> ScenarioTextOut:
    kept, listed = _found(service, name)
    return ScenarioTextOut(**asdict(listed), text=service.redact(masked(kept)))


@router.post("/scenarios/validate", summary="Check a scenario and count what it would ask for; sends nothing")
async def validate(service: ServiceOf, asked: ScenarioCheck) -> CheckedOut:
    if (asked.scenario is None) == (asked.text is None):
        raise Problem(422, "invalid-request", "give either scenario (a name) or text (YAML), and not both")
    if asked.scenario is not None:
        kept = await run_in_threadpool(kept_of, service, asked.scenario)
    else:
        kept = Kept("scenario", "uploaded", _bytes(asked.text or ""), service.config.folders.uploads.absolute())
    found = await offer(service, kept, asked.arms, asked.overrides, asked.time_budget_s)
    return CheckedOut(valid=True, arms=found.arms, plan=found.plan)


@router.put(
    "/scenarios/{name}",
    summary="Upload a scenario",
    responses={201: {"model": ScenarioOut, "description": "it is new"}},
    openapi_extra={"requestBody": {"required": True, "content": {YAML: {"schema": {"type": "string"}}}}},
)
async def put_scenario(
    service: ServiceOf, name: ScenarioName, response: Response, text: Annotated[bytes, Body(media_type=YAML)] = b""
) -> ScenarioOut:
    """Its arms name targets, and nothing in it names URLs, files, commands, headers or keys."""
    try:
        async with service.reading:
            await run_in_threadpool(checked_text, text, name, uploaded=True)
        new = await run_in_threadpool(service.shelf.put, name, text)
    except ScenarioError as error:
        raise unusable(service, error) from None
    except NotOurs:
        raise Problem(409, "not-yours", f"{name} is a scenario of the server's folder: choose another name") from None
    except NoRoom as error:
        raise Problem(507, "uploads-full", str(error)) from None
    except StorageError as error:
        log.error("%s", error)
        raise Problem(507, "storage", "the scenario cannot be kept; see the service's log") from None
    response.status_code = 201 if new else 200
    _, listed = await run_in_threadpool(_found, service, name)
    return ScenarioOut(**asdict(listed))


@router.delete("/scenarios/{name}", status_code=204, summary="Delete an uploaded scenario")
def delete_scenario(service: ServiceOf, name: ScenarioName) -> None:
    """Runs that were asked for keep the text they had."""
    try:
        service.shelf.delete(name)
    except NoScenario:
        raise not_found(f"scenario {name}") from None
    except NotOurs:
        raise Problem(409, "not-yours", f"{name} is a scenario of the server's folder: it stays") from None
    except StorageError as error:
        log.error("%s", error)
        raise Problem(507, "storage", "the scenario cannot be deleted; see the service's log") from None


def kept_of(service: Service, name: str) -> Kept:
    """Raises Problem."""
    return _of_shelf(service.shelf.get, name)


def _found(service: Service, name: str) -> tuple[Kept, Listed]:
    """Raises Problem."""
    return _of_shelf(service.shelf.look, name)


def _of_shelf(get: Callable[[str], Found], name: str) -> Found:
    try:
        return get(name)
    except NoScenario:
        raise not_found(f"scenario {name}") from None
    except StorageError as error:
        log.error("%s", error)
        raise Problem(500, "storage", "the scenario cannot be read; see the service's log") from None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
