"""URLs of a scenario that are no target's: those of kill switches and webhooks.

They are held to `outgoing` as all others are, and each host is looked up once, before: what is connected to is the
address that was checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Literal

from loadgen.errors import ScenarioError
from loadgen.scenario import Document, document_of
from loadgen.service.outgoing import Outgoing, Refused, address_of_text, read_url

Part = Literal["drill", "canary"]
_Loc = tuple[str | int, ...]


def refused_urls(outgoing: Outgoing, document: Document, part: Part) -> list[str]:
    """What may not be connected to, each with its line. Nothing is looked up."""
    problems = []
    for loc, url in _urls(document.value, part):
        try:
            outgoing.read(url, listed=False)
        except Refused as error:
            problems.append(f"{document.where(loc)}: {'.'.join(map(str, loc))}: {error}")
    return problems


async def resolved(outgoing: Outgoing, text: str, part: Part) -> dict[str, str]:
    """Host to the address that is connected to. Raises Refused."""
    if part not in text:
        return {}
    try:  # a long text takes long to read: not on the loop
        value = (await asyncio.to_thread(document_of, text.encode(), "scenario")).value
    except ScenarioError:
        return {}  # which is said when it is composed
    if part == "drill" and value.get("experiment") != "drill":
        return {}
    checked = await outgoing.check_all([url for _, url in _urls(value, part)])
    return {one.host: one.address for one in checked}


def pin(value: dict[str, Any], part: Part, resolve: dict[str, str] | Any) -> None:
    """Put the addresses where the requests are made from. A scenario's own do not count."""
    for _, call in _calls(value, part):
        if call.get("kind") == "http":
            host = _host(call.get("url"))
            call["resolve"] = {h: a for h, a in resolve.items() if h == host and address_of_text(h) is None}
    arms = value.get("arms")
    for arm in arms.values() if isinstance(arms, dict) else ():
        for _, call in _calls(value, part):
            named = call.get("urls") if call.get("kind") == "adapter" else None
            for host in map(_host, named if isinstance(named, list) else ()):
                if host in resolve and address_of_text(host) is None:
                    arm.setdefault("resolve", {}).setdefault(host, resolve[host])


def _host(url: Any) -> str:
    try:
        return read_url(url)[0] if isinstance(url, str) else ""
    except Refused:
        return ""


def _urls(value: dict[str, Any], part: Part) -> Iterator[tuple[_Loc, str]]:
    for loc, call in _calls(value, part):
        if call.get("kind") == "http" and isinstance(call.get("url"), str):
            yield (*loc, "url"), call["url"]
        urls = call.get("urls") if call.get("kind") == "adapter" else None
        for i, url in enumerate(urls if isinstance(urls, list) else ()):
            if isinstance(url, str):
                yield (*loc, "urls", i), url
    hooks = _dict(value.get("canary")).get("webhooks") if part == "canary" else None
    for i, hook in enumerate(hooks if isinstance(hooks, list) else ()):
        if isinstance(_dict(hook).get("url"), str):
            yield ("canary", "webhooks", i, "url"), hook["url"]


def _calls(value: dict[str, Any], part: Part) -> Iterator[tuple[_Loc, dict[str, Any]]]:
    switch = _dict(_dict(value.get(part)).get("switch"))
    for direction in ("off", "on"):
        if call := _dict(switch.get(direction)):
            yield (part, "switch", direction), call


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
