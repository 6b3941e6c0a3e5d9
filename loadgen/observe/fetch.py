"""One metrics page over HTTP, of bounded size."""

from __future__ import annotations

import httpx

#: A metrics page larger than this is none.
MAX_PAGE_BYTES = 32 * 2**20


class Refused(Exception):
    """It answered, but not with a page: the message says what."""


async def fetch(client: httpx.AsyncClient, url: str, on_login: str = "") -> str:
    """The page's text. Raises Refused (`on_login` is added where a login is missing), or what `client` raises."""
    async with client.stream("GET", url) as response:
        if response.status_code != 200:
            raise Refused(f"HTTP {response.status_code}{on_login if response.status_code in (401, 403) else ''}")
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_PAGE_BYTES:
                raise Refused(f"more than {MAX_PAGE_BYTES} bytes: not a metrics page")
    return body.decode("utf-8", "replace")
