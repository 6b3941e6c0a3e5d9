"""Which differences between arms are meant, noted, or make a verdict inconclusive (docs/environment.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Rule = Literal["may_differ", "follows", "noted", "inconclusive"]


@dataclass(frozen=True, slots=True)
class KeyRule:
    """`follows`: noted where the arms' speculation differs, since servers set it along with it; else inconclusive.

    `apart`, `share`: numbers nearer than this are equal (absolute, or of the larger). `settled_by`: a name that
    differs is only noted where one of these keys, which tell the thing itself, is known of every arm. `expected`: said
    to be not shown where no arm has it.
    """

    key: str
    rule: Rule
    why: str
    apart: float = 0.0
    share: float = 0.0
    settled_by: tuple[str, ...] = ()
    expected: bool = False


def _rules(rule: Rule, why: str, *keys: str, expected: Iterable[str] = ()) -> list[KeyRule]:
    return [KeyRule(key, rule, why, expected=key in expected) for key in keys]


_SPEED = "another amount of work, or other hardware for it"
_WEIGHTS = "another model answers"
_TEXT = "the model reads other tokens"
_SAMPLES = "what a request leaves out is sampled differently"
_SPECULATION = "speculation is what is compared"
_SCHEDULING = "batches are formed differently"
_KERNELS = "a step costs something else, or rounds differently"

RULES: tuple[KeyRule, ...] = (
    *_rules("inconclusive", "other code", "engine.name", "engine.version", "engine.build", "engine.torch", "engine.v1",
            "engine.v2_runner", expected=("engine.name", "engine.version")),
    *_rules("noted", "seldom matters", "engine.python", "engine.multiprocessing"),
    *_rules("may_differ", "it covers the speculation settings", "engine.config_hash"),
    KeyRule("model.served_name", "inconclusive", _WEIGHTS, settled_by=("model.weights",)),
    *_rules("inconclusive", _WEIGHTS, "model.weights", "model.revision", "model.code_revision", "model.dtype",
            "model.quantization", "model.max_len", "model.implementation", "model.disable_sliding_window",
            expected=("model.weights", "model.revision", "model.dtype", "model.quantization")),
    *_rules("noted", "requests carry their own seed", "model.seed"),
    KeyRule("tokenizer.name", "inconclusive", _TEXT, settled_by=("tokenizer.sha256", "tokenizer.ids")),
    *_rules("inconclusive", _TEXT, "tokenizer.mode", "tokenizer.revision", "tokenizer.sha256", "tokenizer.ids",
            "template.sha256", "template.ids",
            expected=("tokenizer.sha256", "tokenizer.ids", "template.sha256", "template.ids")),
    *_rules("inconclusive", _SAMPLES, "sampling.defaults", "sampling.generation_config", "sampling.override",
            "sampling.effective", "sampling.logits_processors", "sampling.structured_backend",
            expected=("sampling.defaults", "sampling.effective")),
    *_rules("inconclusive", "part of the requests would fail", "sampling.refused", expected=("sampling.refused",)),
    *_rules("inconclusive", _SPEED, "kv_cache.dtype", "kv_cache.block_size", "kv_cache.memory_share",
            "kv_cache.prefix_caching", "kv_cache.connector", "kv_cache.cpu_space_gib",
            expected=("kv_cache.dtype", "kv_cache.prefix_caching")),
    *_rules("may_differ", "a drafter takes memory from the KV cache; reported as its capacity", "kv_cache.num_blocks",
            "kv_cache.size_tokens", "cache_config.kv_cache_max_concurrency", "cache_config.kv_cache_memory_bytes"),
    *_rules("inconclusive", _KERNELS, "kernels.attention_backend", "kernels.attention_backend_env",
            "kernels.flash_attn", "kernels.trtllm_attention", "kernels.moe_backend", "kernels.linear_backend",
            "kernels.enforce_eager", "kernels.compilation_mode", "kernels.compilation_level",
            "kernels.compilation_backend", "kernels.disable_cascade_attention", "kernels.disable_custom_all_reduce",
            "kernels.flashinfer_sampler", "kernels.batch_invariant", expected=("kernels.attention_backend",)),
    *_rules("follows", "a server sets it along with speculation, and its cost is part of c", "kernels.cudagraph_mode",
            "scheduling.async"),
    *_rules("inconclusive", _SPEED, "parallel.tensor", "parallel.pipeline", "parallel.data", "parallel.expert",
            "parallel.prefill_context", "parallel.decode_context", "parallel.executor", "device", "gpu.name",
            "gpu.count", "gpu.driver", "gpu.cuda", "gpu.hip", "gpu.cudnn", "host.cpu_model", "host.cpu_count",
            expected=("parallel.tensor", "gpu.name", "gpu.count", "gpu.driver", "host.cpu_model", "host.cpu_count")),
    KeyRule("host.memory_bytes", "inconclusive", _SPEED, share=0.05, expected=True),
    *_rules("noted", "seldom matters", "host.os"),
    *_rules("inconclusive", _SCHEDULING, "scheduling.max_num_seqs", "scheduling.max_num_batched_tokens",
            "scheduling.chunked_prefill", "scheduling.policy", "scheduling.stream_interval",
            "scheduling.max_num_queued_reqs", "scheduling.max_num_queued_tokens",
            "scheduling.long_prefill_token_threshold",
            expected=("scheduling.max_num_seqs", "scheduling.max_num_batched_tokens", "scheduling.chunked_prefill")),
    *_rules("may_differ", _SPECULATION, "speculation.on", "speculation.method", "speculation.k",
            "speculation.k_by_batch", "speculation.draft_model", "speculation.draft_revision",
            "speculation.draft_dtype", "speculation.draft_quantization", "speculation.draft_kv_dtype",
            "speculation.draft_tensor", "speculation.draft_max_len", "speculation.draft_attention_backend",
            "speculation.draft_tokenizer", "speculation.draft_tokenizer_sha256", "speculation.draft_sample_method",
            "speculation.rejection_sample_method", "speculation.acceptance_method",
            "speculation.acceptance_threshold", "speculation.acceptance_alpha", "speculation.synthetic_rates",
            "speculation.synthetic_length", "speculation.prompt_lookup_min", "speculation.prompt_lookup_max",
            "speculation.disable_by_batch_size", "speculation.adaptive_verification",
            "speculation.heterogeneous_vocab", "speculation.parallel_drafting", "speculation.per_request_metrics",
            expected=("speculation.method", "speculation.k", "speculation.draft_model", "speculation.draft_dtype",
                      "speculation.draft_sample_method", "speculation.rejection_sample_method",
                      "speculation.acceptance_threshold", "speculation.draft_tokenizer_sha256")),
    KeyRule("network.round_trip_s", "inconclusive", "the way is part of every time", apart=0.005, expected=True),
    *_rules("inconclusive", "another way to the server", "network.gateway", "network.buffering",
            expected=("network.gateway", "network.buffering")),
    *_rules("noted", "cannot be measured from a client", "network.hops", expected=("network.hops",)),
    *_rules("inconclusive", "the server was not ours alone", "load.running", "load.waiting", "load.foreign",
            expected=("load.running", "load.waiting")),
    *_rules("noted", "a snapshot; the client's own load is in it", "load.host_per_cpu"),
    *_rules("inconclusive", "the arms were not asked the same", "requests.prompt_tokens", "requests.cache_hit_share"),
)  # fmt: skip

#: Prompt tokens from the prefix cache may differ by so much between arms within a repeat: cold, and warm runs.
CACHE_APART: Mapping[str, float] = {"cold": 0.01, "warm": 0.05}
#: The server's tokens that are not ours, of all it made in the windows.
FOREIGN_SHARE = 0.01
#: Where prompts got a unique first line in place of a cache salt, medians may differ by so many tokens.
FIRST_LINE_TOKENS = 2.0
#: Words of `declared_differences` that also cover these.
RELATED: Mapping[str, tuple[str, ...]] = {
    "requests.prompt_tokens": ("tokenizer", "template"),
    "requests.cache_hit_share": ("prefix_caching", "kv_cache.prefix_caching", "kv_cache"),
}

_BY_KEY = {rule.key: rule for rule in RULES}
ENVIRONMENT_KEYS = frozenset(_BY_KEY)
EXPECTED_KEYS = tuple(rule.key for rule in RULES if rule.expected)
UNKNOWN = "the rule table does not know it"


def rule_for(key: str) -> KeyRule:
    """A key without a rule of its own is noted, never dropped."""
    return _BY_KEY.get(key) or KeyRule(key, "noted", UNKNOWN)


def covers(declared: str, key: str) -> bool:
    """Whether an entry of `declared_differences` means `key`: its name, the last part of it, or the group it is in."""
    names = (key, key.rpartition(".")[2], *RELATED.get(key, ()))
    return declared in names or key.startswith(f"{declared}.")
