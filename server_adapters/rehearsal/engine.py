"""INTERFACE (body follows). The engine: admission, one step at a time, counters. No clock, no I/O: the caller brings `now_s`."""

from __future__ import annotations

from server_adapters.rehearsal.types import (
    EngineConfig,
    EngineCounters,
    EngineGauges,
    EngineRequest,
    RequestOutput,
    StepResult,
    Switches,
)


class Engine:
    """A pure step machine. Drive it as: submit(...); while has_work: r = step(now); now += r.duration_s; deliver r.outputs.

    The HTTP face sleeps until started_s + duration_s before it delivers; `simulate` just adds.
    """

    config: EngineConfig
    counters: EngineCounters
    switches: Switches  # mutable at run time
    # tokenizer: Tokenizer (encode(str)->list[int], decode(ids)->str, decode_bytes(ids)->bytes, eos_id, render_chat(messages)->list[int])

    def __init__(self, config: EngineConfig) -> None: ...

    @property
    def has_work(self) -> bool:
        """True while a request runs or waits."""

    def submit(self, request: EngineRequest, now_s: float) -> None:
        """Queue a request. Raises RequestError (never servable), QueueFullError (counted as admission rejection)."""

    def abort(self, request_id: str, now_s: float) -> RequestOutput | None:
        """End a request and free its blocks; the final output (finish_reason "abort"), or None if it is unknown or already finished."""

    def step(self, now_s: float) -> StepResult | None:
        """Run one step that begins at now_s. None when there is nothing to run."""

    def gauges(self) -> EngineGauges: ...
    def reset_counters(self) -> None: ...
    def reset_prefix_cache(self) -> bool:
        """Forget cached blocks; False (nothing done) while requests hold blocks."""
