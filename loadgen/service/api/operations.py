"""For machines that look after the service: alive, ready, metrics, what to scrape."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from fastapi import Request, Response
from fastapi.openapi.utils import get_openapi
from prometheus_client.exposition import choose_encoder

from loadgen import __version__
from loadgen.service.access import ServiceOf
from loadgen.service.api.base import router_of
from loadgen.service.api.models import ReadyOut
from loadgen.service.roles import API
from loadgen.service.state import Service

router = router_of("operations", prefix="")
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/health", summary="200 while the process answers", response_class=Response, responses=_TEXT)
def health() -> Response:
    return Response("ok\n", media_type="text/plain")


@router.get("/ready", summary="200 while runs can be asked for, else 503", responses={503: {"model": ReadyOut}})
def ready(service: ServiceOf, response: Response) -> ReadyOut:
    problems = service.not_ready()
    response.status_code = 503 if problems else 200
    counts = service.registry.runs.count()
    return ReadyOut(ready=not problems, problems=problems, queued=counts["queued"], running=counts["running"])


@router.get("/metrics", summary="Metrics for Prometheus", response_class=Response, responses=_TEXT)
def metrics(service: ServiceOf, request: Request) -> Response:
    for state, n in service.registry.runs.count().items():
        service.metrics.set("service_runs", n, state=state)
    service.metrics.set("service_watchers", service.watching.open)
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(service.page), headers={"Content-Type": content_type})


@router.get("/sd", summary="What to scrape, as Prometheus' HTTP service discovery has it")
def discovery(service: ServiceOf) -> list[dict[str, Any]]:
    """The service itself, and the metrics pages of the targets; a page whose URL holds a query is left out: it may be
    a secret."""
    own = urlsplit(service.url)
    found = [_entry(own.scheme, own.netloc, "/metrics", "service", {})]
    for name in service.targets.names:
        found += _pages(service, name)
    return found


def _pages(service: Service, name: str) -> list[dict[str, Any]]:
    keys = service.targets.get(name)
    if keys is None:
        return []
    pages = (
        [f"{u}/metrics" for u in (keys.urls or [keys.url or ""])] if keys.metrics_urls is None else keys.metrics_urls
    )
    parts = [urlsplit(page) for page in pages]
    labels = {"__meta_specload_target": name, "__meta_specload_environment": keys.environment}
    shown = [p for p in parts if not p.query and service.redact(p.geturl()) == p.geturl()]
    return [_entry(p.scheme, p.netloc, p.path or "/", "target", labels) for p in shown]


def _entry(scheme: str, netloc: str, path: str, role: str, labels: dict[str, str]) -> dict[str, Any]:
    more = {"__scheme__": scheme, "__metrics_path__": path, "__meta_specload_role": role, **labels}
    return {"targets": [netloc], "labels": more}


@router.get(f"{API}/openapi.json", summary="This description", include_in_schema=False)
def openapi(request: Request) -> dict[str, Any]:
    return description(request.app)


def description(app: Any) -> dict[str, Any]:
    found: dict[str, Any] = app.openapi_schema or get_openapi(
        title="specload", version=__version__, routes=app.routes,
        description="Load tests of LLM inference servers: ask for runs, watch them, read their verdicts.",
    )  # fmt: skip
    found.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    found["security"] = [{"token": []}]
    app.openapi_schema = found
    return found
