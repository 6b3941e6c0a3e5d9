"""Logins of browsers. A token is exchanged for a cookie; what changes something needs the session's CSRF token, too.

Sessions live in memory: a restart of the service ends them. Only hashes of cookies are kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from loadgen.service.tokens import Identity

#: More at once, and the oldest ends.
MOST_SESSIONS = 1000


@dataclass(frozen=True, slots=True)
class Session:
    """`csrf` stands in the pages of this session (and in a cookie that its scripts can read), and comes back with every
    request that changes something. `ends_s`: monotonic."""

    identity: Identity
    csrf: str
    ends_s: float


class Sessions:
    """Thread-safe. `now`: seconds, monotonic."""

    def __init__(self, hours: float, now: Callable[[], float] = time.monotonic) -> None:
        self._lasts_s = hours * 3600
        self._now = now
        self._secret = secrets.token_bytes(32)
        self._lock = Lock()
        self._sessions: dict[bytes, Session] = {}

    @property
    def lasts_s(self) -> int:
        return int(self._lasts_s)

    def begin(self, identity: Identity) -> tuple[str, Session]:
        """The cookie's value, and the session."""
        cookie = secrets.token_urlsafe(32)
        csrf = hmac.new(self._secret, b"csrf:" + cookie.encode(), "sha256").hexdigest()
        session = Session(identity, csrf, self._now() + self._lasts_s)
        with self._lock:
            while len(self._sessions) >= MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[_mark(cookie)] = session
        return cookie, session

    def find(self, cookie: str) -> Session | None:
        mark = _mark(cookie)
        with self._lock:
            session = self._sessions.get(mark)
            if session is not None and self._now() >= session.ends_s:
                del self._sessions[mark]
                session = None
        return session

    def end(self, cookie: str) -> None:
        with self._lock:
            self._sessions.pop(_mark(cookie), None)


def csrf_matches(session: Session, sent: str | None) -> bool:
    """Constant time."""
    return sent is not None and hmac.compare_digest(session.csrf.encode(), sent.encode("utf-8", "surrogatepass"))


def _mark(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()
