"""Logging in with a browser: a token for a cookie."""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from loadgen.service.access import (
    CSRF_COOKIE,
    ServiceOf,
    cookie_name,
    form_of,
    known,
    same_origin,
    seen_of,
)
from loadgen.service.api.base import router_of
from loadgen.service.pages.render import HEADERS, html
from loadgen.service.patience import PEER
from loadgen.service.problems import Problem
from loadgen.service.state import Service

router = router_of("login", prefix="")
HOME = "/"


def login_page(next_: str, said: str = "", status: int = 200) -> HTMLResponse:
    return HTMLResponse(html("login.html", "/login", None, next=local_path(next_), said=said), status, headers=HEADERS)


@router.get("/login", summary="The form", response_class=HTMLResponse)
def login_form(next: str = HOME) -> HTMLResponse:
    return login_page(next[:500])


@router.post(
    "/login",
    summary="A token for a session's cookie",
    status_code=303,
    response_class=RedirectResponse,
    responses={401: {"description": "the form again", "content": {"text/html": {"schema": {"type": "string"}}}}},
    openapi_extra={
        "requestBody": {
            "content": {
                "application/x-www-form-urlencoded": {
                    "schema": {
                        "type": "object",
                        "properties": {"token": {"type": "string"}, "next": {"type": "string"}},
                        "required": ["token"],
                    }
                }
            }
        }
    },
)
async def login(service: ServiceOf, request: Request) -> Response:
    seen = seen_of(request)
    if not same_origin(request):
        service.refused("csrf")
        raise Problem(403, "csrf", "a login comes from the service's own page")
    form = await form_of(request)
    identity = await known(service, seen, form.get("token", "").strip())
    if identity is None:
        service.refused("unknown")
        return login_page(form.get("next", HOME), "This token is not known.", 401)
    seen.identity, seen.subject = identity, None
    service.connections.known(request.scope.get(PEER))
    cookie, session = service.sessions.begin(identity)
    response = RedirectResponse(local_path(form.get("next", HOME)), 303)
    _set(response, service, cookie_name(service), cookie, http_only=True)
    _set(response, service, CSRF_COOKIE, session.csrf, http_only=False)
    return response


@router.post("/logout", summary="End the session", status_code=303, response_class=RedirectResponse)
async def logout(service: ServiceOf, request: Request) -> Response:
    cookie = request.cookies.get(cookie_name(service))
    if cookie is not None:
        await run_in_threadpool(service.sessions.end, cookie)
    response = RedirectResponse("/login", 303)
    for name in (cookie_name(service), CSRF_COOKIE):
        response.delete_cookie(name, secure=service.config.listen.secure, samesite="strict")
    return response


def _set(response: Response, service: Service, name: str, value: str, *, http_only: bool) -> None:
    response.set_cookie(
        name, value, max_age=service.sessions.lasts_s, path="/", secure=service.config.listen.secure,
        httponly=http_only, samesite="strict",
    )  # fmt: skip


def local_path(text: str) -> str:
    """A path of this service; anything else leads home: the login must not send people elsewhere."""
    fine = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() and text.isascii()
    return text if fine and "\\" not in text else HOME
