"""The requests of an access check: GET and OPTIONS alone, never one that changes anything, and not many."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

import httpx
from pydantic import SecretStr

from loadgen.scenario import Reach

#: Of one run, over all its arms.
MOST_REQUESTS = 50
_KEPT_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Seen:
    """`status` None: no answer, for `problem`."""

    status: int | None
    headers: Mapping[str, str]
    body: bytes
    problem: str | None = None

    @property
    def open(self) -> bool:
        """Let in: a page, or a refusal for another reason than who asks. Sent elsewhere (a login page, say) is not."""
        return self.status is not None and not self.silent and self.status not in (401, 403, 404, 407)

    @property
    def silent(self) -> bool:
        """Says nothing of who is let in: sent elsewhere, asked too often, broken."""
        return self.status is not None and (300 <= self.status < 400 or self.status == 429 or self.status >= 500)

    @property
    def tells_nothing(self) -> bool:
        """No answer, or one that is silent: neither open nor closed."""
        return self.status is None or self.silent

    @property
    def guarded(self) -> bool:
        return self.status in (401, 403)


class Looks:
    """Counts what is asked; the rest of a run that asks for more is not shown."""

    def __init__(self, timeout_s: float) -> None:
        self.asked = 0
        self._timeout_s = timeout_s

    async def get(
        self,
        reach: Reach,
        url: str,
        headers: Mapping[str, SecretStr] | None = None,
        *,
        method: str = "GET",
        verified: bool = True,
        extra: Mapping[str, str] | None = None,
    ) -> Seen:
        """Never raises. `verified` False: certificates are not checked, and no secret may be sent."""
        assert method in ("GET", "OPTIONS", "HEAD")
        assert verified or not headers
        if self.asked >= MOST_REQUESTS:
            return Seen(None, {}, b"", f"{MOST_REQUESTS} requests are all that an access check sends")
        self.asked += 1
        options = (reach if verified else replace(reach, verify=False)).httpx_options()
        sent = {name: value.get_secret_value() for name, value in (headers or {}).items()} | dict(extra or {})
        try:
            async with (
                httpx.AsyncClient(timeout=self._timeout_s, follow_redirects=False, **options) as client,
                client.stream(method, url, headers=sent) as response,
            ):
                return Seen(response.status_code, dict(response.headers), await _body(response))
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            return Seen(None, {}, b"", f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


async def _body(response: httpx.Response) -> bytes:
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > _KEPT_BYTES:
            break
    return body[:_KEPT_BYTES]


def wrong_key() -> dict[str, SecretStr]:
    """A key that nobody has."""
    return {"Authorization": SecretStr(f"Bearer wrong-{secrets.token_hex(16)}")}
