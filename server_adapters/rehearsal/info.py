"""What the server tells of itself: model card, fingerprint, /server_info, labels of cache_config_info."""

from __future__ import annotations

import platform
from typing import Any
from zlib import crc32

from server_adapters.rehearsal.config import RehearsalConfig
from server_adapters.rehearsal.engine import Engine

SERIES = "0.32.0"
#: A local version: read as 0.32 by whoever reads versions, and still not a vLLM.
VERSION = f"{SERIES}+rehearsal"
GPU_NAMES = {"a100": "NVIDIA A100-SXM4-80GB", "h100": "NVIDIA H100 80GB HBM3", "h200": "NVIDIA H200", "l4": "NVIDIA L4"}
_MEMORY_SHARE = 0.9


def model_list(config: RehearsalConfig, created: int) -> dict[str, Any]:
    """/v1/models."""
    name = config.model_name
    permission = {
        "id": f"modelperm-{crc32(name.encode()):016x}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    card = {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "rehearsal",
        "root": _path(config.model),
        "parent": None,
        "max_model_len": config.max_model_len,
        "permission": [permission],
    }
    return {"object": "list", "data": [card]}


def fingerprint(config: RehearsalConfig, engine: Engine) -> str:
    """vllm-VERSION[-tpN]-HASH; the hash covers everything that makes two servers different."""
    told = server_info(config, engine)["vllm_config"]
    parallel = engine.roofline.tensor_parallel
    middle = f"-tp{parallel}" if parallel > 1 else ""
    return f"vllm-{SERIES}{middle}-{crc32(repr(told).encode()):08x}"


def cache_config(engine: Engine) -> dict[str, Any]:
    """The cache section of /server_info, and the labels of cache_config_info."""
    config = engine.config
    tokens = engine.num_blocks * config.block_size
    return {
        "block_size": config.block_size,
        "user_specified_block_size": False,
        "gpu_memory_utilization": _MEMORY_SHARE,
        "cache_dtype": "auto",
        "is_attention_free": False,
        "num_gpu_blocks_override": config.num_blocks,
        "sliding_window": None,
        "enable_prefix_caching": config.enable_prefix_caching,
        "prefix_caching_hash_algo": "builtin",
        "num_gpu_blocks": engine.num_blocks,
        "num_cpu_blocks": None,
        "kv_cache_size_tokens": tokens,
        "kv_cache_max_concurrency": tokens / config.max_model_len,
        "kv_cache_memory_bytes": int(engine.roofline.kv_memory),
    }


def server_info(config: RehearsalConfig, engine: Engine) -> dict[str, Any]:
    """/server_info?config_format=json, as in vLLM's development mode."""
    made = engine.config
    vllm_config = {
        "model_config": {
            "model": _path(config.model),
            "tokenizer": "rehearsal",
            "tokenizer_mode": "auto",
            "dtype": f"torch.{config.dtype}",
            "seed": config.seed,
            "revision": None,
            "max_model_len": made.max_model_len,
            "quantization": None,
            "enforce_eager": False,
            "served_model_name": config.model_name,
            "generation_config": "auto" if config.generation_config else "vllm",
            "override_generation_config": config.sampling_defaults(),
            "model_impl": "rehearsal",
        },
        "cache_config": cache_config(engine),
        "parallel_config": {
            "pipeline_parallel_size": 1,
            "tensor_parallel_size": engine.roofline.tensor_parallel,
            "data_parallel_size": 1,
            "enable_expert_parallel": False,
            "world_size": engine.roofline.tensor_parallel,
        },
        "scheduler_config": {
            "max_num_batched_tokens": made.max_num_batched_tokens,
            "max_num_seqs": made.max_num_seqs,
            "max_num_queued_reqs": made.max_num_queued_reqs,
            "max_num_queued_tokens": made.max_num_queued_tokens,
            "enable_chunked_prefill": True,
            "policy": config.scheduling_policy,
            "async_scheduling": False,
            "stream_interval": config.stream_interval,
        },
        "device_config": {"device": "cuda"},
        "speculative_config": _speculative(config, engine),
        "observability_config": {"per_request_spec_decode_metrics": _spec_metrics(config)},
        "rehearsal_config": {
            "hardware": made.hardware,
            "speed": made.speed,
            "jitter": made.jitter,
            "numerics": made.numerics,
        },
    }
    system = {
        "vllm_version": VERSION,
        "os": platform.system(),
        "python_version": platform.python_version(),
        "nvidia_gpu_models": "\n".join(
            f"GPU {i}: {GPU_NAMES[made.hardware]} (simulated)" for i in range(engine.roofline.tensor_parallel)
        ),
    }
    return {"vllm_config": vllm_config, "vllm_env": {"VLLM_USE_V1": True}, "system_env": system}


def _speculative(config: RehearsalConfig, engine: Engine) -> dict[str, Any] | None:
    speculation = engine.config.speculation
    if speculation is None:
        return None
    drafts = speculation.method == "draft_model"
    told: dict[str, Any] = {
        "method": speculation.method,
        "model": _path(config.draft_model) if drafts else None,
        "num_speculative_tokens": speculation.num_speculative_tokens,
        "num_speculative_tokens_per_batch_size": [list(entry) for entry in speculation.schedule] or None,
        "max_model_len": speculation.draft_max_model_len,
        "rejection_sample_method": "standard",
        "draft_sample_method": "probabilistic",
        "quantization": None,
        "prompt_lookup_min": 0 if drafts else speculation.prompt_lookup_min,
        "prompt_lookup_max": 0 if drafts else speculation.prompt_lookup_max,
    }
    if drafts:
        told["draft_tensor_parallel_size"] = engine.roofline.tensor_parallel
        told["draft_model_config"] = {"model": _path(config.draft_model), "dtype": f"torch.{config.dtype}"}
    return told


def _spec_metrics(config: RehearsalConfig) -> str:
    return "none" if config.spec == "off" else config.per_request_spec_metrics


def _path(model: str) -> str:
    return f"rehearsal/{model}"
