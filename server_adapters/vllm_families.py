"""vLLM's metric families, of every version from 0.8.5 to 0.32, as canonical series.

Where names changed, the families of one row are the same quantity under its names, newest first; a page that shows
two of them shows the same numbers twice, so the first one present counts. Semantics: docs/method.md, "Speculation".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from server_adapters.base import CANONICAL, CollectionError, MetricsPage, Series
from server_adapters.exposition import Sample, read_samples

_PREFIX = "vllm:"
_PROCESS_START = "process_start_time_seconds"
#: canonical name -> wire names after the prefix
_NAMES: Mapping[str, tuple[str, ...]] = {
    "drafts": ("spec_decode_num_drafts_total",),
    "draft_tokens": ("spec_decode_num_draft_tokens_total",),
    "accepted_tokens": ("spec_decode_num_accepted_tokens_total",),
    "accepted_at": ("spec_decode_num_accepted_tokens_per_pos_total",),
    "generation_tokens": ("generation_tokens_total",),
    "prompt_tokens": ("prompt_tokens_total",),
    "prompt_tokens_cached": ("prompt_tokens_cached_total",),
    "prefix_cache_queries": ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
    "prefix_cache_hits": ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
    "preemptions": ("num_preemptions_total",),
    "requests_finished": ("request_success_total",),
    "requests_rejected": ("admission_rejections_total",),
    "output_events_sum": ("inter_token_latency_seconds_sum", "time_per_output_token_seconds_sum"),
    "output_events": ("inter_token_latency_seconds_count", "time_per_output_token_seconds_count"),
    "ttft_sum": ("time_to_first_token_seconds_sum",),
    "ttft_count": ("time_to_first_token_seconds_count",),
    "tpot_sum": ("request_time_per_output_token_seconds_sum",),
    "tpot_count": ("request_time_per_output_token_seconds_count",),
    "queue_sum": ("request_queue_time_seconds_sum",),
    "queue_count": ("request_queue_time_seconds_count",),
    "prefill_sum": ("request_prefill_time_seconds_sum",),
    "prefill_count": ("request_prefill_time_seconds_count",),
    "decode_sum": ("request_decode_time_seconds_sum",),
    "decode_count": ("request_decode_time_seconds_count",),
    "engine_steps": ("iteration_tokens_total_count",),
    "running": ("num_requests_running",),
    "waiting": ("num_requests_waiting",),
    "kv_usage": ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
}
_DETAIL_LABEL = {"requests_finished": "finished_reason", "requests_rejected": "reason"}
_CACHE_INFO = "cache_config_info"
#: Families of the V0 engine's speculation worker. Its "accepted" also counts tokens the verifier liked after a
#: rejected one, so its counters are not the canonical ones, whatever their names.
_V0_SPECULATION = (
    "spec_decode_num_emitted_tokens_total", "spec_decode_draft_acceptance_rate", "spec_decode_efficiency"
)  # fmt: skip
_SPECULATION = ("drafts", "draft_tokens", "accepted_tokens", "accepted_at")


@dataclass(frozen=True, slots=True)
class VllmPage:
    """A page and what of it has no canonical series. `cache_labels` are those of `cache_config_info`."""

    page: MetricsPage
    cache_labels: Mapping[str, str]
    v0_speculation: bool

    @property
    def speculation(self) -> bool:
        return self.v0_speculation or any(s.name == "drafts" for s in self.page.series)

    @property
    def k(self) -> int | None:
        """Greatest draft length: the server creates every position at start."""
        return max((s.position + 1 for s in self.page.series if s.position is not None), default=None)


def read_page(text: str) -> VllmPage:
    """Raise CollectionError: no metrics page, or one without a family of vLLM."""
    samples = read_samples(text, _wanted)
    families: dict[str, list[Sample]] = {}
    for sample in samples:
        families.setdefault(sample.name.removeprefix(_PREFIX), []).append(sample)
    v0_speculation = any(name in families for name in _V0_SPECULATION)
    started = _started(samples)
    names = [n for n in _NAMES if not (v0_speculation and n in _SPECULATION)]
    if started is None:
        # Several API servers share the page, and each counts the steps it took part in.
        names.remove("engine_steps")
    series = [s for name in names for s in _series(name, families)]
    models = _distinct(s.model for s in series)
    cache = families.get(_CACHE_INFO, [])
    series += [s for sample in cache if (s := _capacity(sample, models)) is not None]
    if not series:
        raise CollectionError(
            "families_missing",
            "a metrics page without vLLM's families: another service's, a gateway's, or vLLM started with "
            "--disable-log-stats",
        )
    page = MetricsPage(tuple(series), models, _distinct(s.engine for s in series), started)
    return VllmPage(page, cache[0].labels if cache else {}, v0_speculation)


def _wanted(name: str) -> bool:
    return (name.startswith(_PREFIX) and not name.endswith("_bucket")) or name == _PROCESS_START


def _series(name: str, families: Mapping[str, list[Sample]]) -> Iterable[Series]:
    """Series of one canonical name; samples that differ only in labels nobody reads are one series."""
    wire = next((w for w in _NAMES[name] if w in families), None)
    merged: dict[tuple[str | None, int | None, str | None, str | None], float] = {}
    for sample in families[wire] if wire else ():
        labels = sample.labels
        position = _position(labels) if name == "accepted_at" else None
        key = (labels.get("engine"), position, labels.get(_DETAIL_LABEL.get(name, "")), labels.get("model_name"))
        known = merged.get(key, 0.0)
        merged[key] = max(known, sample.value) if name == "kv_usage" else known + sample.value
    for (engine, position, detail, model), value in merged.items():
        yield Series(name, CANONICAL[name], value, engine, position, detail, model)


def _position(labels: Mapping[str, str]) -> int:
    text = labels.get("position", "")
    if not text.isdecimal():
        raise CollectionError("not_metrics", f"a draft position is {text[:20]!r}, not a number")
    return int(text)


def _capacity(info: Sample, models: tuple[str, ...]) -> Series | None:
    """Tokens the KV cache of one engine holds. The family has no model label: a page's only model is meant."""
    labels = info.labels
    tokens = _number(labels.get("kv_cache_size_tokens"))
    if tokens is None:
        blocks, size = _number(labels.get("num_gpu_blocks")), _number(labels.get("block_size"))
        tokens = None if blocks is None or size is None else blocks * size
    if tokens is None:
        return None
    model = labels.get("model_name") or (models[0] if len(models) == 1 else None)
    name = "kv_capacity_tokens"
    return Series(name, CANONICAL[name], float(tokens), labels.get("engine"), None, None, model)


def _number(label: str | None) -> int | None:
    return int(label) if label and label.isdecimal() else None


def _started(samples: list[Sample]) -> float | None:
    """Start of the process, else its first series' creation; None on a page shared by several API servers."""
    starts = [s.value for s in samples if s.name == _PROCESS_START]
    starts = starts or [s.value for s in samples if s.name.endswith("_created")]
    return min(starts, default=None)


def _distinct(values: Iterable[str | None]) -> tuple[str, ...]:
    found = {v for v in values if v is not None}
    return tuple(sorted(found, key=lambda v: (len(v), v)))
