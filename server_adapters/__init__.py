"""What each inference server sends and exports, behind one interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from server_adapters.base import Adapter
from server_adapters.openai import OpenAIAdapter
from server_adapters.vllm import VllmAdapter

__all__ = ["ADAPTERS", "adapter_named"]

#: Server families by the name a scenario gives them.
ADAPTERS: Mapping[str, Callable[[], Adapter]] = {"openai": OpenAIAdapter, "vllm": VllmAdapter}


def adapter_named(name: str) -> Adapter:
    """A new adapter. ValueError for a name that is none of `ADAPTERS`."""
    if name not in ADAPTERS:
        raise ValueError(f"there is no adapter {name!r}; known are: {', '.join(sorted(ADAPTERS))}")
    return ADAPTERS[name]()
