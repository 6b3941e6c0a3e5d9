"""What a vLLM server tells of itself: the facts two arms are compared by (docs/environment.md).

Only the fields named here are read, so that tokens, keys and paths of weights-loading code stay on the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from server_adapters.base import Fact

#: section of /server_info's `vllm_config` -> its field -> the key of docs/environment.md
_CONFIG: Mapping[str, Mapping[str, str]] = {
    "model_config": {
        "model": "model.weights", "revision": "model.revision", "code_revision": "model.code_revision",
        "dtype": "model.dtype", "quantization": "model.quantization", "max_model_len": "model.max_len",
        "model_impl": "model.implementation", "seed": "model.seed",
        "disable_sliding_window": "model.disable_sliding_window", "tokenizer": "tokenizer.name",
        "tokenizer_mode": "tokenizer.mode", "tokenizer_revision": "tokenizer.revision",
        "generation_config": "sampling.generation_config", "override_generation_config": "sampling.override",
        "logits_processors": "sampling.logits_processors", "enforce_eager": "kernels.enforce_eager",
        "disable_cascade_attn": "kernels.disable_cascade_attention",
    },
    "cache_config": {
        "cache_dtype": "kv_cache.dtype", "block_size": "kv_cache.block_size",
        "gpu_memory_utilization": "kv_cache.memory_share", "enable_prefix_caching": "kv_cache.prefix_caching",
        "num_gpu_blocks": "kv_cache.num_blocks", "kv_cache_size_tokens": "kv_cache.size_tokens",
    },
    "parallel_config": {
        "tensor_parallel_size": "parallel.tensor", "pipeline_parallel_size": "parallel.pipeline",
        "data_parallel_size": "parallel.data", "enable_expert_parallel": "parallel.expert",
        "prefill_context_parallel_size": "parallel.prefill_context",
        "decode_context_parallel_size": "parallel.decode_context",
        "distributed_executor_backend": "parallel.executor",
        "disable_custom_all_reduce": "kernels.disable_custom_all_reduce",
    },
    "scheduler_config": {
        "max_num_seqs": "scheduling.max_num_seqs", "max_num_batched_tokens": "scheduling.max_num_batched_tokens",
        "enable_chunked_prefill": "scheduling.chunked_prefill", "async_scheduling": "scheduling.async",
        "policy": "scheduling.policy", "stream_interval": "scheduling.stream_interval",
        "max_num_queued_reqs": "scheduling.max_num_queued_reqs",
        "max_num_queued_tokens": "scheduling.max_num_queued_tokens",
        "long_prefill_token_threshold": "scheduling.long_prefill_token_threshold",
    },
    "speculative_config": {
        "method": "speculation.method", "model": "speculation.draft_model", "revision": "speculation.draft_revision",
        "quantization": "speculation.draft_quantization", "num_speculative_tokens": "speculation.k",
        "num_speculative_tokens_per_batch_size": "speculation.k_by_batch",
        "draft_tensor_parallel_size": "speculation.draft_tensor",
        "draft_sample_method": "speculation.draft_sample_method",
        "rejection_sample_method": "speculation.rejection_sample_method",
        "acceptance_method": "speculation.acceptance_method",
        "posterior_threshold": "speculation.acceptance_threshold", "posterior_alpha": "speculation.acceptance_alpha",
        "synthetic_acceptance_rates": "speculation.synthetic_rates",
        "synthetic_acceptance_length": "speculation.synthetic_length",
        "prompt_lookup_min": "speculation.prompt_lookup_min", "prompt_lookup_max": "speculation.prompt_lookup_max",
        "max_model_len": "speculation.draft_max_len", "attention_backend": "speculation.draft_attention_backend",
        "kv_cache_dtype": "speculation.draft_kv_dtype", "disable_by_batch_size": "speculation.disable_by_batch_size",
        "enable_adaptive_verification": "speculation.adaptive_verification",
        "use_heterogeneous_vocab": "speculation.heterogeneous_vocab",
        "parallel_drafting": "speculation.parallel_drafting",
    },
    "attention_config": {
        "backend": "kernels.attention_backend", "flash_attn_version": "kernels.flash_attn",
        "use_trtllm_attention": "kernels.trtllm_attention",
    },
    "kernel_config": {"moe_backend": "kernels.moe_backend", "linear_backend": "kernels.linear_backend"},
    "compilation_config": {
        "mode": "kernels.compilation_mode", "level": "kernels.compilation_level",
        "cudagraph_mode": "kernels.cudagraph_mode", "backend": "kernels.compilation_backend",
    },
    "structured_outputs_config": {"backend": "sampling.structured_backend"},
    "kv_transfer_config": {"kv_connector": "kv_cache.connector"},
    "device_config": {"device": "device"},
    "observability_config": {"per_request_spec_decode_metrics": "speculation.per_request_metrics"},
}  # fmt: skip
_DRAFT_MODEL = {"dtype": "speculation.draft_dtype", "tokenizer": "speculation.draft_tokenizer"}
_ENVIRONMENT = {
    "VLLM_ATTENTION_BACKEND": "kernels.attention_backend_env", "VLLM_BATCH_INVARIANT": "kernels.batch_invariant",
    "VLLM_USE_FLASHINFER_SAMPLER": "kernels.flashinfer_sampler", "VLLM_USE_V1": "engine.v1",
    "VLLM_USE_V2_MODEL_RUNNER": "engine.v2_runner", "VLLM_ENABLE_V1_MULTIPROCESSING": "engine.multiprocessing",
    "VLLM_CPU_KVCACHE_SPACE": "kv_cache.cpu_space_gib",
}  # fmt: skip
_SYSTEM = {
    "vllm_version": "engine.build", "torch_version": "engine.torch", "python_version": "engine.python",
    "os": "host.os", "cuda_runtime_version": "gpu.cuda", "hip_runtime_version": "gpu.hip",
    "cudnn_version": "gpu.cudnn", "nvidia_driver_version": "gpu.driver",
}  # fmt: skip
#: Their draft model's settings are the target's.
_WITHOUT_DRAFTER = frozenset({"ngram", "ngram_gpu", "suffix"})
#: A field that is there and null: the server's own choice, or off.
NOT_SET = "not set"
#: A field that a complete listing does not have.
NO_OPTION = "no such option"
_INFO = "/server_info"
#: Methods whose drafted counts are what the drafter really proposed.
_HONEST_METHODS = frozenset(
    {"ngram", "suffix", "medusa", "mlp_speculator", "draft_model", "eagle", "eagle3", "mtp", "dflash", "dspark"}
)


def select(info: Mapping[str, Any]) -> dict[str, Fact]:
    """Facts of /server_info?config_format=json; a field that is null is `NOT_SET`, one that is absent is left out."""
    config = _section(info, "vllm_config")
    facts: dict[str, Fact] = {}
    for section, fields in _CONFIG.items():
        facts |= dict(_picked(_section(config, section), fields, f"{_INFO} {section}"))
    speculative = _section(config, "speculative_config")
    facts |= _threshold(speculative)
    if speculative.get("method") not in _WITHOUT_DRAFTER:
        draft = _section(speculative, "draft_model_config")
        facts |= dict(_picked(draft, _DRAFT_MODEL, f"{_INFO} speculative_config.draft_model_config"))
    facts |= dict(_picked(_section(info, "vllm_env"), _ENVIRONMENT, f"{_INFO} vllm_env", null=False))
    system = _section(info, "system_env")
    facts |= dict(_picked(system, _SYSTEM, f"{_INFO} system_env", null=False))
    return facts | _hardware(system)


def _threshold(speculative: Mapping[str, Any]) -> dict[str, Fact]:
    """The server lists every option that it has: where the listing has how drafts are rejected and no threshold, there
    is none to set."""
    if "rejection_sample_method" not in speculative or "posterior_threshold" in speculative:
        return {}
    return {"speculation.acceptance_threshold": Fact(NO_OPTION, f"{_INFO} speculative_config")}


def from_labels(labels: Mapping[str, str]) -> dict[str, Fact]:
    """Facts of the labels of `cache_config_info`: all of them, those without a key of their own by their name."""
    named = _CONFIG["cache_config"]
    found: dict[str, Fact] = {}
    for label, text in sorted(labels.items()):
        if label != "engine":
            found[named.get(label, f"cache_config.{label}")] = Fact(_plain(text), "/metrics cache_config_info")
    return found


def from_fingerprint(fingerprint: str | None) -> dict[str, Fact]:
    """`vllm-VERSION[-tpN…]-HASH` of the responses; the hash covers the whole configuration, speculation included."""
    found = re.fullmatch(r"vllm-(.+?)((?:-[a-z]+\d+)*)-([0-9a-f]{8})", fingerprint or "")
    if found is None:
        return {}
    source = "system_fingerprint"
    tensor = re.search(r"-tp(\d+)", found[2])
    return {
        "engine.config_hash": Fact(found[3], source),
        "parallel.tensor": Fact(int(tensor[1]) if tensor else 1, source),
    }


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


def _picked(
    section: Mapping[str, Any], fields: Mapping[str, str], source: str, *, null: bool = True
) -> Iterator[tuple[str, Fact]]:
    for field, key in fields.items():
        value = section.get(field)
        if field in section and value != "N/A" and (null or value is not None):
            yield key, Fact(NOT_SET if value is None else _short(value), f"{source}.{field}")


def _short(value: Any) -> Any:
    return value.removeprefix("torch.") if isinstance(value, str) else value


def _plain(text: str) -> Any:
    """A label's text as the value /server_info would have."""
    words: Mapping[str, Any] = {"True": True, "False": False, "None": NOT_SET}
    if text in words:
        return words[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _hardware(system: Mapping[str, Any]) -> dict[str, Fact]:
    """What `nvidia-smi -L` and `lscpu` told the server: GPUs it can see, and its CPU."""
    facts: dict[str, Fact] = {}
    gpus = system.get("nvidia_gpu_models")
    if isinstance(gpus, str) and gpus.strip():
        names = [re.sub(r"^GPU \d+:\s*", "", line).strip() for line in gpus.strip().splitlines()]
        source = f"{_INFO} system_env.nvidia_gpu_models"
        facts["gpu.name"] = Fact(", ".join(sorted(set(names))), source)
        facts["gpu.count"] = Fact(len(names), source)
    cpu = system.get("cpu_info")
    for key, label in (("host.cpu_model", "Model name"), ("host.cpu_count", r"CPU\(s\)")):
        found = re.search(rf"(?m)^{label}:\s*(.+)$", cpu) if isinstance(cpu, str) else None
        if found is not None:
            facts[key] = Fact(_plain(found[1].strip()), f"{_INFO} system_env.cpu_info")
    return facts
