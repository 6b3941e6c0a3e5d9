"""Look at a server and write a first scenario for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import httpx
import orjson
from pydantic import ValidationError

from loadgen.errors import ScenarioError, TargetUnusable
from loadgen.experiment.preflight import PROBE_TIMEOUT_S, bearer
from loadgen.redact import Redactor
from loadgen.scenario import Arm, SecretSource
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
{api_key}{speculation}
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


async def describe_server(url: str, file: str, api_key: SecretSource | None = None) -> ServerReport:
    """Probe `url` as vLLM, else as any OpenAI-compatible server. Raises TargetUnusable, or ScenarioError: no key,
    no URL."""
    url = _base_url(url)
    headers = {} if api_key is None else bearer(api_key)
    redact = Redactor(headers.values())
    target = Target(url, (f"{url}/metrics",), None, headers)
    async with httpx.AsyncClient(timeout=PROBE_TIMEOUT_S, trust_env=False) as client:
        for name in ("vllm", "openai"):
            try:
                found = await adapter_named(name).probe(client, target)
            except TargetError as error:
                raise TargetUnusable(redact(str(error))) from None
            if name == "openai" or found.metrics:
                found = replace(found, notes=tuple(redact(note) for note in found.notes))
                return ServerReport(url, name, found, _scenario(url, name, found, file, api_key))
    raise AssertionError("the openai adapter always answers")


def _base_url(url: str) -> str:
    """As scenarios have it: no user, password or query in it."""
    url = url.rstrip("/").removesuffix("/v1")
    try:
        return Arm(url=url).url or url
    except ValidationError as error:
        why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise ScenarioError([f"{Redactor()(url)!r} is not a server's base URL: {why}"]) from None


def _scenario(url: str, adapter: str, found: Capabilities, file: str, api_key: SecretSource | None) -> str:
    on = found.speculation is True
    known = found.speculation is not None
    length = found.max_model_len or 2048
    return _TEMPLATE.format(
        url=url,
        file=file,
        name=re.sub(r"[^A-Za-z0-9.-]+", "-", urlsplit(url).hostname or "").strip("-.")[:57] + "-first",
        arm="candidate" if on else "baseline",
        other_arm="baseline" if on else "candidate",
        other="without speculation" if on else "with speculation",
        adapter=adapter,
        model=_yaml(found.models[0]) if found.models else "MODEL",
        api_key="" if api_key is None else f"    api_key: {{env: {_yaml(api_key.env or '')}}}\n",
        speculation=f"    speculation: {'on' if on else 'off'}\n" if known else "",
        input_high=max(64, min(512, length // 4)),
    )


def _yaml(text: str) -> str:
    """`text` as YAML, whatever a server calls its model: JSON's strings are YAML's."""
    return orjson.dumps(text).decode()
