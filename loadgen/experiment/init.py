"""Look at a server and write a first scenario for it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from pydantic import SecretStr

from loadgen.errors import TargetUnusable
from loadgen.experiment.preflight import PROBE_TIMEOUT_S
from server_adapters import adapter_named
from server_adapters.base import Capabilities, Target, TargetError

_TEMPLATE = """\
# Written by `specload init` after looking at {url}.
# Keys and defaults: docs/scenario.md. Before the first run: specload check {file}
version: 1
name: {name}
objective: latency
environment: production        # caps the load; staging or disposable lift the caps
seed: 1

arms:
  {arm}:
    url: {url}
    adapter: {adapter}
    model: {model}
{speculation}
  # The other arm of the comparison: the same server {other}.
  # {other_arm}:
  #   url: http://HOST:PORT

workload:
  endpoint: chat
  tasks:
    # Own prompts are what makes acceptance representative: prompts: my_prompts.jsonl
    - task_type: short_qa
      weight: 2
      input_len: {{kind: uniform, low: 64, high: {input_high}}}
      output_len: {{kind: fixed, value: 128}}
    - task_type: code
      weight: 1
      input_len: {{kind: uniform, low: 64, high: {input_high}}}
      output_len: {{kind: fixed, value: 256}}

sampling: {{temperature: 0.0, top_p: 1.0}}

load:
  - {{kind: concurrency, concurrency: 1, cases: 20}}
  - {{kind: concurrency, concurrency: 4, cases: 40}}
  - {{kind: concurrency, concurrency: 8, cases: 80}}
"""


@dataclass(frozen=True)
class ServerReport:
    """What was found. `notes`: flags that would give better numbers."""

    url: str
    adapter: str
    capabilities: Capabilities
    scenario: str


async def describe_server(url: str, file: str, api_key: SecretStr | None = None) -> ServerReport:
    """Probe `url` as vLLM, else as any OpenAI-compatible server. Raises TargetUnusable."""
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise TargetUnusable(f"{url!r} is not a server's base URL; write it like http://host:8000")
    url = url.rstrip("/").removesuffix("/v1")
    headers = {"Authorization": SecretStr(f"Bearer {api_key.get_secret_value()}")} if api_key else {}
    target = Target(url, (f"{url}/metrics",), None, headers)
    async with httpx.AsyncClient(timeout=PROBE_TIMEOUT_S, trust_env=False) as client:
        for name in ("vllm", "openai"):
            try:
                found = await adapter_named(name).probe(client, target)
            except TargetError as error:
                raise TargetUnusable(str(error)) from None
            if name == "openai" or found.metrics:
                return ServerReport(url, name, found, _scenario(url, name, found, file))
    raise AssertionError("the openai adapter always answers")


def _scenario(url: str, adapter: str, found: Capabilities, file: str) -> str:
    on = found.speculation is True
    known = found.speculation is not None
    length = found.max_model_len or 2048
    return _TEMPLATE.format(
        url=url,
        file=file,
        name=f"{urlsplit(url).hostname}-first".replace(":", "-"),
        arm="candidate" if on else "baseline",
        other_arm="baseline" if on else "candidate",
        other="without speculation" if on else "with speculation",
        adapter=adapter,
        model=found.models[0] if found.models else "MODEL",
        speculation=f"    speculation: {'on' if on else 'off'}\n" if known else "",
        input_high=max(64, min(512, length // 4)),
    )
