"""In the process of a canary's monitor, which may live for months: where webhooks and the kill switch are by now.

Their hosts are looked up anew before each call, and held to `outgoing` as they were at the start: a load balancer may
have moved. While a name cannot be looked up, its last address that was allowed is taken: a kill switch must not fail
because of the resolver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

import httpx

from loadgen.errors import TargetUnusable
from loadgen.scenario import HttpCall, PinnedTransport, Switch
from loadgen.service.config import OutgoingKeys
from loadgen.service.outgoing import Outgoing, Refused, Resolver, Unknown, address_of_text, look_up

Client = Callable[[str, float], AbstractAsyncContextManager[httpx.AsyncClient]]


class Settling:
    """`settled`: addresses that were checked at the start, by host. `resolver`: the seam of tests."""

    def __init__(self, keys: OutgoingKeys, settled: Mapping[str, str], resolver: Resolver = look_up) -> None:
        self._outgoing = Outgoing(keys, resolver)
        self._settled = dict(settled)

    async def placed(self, url: str) -> tuple[str, str]:
        """Host and the address to connect to. Raises Refused."""
        host, _ = self._outgoing.read(url, listed=False)
        try:
            self._settled[host] = (await self._outgoing.check(url)).address
        except Unknown:
            if host not in self._settled:
                raise
        return host, self._settled[host]

    async def switch(self, switch: Switch) -> Switch:
        """To be pulled off now. Raises TargetUnusable where its host may not be connected to any more."""
        call = switch.off
        if not isinstance(call, HttpCall):
            return switch
        try:
            host, address = await self.placed(call.url)
        except Refused as error:
            raise TargetUnusable(f"it may not be connected to: {error}") from None
        resolve = {} if address_of_text(host) is not None else {host: address}
        return switch.model_copy(update={"off": call.model_copy(update={"resolve": resolve})})

    def client(self, _url: str, timeout_s: float) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        """Looks up and checks where each request goes to, and connects to nothing else."""
        return httpx.AsyncClient(transport=_Checking(self), timeout=timeout_s, follow_redirects=False, trust_env=False)


class _Checking(httpx.AsyncBaseTransport):
    """Of one call."""

    def __init__(self, settling: Settling) -> None:
        self._settling = settling
        self._used: list[PinnedTransport] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            host, address = await self._settling.placed(str(request.url))
        except Refused as error:
            raise httpx.ConnectError(str(error), request=request) from None
        context = httpx.create_ssl_context(trust_env=False)
        self._used.append(PinnedTransport({host: address}, verify=context, only=True))
        return await self._used[-1].handle_async_request(request)

    async def aclose(self) -> None:
        for transport in self._used:
            await transport.aclose()
