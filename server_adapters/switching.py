"""Switching speculation off and on while a server runs: which servers can, and how they are asked."""

from __future__ import annotations

import httpx

from server_adapters.base import Target, TargetError
from server_adapters.openai_chunks import read_http_error
from server_adapters.probing import address, ask_json, ask_server, shown

#: Local part of the version that a rehearsal engine tells (docs/rehearsal.md).
_REHEARSAL = "+rehearsal"
_ANOTHER_WAY = (
    "use a switch of kind http or command that moves users to a server without speculation, such as a gateway's"
)


class NotSwitched(TargetError):
    """The server refuses, or has no such switch. `said`: so, without a word of the server's, which the message has."""

    def __init__(self, said: str, message: str) -> None:
        super().__init__(message)
        self.said = said


async def switch_speculation(client: httpx.AsyncClient, target: Target, enabled: bool) -> str:
    """Ask a server to speculate no longer, or again; what it answered. Raises TargetError where it cannot be reached,
    NotSwitched where it refuses or has no such switch."""
    version = (await ask_json(client, target, "/version") or {}).get("version")
    if not isinstance(version, str) or _REHEARSAL not in version:
        what = "tells no version" if version is None else f"is version {str(version)[:40]}"
        raise NotSwitched(
            f"no run-time switch of speculation is known of a server; {_ANOTHER_WAY}",
            f"{shown(target.url)} {what}, of which no run-time switch of speculation is known (vLLM and SGLang have "
            f"none: speculation is chosen when they start); {_ANOTHER_WAY}",
        )
    url = address(target, "/rehearsal/speculation")
    answer = await ask_server(client, target, "POST", url, json={"enabled": enabled})
    if answer.status_code != 200:
        said = f"HTTP {answer.status_code} of a server"
        raise NotSwitched(said, f"{shown(url)}: {read_http_error(answer.status_code, answer.content).message[:200]}")
    return f"{shown(target.url)}: {answer.text[:200]}"
