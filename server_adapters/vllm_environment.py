"""What a vLLM server tells of itself: the facts two arms are compared by (docs/method.md, "Same environment").

Only the fields named here are read, so that tokens, keys and paths of weights-loading code stay on the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

#: section of /server_info's `vllm_config` -> fields that make two servers alike or not
_CONFIG: Mapping[str, tuple[str, ...]] = {
    "model_config": (
        "model", "revision", "code_revision", "dtype", "quantization", "max_model_len", "tokenizer", "tokenizer_mode",
        "tokenizer_revision", "seed", "enforce_eager", "generation_config", "override_generation_config",
        "disable_cascade_attn", "disable_sliding_window", "model_impl",
    ),
    "cache_config": ("cache_dtype", "block_size", "gpu_memory_utilization", "enable_prefix_caching", "num_gpu_blocks"),
    "parallel_config": (
        "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel",
        "prefill_context_parallel_size", "decode_context_parallel_size", "disable_custom_all_reduce",
        "distributed_executor_backend",
    ),
    "scheduler_config": (
        "max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "async_scheduling", "policy",
        "stream_interval", "max_num_queued_reqs", "max_num_queued_tokens", "long_prefill_token_threshold",
    ),
    "speculative_config": (
        "method", "model", "revision", "quantization", "num_speculative_tokens", "draft_tensor_parallel_size",
        "draft_sample_method", "rejection_sample_method", "synthetic_acceptance_rates", "synthetic_acceptance_length",
        "prompt_lookup_min", "prompt_lookup_max", "num_speculative_tokens_per_batch_size", "max_model_len",
        "enable_adaptive_verification", "use_heterogeneous_vocab", "parallel_drafting", "attention_backend",
        "kv_cache_dtype", "disable_by_batch_size",
    ),
    "attention_config": ("backend", "flash_attn_version", "use_trtllm_attention"),
    "compilation_config": ("mode", "level", "cudagraph_mode", "backend"),
    "device_config": ("device", "device_type"),
    "observability_config": ("per_request_spec_decode_metrics",),
}  # fmt: skip
_DRAFT_MODEL = ("dtype", "model", "revision", "quantization", "max_model_len", "tokenizer")
_ENVIRONMENT = (
    "VLLM_ATTENTION_BACKEND", "VLLM_BATCH_INVARIANT", "VLLM_USE_V1", "VLLM_USE_V2_MODEL_RUNNER",
    "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_CPU_KVCACHE_SPACE",
)  # fmt: skip
_SYSTEM = (
    "vllm_version", "torch_version", "cuda_runtime_version", "hip_runtime_version", "nvidia_driver_version",
    "nvidia_gpu_models", "cudnn_version", "os", "python_version",
)  # fmt: skip
#: Methods whose drafted counts are what the drafter really proposed.
_HONEST_METHODS = frozenset(
    {"ngram", "suffix", "medusa", "mlp_speculator", "draft_model", "eagle", "eagle3", "mtp", "dflash", "dspark"}
)


def select(info: Mapping[str, Any]) -> dict[str, Any]:
    """Flat facts of /server_info?config_format=json, such as "system.os"; absent ones are left out."""
    config = _section(info, "vllm_config")
    facts: dict[str, Any] = {}
    for section, fields in _CONFIG.items():
        facts |= dict(_picked(section, _section(config, section), fields))
    draft = _section(_section(config, "speculative_config"), "draft_model_config")
    facts |= dict(_picked("speculative_config.draft_model_config", draft, _DRAFT_MODEL))
    facts |= dict(_picked("vllm_env", _section(info, "vllm_env"), _ENVIRONMENT))
    system = _section(info, "system_env")
    facts |= dict(_picked("system", system, _SYSTEM))
    if (cpu := _cpu_model(system.get("cpu_info"))) is not None:
        facts["system.cpu_model"] = cpu
    return facts


def spec_method(info: Mapping[str, Any] | None) -> str | None:
    """Speculation method from /server_info; None where it is off or cannot be read."""
    method = _speculative(info).get("method")
    return method if isinstance(method, str) else None


def spec_k(info: Mapping[str, Any] | None) -> int | None:
    k = _speculative(info).get("num_speculative_tokens")
    return k if type(k) is int and k > 0 else None


def counts_artefact(info: Mapping[str, Any] | None, declared: str | None = None) -> bool | None:
    """Whether drafted = k x rounds by construction: the scheduler counts placeholders, not what was proposed.

    `declared`: the method the user names, where the server does not tell one.
    """
    method = spec_method(info) or declared
    if method is None:
        return None
    if method == "ngram_gpu" or _speculative(info).get("enable_adaptive_verification") is True:
        return True
    return False if method in _HONEST_METHODS or method.endswith("_mtp") else None


def _speculative(info: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return _section(_section(info or {}, "vllm_config"), "speculative_config")


def _section(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = parent.get(name)
    return section if isinstance(section, dict) else {}


def _picked(prefix: str, section: Mapping[str, Any], fields: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for field in fields:
        if section.get(field) not in (None, "N/A"):
            yield f"{prefix}.{field}", section[field]


def _cpu_model(info: Any) -> str | None:
    found = re.search(r"(?m)^Model name:\s*(.+)$", info) if isinstance(info, str) else None
    return found[1].strip() if found else None
