"""A template to an answer, with what every page has: who looks, where one can go, what browsers may do with it."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from loadgen.report import templates_of
from loadgen.service.access import seen_of, service_of, session_of
from loadgen.service.pages.assets import plotly_style_ids, url_of
from loadgen.service.pages.words import moment, tone, took
from loadgen.service.roles import ACCESS, Role, allowed
from loadgen.service.tokens import Identity

#: Nothing from elsewhere, nothing inline; only a report, which is sandboxed, may stand in a frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
#: Browsers say where a form comes from only to this host: its answers are refused without.
HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY"}
#: Path and name of the sections, in their order.
SECTIONS = (
    ("/runs", "Runs"),
    ("/runs/new", "Start a run"),
    ("/compare", "Compare"),
    ("/canaries", "Canaries"),
    ("/targets", "Targets"),
    ("/audit", "Audit"),
)


@cache
def environment() -> Environment:
    made = templates_of("loadgen", "service/pages/templates")
    made.globals |= {"asset": url_of, "plotly_style_ids": plotly_style_ids}
    made.filters |= {"moment": moment, "tone": tone, "took": took}
    return made


def page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """The answer to a request that went through `authorize`."""
    session = session_of(request, service_of(request))
    identity = seen_of(request).identity
    csrf = session.csrf if session is not None and identity is not None else ""
    return HTMLResponse(html(template, request.url.path, identity, csrf=csrf, **context), status, headers=HEADERS)


def html(template: str, path: str, who: Identity | None, *, csrf: str = "", **context: Any) -> str:
    common = {
        "who": who, "operator": who is not None and who.role is Role.OPERATOR, "csrf": csrf,
        "sections": _sections(path, who),
    }  # fmt: skip
    return environment().get_template(template).render({**common, **context})


def _sections(path: str, who: Identity | None) -> list[tuple[str, str, bool]]:
    """Those that may be looked at; whether the page belongs to it."""
    if who is None:
        return []
    open_to = [(p, name) for p, name in SECTIONS if allowed(who.role, ACCESS.get(("GET", p)), metrics_open=False)]
    within = [p for p, _ in open_to if path == p or path.startswith(f"{p}/")]
    here = max(within, key=len, default=None)
    return [(p, name, p == here) for p, name in open_to]


__all__ = ["HEADERS", "POLICY", "environment", "html", "page"]
