"""Who asks, and whether they may: asked at every route, before anything of a body is read."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from loadgen.service.limits import source_of
from loadgen.service.patience import PEER
from loadgen.service.problems import Problem, too_often
from loadgen.service.roles import ACCESS, API, Access, allowed
from loadgen.service.security import KEY, SAFE, Seen
from loadgen.service.sessions import Session, csrf_matches
from loadgen.service.state import Service
from loadgen.service.tokens import Identity, claimed_name

COOKIE, CSRF_COOKIE, CSRF_HEADER, CSRF_FIELD = "specload_session", "specload_csrf", "X-CSRF-Token", "csrf_token"
#: Worded so that the mask of what looks like a secret leaves it whole: no `Authorization: …`.
_UNKNOWN = Problem(
    401, "unknown", "say who you are: send Bearer TOKEN in the header Authorization, or log in",
    headers={"WWW-Authenticate": "Bearer"},
)  # fmt: skip


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def seen_of(request: Request) -> Seen:
    seen: Seen = request.scope[KEY]
    return seen


def cookie_name(service: Service) -> str:
    return f"__Host-{COOKIE}" if service.config.listen.secure else COOKIE


async def authorize(request: Request) -> None:
    """Raises Problem: 401, 403 or 429. Afterwards `seen_of(request).identity` says who asks."""
    service, seen = service_of(request), seen_of(request)
    seen.route = request.scope["route"].path
    seen.subject = "/".join(map(str, request.path_params.values())) or None
    access = ACCESS.get((request.method, seen.route or ""))
    seen.identity, session = await _identity(request, service, seen)
    role = None if seen.identity is None else seen.identity.role
    if not allowed(role, access, metrics_open=service.config.metrics.open):
        if seen.identity is None:
            raise _unknown(service, seen)
        service.refused("role")
        raise Problem(403, "not-allowed", f"a {role} may not do this")
    if seen.identity is not None:
        seen.known = True
        service.connections.known(request.scope.get(PEER))
    asker = f"address {source_of(seen.address)}" if seen.identity is None else f"token {seen.identity.name}"
    wait_s = service.asks.take(asker)
    if wait_s is not None:
        service.refused("rate")
        raise too_often(wait_s)
    if session is not None and request.method not in SAFE:
        await check_csrf(request, service, session)


def _unknown(service: Service, seen: Seen) -> Problem:
    """Whoever shows no token locks nobody out, and is told so as often as others may ask. One that was compared is
    counted already."""
    wait_s = None if seen.compared else service.asks.take(f"address {source_of(seen.address)}")
    service.refused("unknown" if wait_s is None else "rate")
    return _UNKNOWN if wait_s is None else too_often(wait_s)


async def _identity(request: Request, service: Service, seen: Seen) -> tuple[Identity | None, Session | None]:
    """Who asks, and by which session. Nothing of a body is read."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        if scheme.lower() == "basic" and (seen.route or "").startswith(f"{API}/hooks/"):
            return await known(service, seen, _password(token)), None
        if scheme.lower() != "bearer":
            return None, None
        return await known(service, seen, token.strip()), None
    session = session_of(request, service)
    return (None, None) if session is None else (session.identity, session)


def _password(basic: str) -> str:
    """Of https://NAME:TOKEN@host/…: webhooks of Flagger can send no other header."""
    try:
        return base64.b64decode(basic.strip(), validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


async def known(service: Service, seen: Seen, token: str) -> Identity | None:
    """Who the token belongs to. A refused one is counted and written down; too many of one address under one name, and
    nothing is compared: neither another address nor another token suffers, until there are many more under many names.
    Whether a name is known is not to be told from it. Raises Problem 429."""
    seen.compared = True
    if (identity := service.tokens.seen(token)) is not None:
        return identity
    asker = f"{source_of(seen.address)} {claimed_name(token)}"
    wait_s = service.failures.take(asker)  # and held meanwhile: of many at once, no more are compared
    if wait_s is None and (wait_s := service.guesses.take(source_of(seen.address))) is not None:
        service.failures.give_back(asker)
    if wait_s is not None:
        service.refusals.more(seen.address)
        service.refused("rate")
        raise too_often(wait_s)
    async with service.comparing:
        identity = await run_in_threadpool(service.tokens.who, token)
    if identity is None:
        await run_in_threadpool(service.refusals.add, seen.address, seen.route)
    else:
        service.failures.give_back(asker)
        service.guesses.give_back(source_of(seen.address))
    return identity


def session_of(request: Request, service: Service) -> Session | None:
    cookie = request.cookies.get(cookie_name(service))
    return None if cookie is None else service.sessions.find(cookie)


async def check_csrf(request: Request, service: Service, session: Session) -> None:
    """Raises Problem 403. Only now, of whoever may do it, and from a page of ours, is a form read."""
    ours, sent = same_origin(request), request.headers.get(CSRF_HEADER)
    kind = request.headers.get("content-type", "")
    if ours and sent is None and kind.startswith("application/x-www-form-urlencoded"):
        sent = (await form_of(request)).get(CSRF_FIELD)
    if not ours or not csrf_matches(session, sent):
        service.refused("csrf")
        seen_of(request).detail = "csrf"
        raise Problem(403, "csrf", f"the session's CSRF token is missing or wrong: send {CSRF_HEADER} or {CSRF_FIELD}")


def same_origin(request: Request) -> bool:
    """Browsers say where a request comes from; other clients say nothing."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def form_of(request: Request) -> dict[str, str]:
    """Fields of a form, each once. Raises TooLarge, or ClientDisconnect where it does not come."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        return {key: values[0] for key, values in parse_qs(text, max_num_fields=50).items()}
    except ValueError:
        return {}


def _identified(request: Request) -> Identity:
    identity = seen_of(request).identity
    if identity is None:
        raise _UNKNOWN
    return identity


ServiceOf = Annotated[Service, Depends(service_of)]
Who = Annotated[Identity, Depends(_identified)]
__all__ = ["ACCESS", "Access", "ServiceOf", "Who", "authorize", "form_of", "known", "service_of", "session_of"]
