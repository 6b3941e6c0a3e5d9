"""Logging in with a browser: a token for a cookie."""

from __future__ import annotations

from html import escape

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
from loadgen.service.problems import Problem
from loadgen.service.security import page_policy
from loadgen.service.state import Service

router = router_of("login", prefix="")
HOME = "/"
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Log in · specload</title></head><body><main><h1>specload</h1>{said}
<form method="post" action="/login"><label>Token <input type="password" name="token" autocomplete="current-password"
required autofocus></label> <input type="hidden" name="next" value="{next}"><button>Log in</button></form></main></body>
</html>"""


def login_page(next_: str, said: str = "", status: int = 200) -> HTMLResponse:
    shown = f'<p role="alert">{escape(said)}</p>' if said else ""
    page = _PAGE.format(said=shown, next=escape(local_path(next_), quote=True))
    return HTMLResponse(page, status, headers={"Content-Security-Policy": page_policy("none")})


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
        service.failures.take(seen.address or "unknown")
        service.refused("unknown")
        return login_page(form.get("next", HOME), "This token is not known.", 401)
    seen.identity, seen.subject = identity, None
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
