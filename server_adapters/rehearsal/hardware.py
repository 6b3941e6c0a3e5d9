"""Roofline time of one engine step on a named GPU with a named model.

A forward pass takes max(bytes / bandwidth, operations / peak) plus a fixed overhead. Bytes are the weights,
once, and the KV entries read and written; operations are 2 per weight and token, and 4 per layer, hidden
unit and attended position. Bandwidth and peak are data-sheet numbers (dense bf16) times the share that
serving kernels reach. Tensor parallelism divides bytes and operations and adds two all-reduces per layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

_BYTES_PER_VALUE = 2  # bf16 weights and KV
_USABLE_MEMORY = 0.9  # of the GPU, for weights and KV
_BANDWIDTH_SHARE = 0.80
_COMPUTE_SHARE = 0.60
_LAYER_OVERHEAD_S = 2.0e-6  # kernel launches of one layer inside a CUDA graph
_ALL_REDUCE_S = 6.0e-6
STEP_OVERHEAD_S = 4.0e-4  # scheduling, sampling, output handling of one engine step


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: memory bandwidth in bytes/s, dense bf16 peak in operations/s, memory in bytes, the largest
    node."""

    name: str
    bandwidth: float
    peak_flops: float
    memory: float
    max_gpus: int = 8


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the roofline needs of a dense transformer with grouped-query attention."""

    name: str
    parameters: float
    layers: int
    hidden: int
    kv_heads: int
    head_dim: int

    @property
    def weight_bytes(self) -> float:
        """Bytes of the weights."""
        return self.parameters * _BYTES_PER_VALUE

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of keys and values of one position."""
        return 2 * self.layers * self.kv_heads * self.head_dim * _BYTES_PER_VALUE


GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu("a100", 2.039e12, 312e12, 80e9),
        Gpu("h100", 3.35e12, 989e12, 80e9),
        Gpu("h200", 4.8e12, 989e12, 141e9),
        Gpu("l4", 0.3e12, 121e12, 24e9),
    )
}
MODELS = {
    model.name: model
    for model in (
        ModelShape("0.5b", 0.49e9, 24, 896, 2, 64),
        ModelShape("1b", 1.24e9, 16, 2048, 8, 64),
        ModelShape("8b", 8.03e9, 32, 4096, 8, 128),
        ModelShape("27b", 27.2e9, 46, 4608, 16, 128),
        ModelShape("70b", 70.6e9, 80, 8192, 8, 128),
    )
}


class Roofline:
    """Times on `tensor_parallel` GPUs of one kind. None: the fewest (a power of two) that hold the weights
    in 60 %."""

    def __init__(self, hardware: str, target: str, draft: str | None, tensor_parallel: int | None = None) -> None:
        self.gpu = _named(GPUS, hardware, "hardware")
        self.target = _named(MODELS, target, "model")
        self.draft = None if draft is None else _named(MODELS, draft, "draft model")
        weights = self.target.weight_bytes + (self.draft.weight_bytes if self.draft else 0.0)
        self.tensor_parallel = tensor_parallel or self._fitting(weights)
        self.kv_memory = self.tensor_parallel * self.gpu.memory * _USABLE_MEMORY - weights
        if self.kv_memory <= 0:
            raise ValueError(f"{target} does not fit {self.tensor_parallel} x {hardware}; use more GPUs")

    def kv_capacity_tokens(self) -> int:
        """Positions the memory left beside the weights can hold; the draft's cache is in it."""
        per_token = self.target.kv_bytes_per_token + (self.draft.kv_bytes_per_token if self.draft else 0)
        return int(self.kv_memory / per_token)

    def forward_s(self, model: ModelShape, tokens: int, attended: int, kv_tokens: int) -> float:
        """Seconds of one forward pass of `tokens` tokens.

        `attended`: positions attended, summed over the tokens; `kv_tokens`: positions read from memory.
        """
        moved = model.weight_bytes + model.kv_bytes_per_token * (kv_tokens + tokens)
        operations = 2.0 * model.parameters * tokens + 4.0 * model.layers * model.hidden * attended
        gpus = self.tensor_parallel
        memory_s = moved / (self.gpu.bandwidth * _BANDWIDTH_SHARE * gpus)
        compute_s = operations / (self.gpu.peak_flops * _COMPUTE_SHARE * gpus)
        overhead_s = model.layers * (_LAYER_OVERHEAD_S + (2 * _ALL_REDUCE_S if gpus > 1 else 0.0))
        return max(memory_s, compute_s) + overhead_s

    def _fitting(self, weight_bytes: float) -> int:
        gpus = 1
        while gpus * self.gpu.memory * 0.6 < weight_bytes and gpus < self.gpu.max_gpus:
            gpus *= 2
        return gpus


def log_normal_factor(sigma: float, normal: float) -> float:
    """Jitter factor with mean 1 from a standard normal number."""
    return math.exp(sigma * normal - 0.5 * sigma * sigma)


def _named(table: dict[str, T], name: str, what: str) -> T:
    if name not in table:
        raise ValueError(f"unknown {what} {name!r}; known: {', '.join(table)}")
    return table[name]
