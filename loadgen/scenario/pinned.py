"""Connecting to an address that was settled before, whatever a name resolves to by now."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import httpx


class PinnedTransport(httpx.AsyncBaseTransport):
    """Ordinary HTTP to `addresses[host]`. The Host header and the name that TLS checks stay the URL's. A host without
    an address here is looked up as ever, unless `only`: then it is refused with `httpx.ConnectError`.

    Each host has connections of its own: two names of one address do not share a TLS session.
    """

    def __init__(
        self, addresses: Mapping[str, str], *, verify: ssl.SSLContext, http2: bool = False, only: bool = False
    ) -> None:
        self._addresses = dict(addresses)
        self._verify = verify
        self._http2 = http2
        self._only = only
        self._by_host: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host, sent = request.url.host, request.url.raw_host.decode("ascii")  # bücher.example, xn--bcher-kva.example
        address = self._addresses.get(sent, self._addresses.get(host.lower()))
        if address is None and self._only:
            raise httpx.ConnectError(f"{host} has no settled address", request=request)
        if address is not None and address != host:
            request = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # Host was set from the name
                stream=request.stream,
                extensions={"sni_hostname": sent, **request.extensions},
            )
        return await self._transport(host).handle_async_request(request)

    def _transport(self, host: str) -> httpx.AsyncHTTPTransport:
        if host not in self._by_host:
            self._by_host[host] = httpx.AsyncHTTPTransport(verify=self._verify, http2=self._http2, trust_env=False)
        return self._by_host[host]

    async def aclose(self) -> None:
        for transport in self._by_host.values():
            await transport.aclose()
