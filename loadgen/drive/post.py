"""One request of the load as both transports take it: made without httpx's objects, which cost more than the send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import httpx

from loadgen.drive.types import Exchange

REQUEST_ID = "x-request-id"


@dataclass(frozen=True, slots=True, eq=False)
class Destination:
    """Where posts go, and the headers that are alike in all of them. Compared by identity.

    `named`: every post adds its own request id; False where the headers have a fixed one.
    """

    url: httpx.URL
    headers: httpx.Headers
    named: bool


@dataclass(frozen=True, slots=True, eq=False)
class Post:
    destination: Destination
    request_id: str
    body: bytes
    exchange: Exchange

    def as_httpx(self) -> httpx.Request:
        headers = self.destination.headers.copy()
        if self.destination.named:
            headers[REQUEST_ID] = self.request_id
        extensions = {"exchange": self.exchange}
        return httpx.Request("POST", self.destination.url, headers=headers, content=self.body, extensions=extensions)


def destination(base_url: str, path: str, *headers: Iterable[tuple[str, str]]) -> Destination:
    """Later headers take the place of earlier ones of the same name. A fixed request id stays only where the
    last ones, the user's own, have it."""
    merged = httpx.Headers({"accept-encoding": "identity", "user-agent": "specload"})
    fixed = False
    for some in headers:
        found = httpx.Headers(list(some))
        fixed = REQUEST_ID in found
        merged.update(found)
    if not fixed:
        merged.pop(REQUEST_ID, None)
    return Destination(httpx.URL(base_url.rstrip("/") + path), merged, named=not fixed)


def sender(transport: httpx.AsyncBaseTransport) -> Callable[[Post], Awaitable[object]]:
    """The transport's own `post` where it has one; any other gets an httpx request for each."""
    own: Callable[[Post], Awaitable[object]] | None = getattr(transport, "post", None)
    if own is not None:
        return own

    async def send(post: Post) -> None:
        await transport.handle_async_request(post.as_httpx())

    return send
