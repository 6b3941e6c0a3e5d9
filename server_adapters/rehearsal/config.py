"""What a rehearsal server is told at its start, as strings a command line can carry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from pydantic import SecretStr

from server_adapters.rehearsal.types import EngineConfig, SpecMethod, SpeculationConfig

SpecMetrics = Literal["none", "summary", "detailed"]
Dtype = Literal["bfloat16", "float16"]
DTYPES: tuple[Dtype, ...] = ("bfloat16", "float16")
Template = Literal["plain", "system"]
TEMPLATES: tuple[Template, ...] = ("plain", "system")
OTHER_TEMPLATE: Mapping[Template, Template] = {"plain": "system", "system": "plain"}
#: Sampling fields that --generation-config may give a default, and their types.
_DEFAULTABLE: Mapping[str, type[float] | type[int]] = {"temperature": float, "top_p": float, "top_k": int}
SPEC_METRICS: tuple[SpecMetrics, ...] = ("none", "summary", "detailed")
_METHODS: dict[str, SpecMethod] = {"draft": "draft_model", "ngram": "ngram"}


@dataclass(frozen=True, slots=True)
class RehearsalConfig:
    """One server. `port` 0 takes a free one.

    `spec`: "off", "draft:k=4", "ngram:k=4,min=2,max=4", with `schedule=1-8:4;9-256:1` for k by batch size.
    `faults`: each "name" or "name:key=value,…" (faults.py). `api_key_env` names the environment variable that
    holds the key /v1 asks for. `dev_mode` opens /server_info and /reset_prefix_cache, as vLLM's does.
    `dtype` is told, and changes nothing else (both take two bytes). `template` "system" puts a system message before
    chats that begin with none. `generation_config`, "temperature=0.6,top_k=20": defaults of what a request leaves out,
    as a model's generation_config.json has them.
    `numerics`: sigma of the noise of the target's logits, nat.
    `max_pending_truths`: finished requests kept for /rehearsal/truth.
    """

    spec: str = "off"
    hardware: str = "h100"
    model: str = "70b"
    draft_model: str = "1b"
    dtype: Dtype = "bfloat16"
    template: Template = "plain"
    generation_config: str = ""
    tensor_parallel: int | None = None
    served_model_name: str | None = None
    host: str = "127.0.0.1"
    port: int = 0
    speed: float = 1.0
    jitter: float = 0.02
    numerics: float = 0.0
    seed: int = 0
    faults: tuple[str, ...] = ()
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_model_len: int = 4096
    num_blocks: int | None = None
    enable_prefix_caching: bool = True
    max_num_queued_reqs: int | None = None
    max_num_queued_tokens: int | None = None
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    per_request_spec_metrics: SpecMetrics = "detailed"
    per_request_metrics: bool = True
    prompt_tokens_details: bool = False
    stream_interval: int = 1
    api_key_env: str | None = None
    dev_mode: bool = True
    max_pending_truths: int = 2000

    @property
    def model_name(self) -> str:
        """The name the server answers to."""
        return self.served_model_name or f"rehearsal-{self.model}"

    def speculation(self) -> SpeculationConfig | None:
        """`spec` read; ValueError says what is allowed."""
        return parse_spec(self.spec)

    def engine(self) -> EngineConfig:
        """The engine's part. ValueError where `spec` cannot be read."""
        if not self.speed > 0:
            raise ValueError("speed must be above 0")
        self.sampling_defaults()
        shared = {f.name for f in fields(EngineConfig)} & {f.name for f in fields(self)}
        taken = {name: getattr(self, name) for name in shared if name != "speculation"}
        return EngineConfig(speculation=self.speculation(), target_model=self.model, **taken)

    def sampling_defaults(self) -> dict[str, float | int]:
        """`generation_config` read; ValueError says what is allowed."""
        found: dict[str, float | int] = {}
        for key, text in parse_options(self.generation_config, "generation_config").items():
            if key not in _DEFAULTABLE:
                raise ValueError(f"generation_config: unknown {key}; known: {', '.join(sorted(_DEFAULTABLE))}")
            try:
                found[key] = _DEFAULTABLE[key](text)
            except ValueError:
                raise ValueError(f"generation_config: {key}={text} is not a number") from None
        return found

    def api_key(self) -> SecretStr | None:
        """The key /v1 asks for. ValueError where the environment variable is empty."""
        if self.api_key_env is None:
            return None
        value = os.environ.get(self.api_key_env)
        if not value:
            raise ValueError(f"the environment variable {self.api_key_env} of --api-key-env is not set")
        return SecretStr(value)


def parse_spec(text: str) -> SpeculationConfig | None:
    """Read "off" or "METHOD:key=value,…"."""
    if text == "off":
        return None
    name, _, rest = text.partition(":")
    if name not in _METHODS:
        raise ValueError(f"spec {text!r}: write off, draft:k=4 or ngram:k=4")
    options = parse_options(rest, f"spec {text!r}")
    allowed = {"k", "schedule", "draft_max_model_len"} | ({"min", "max"} if name == "ngram" else set())
    if unknown := sorted(options.keys() - allowed):
        raise ValueError(f"spec {text!r}: unknown {', '.join(unknown)}; known: {', '.join(sorted(allowed))}")
    k = _whole(options.get("k", "4"), "k", 1, 16)
    low = _whole(options.get("min", "2"), "min", 1, 16)
    limit = options.get("draft_max_model_len")
    return SpeculationConfig(
        method=_METHODS[name],
        num_speculative_tokens=k,
        schedule=_schedule(options.get("schedule", "")),
        prompt_lookup_min=low,
        prompt_lookup_max=_whole(options.get("max", str(max(4, low))), "max", low, 16),
        draft_max_model_len=None if limit is None else _whole(limit, "draft_max_model_len", 1, 1 << 20),
    )


def parse_options(text: str, where: str) -> dict[str, str]:
    """ "a=1,b=x" as a mapping."""
    options: dict[str, str] = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if not equals or not key or not value:
            raise ValueError(f"{where}: {item!r} is not key=value")
        options[key] = value
    return options


def _schedule(text: str) -> tuple[tuple[int, int, int], ...]:
    """ "1-8:4;9-64:2" as ((1, 8, 4), (9, 64, 2))."""
    found = []
    for item in filter(None, text.split(";")):
        sizes, _, k = item.partition(":")
        start, _, end = sizes.partition("-")
        try:
            found.append((int(start), int(end), int(k)))
        except ValueError:
            raise ValueError(f"schedule {item!r}: write FROM-TO:K, such as 1-8:4") from None
    return tuple(found)


def _whole(text: str, name: str, low: int, high: int) -> int:
    if not text.isdecimal() or not low <= int(text) <= high:
        raise ValueError(f"{name}={text}: a whole number from {low} to {high} is needed")
    return int(text)
