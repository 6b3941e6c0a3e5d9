"""Faults on demand. Each has a name, a share of requests it hits, a time it waits and a time it lasts.

    faults = Faults(seed=0)
    faults.set("truncate", {"share": 0.1, "at_tokens": 8}, now_s)
    plan = faults.for_request(number, now_s)      # which request faults hit request `number`

Whether a request is hit depends on (seed, fault, number) alone. `after` and `for` count seconds from `set`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from zlib import crc32

from server_adapters.rehearsal.config import parse_options
from server_adapters.rehearsal.types import OutputFaults, Switches

Value = float | str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: what it does and its own parameters with their defaults. `per_request`: `share` applies."""

    what: str
    defaults: Mapping[str, Value]
    per_request: bool = True


def _kind(what: str, per_request: bool = True, **defaults: Value) -> Kind:
    return Kind(what, MappingProxyType(defaults), per_request)


#: Every fault there is.
KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "no_correction": _kind("a rejected draft is replaced from p, not from max(0, p - q)", False),
        "draft_drift": _kind("drafts come from a shuffled distribution with probability `bias`, which it reaches in "
                             "`ramp_s`", False, bias=1.0, ramp_s=0.0),
        "stale_draft": _kind("the drafter has not seen the last token", False),
        "cold_start": _kind("steps take `factor` times as long", False, factor=5.0),
        "memory_growth": _kind("the process keeps `mb_per_s` more megabytes each second, `max_mb` at most", False,
                               mb_per_s=10.0, max_mb=200.0),
        "junk_after_stop": _kind("output goes on for `tokens` past EOS, stop ids and stop strings", tokens=16),
        "early_stop": _kind("the output ends at `at_tokens` as if it had stopped", at_tokens=8),
        "cross_talk": _kind("from `at_tokens` on the output is what another live request goes on with", at_tokens=8),
        "loop": _kind("from `at_tokens` on the output repeats its last `period` tokens", at_tokens=16, period=6),
        "garble": _kind("from `at_tokens` on the output is random tokens", at_tokens=8),
        "buffering_proxy": _kind("events are held and sent in one write every `hold_s`", hold_s=0.25),
        "coalesce": _kind("`events` SSE events a write", events=4),
        "stream_interval": _kind("a chunk carries at least `tokens` tokens", tokens=10),
        "in_stream_error": _kind("an error event with `code`, then [DONE], once `at_tokens` were sent",
                                 at_tokens=8, code=500),
        "truncate": _kind("the body ends cleanly once `at_tokens` were sent", at_tokens=8),
        "sever": _kind("the connection is closed inside the body once `at_tokens` were sent", at_tokens=8),
        "stall": _kind("nothing for `seconds` once `at_tokens` were sent; keep-alive comments each `keep_alive_s` "
                       "(0: none)", at_tokens=8, seconds=5.0, keep_alive_s=0.0),
        "no_done": _kind("[DONE] is missing"),
        "no_usage": _kind("usage is never sent"),
        "early_role": _kind("the role chunk is sent when the request is accepted"),
        "late_role": _kind("the role chunk is sent after the first content"),
        "wrong_tokenizer": _kind("prompts are cut into single characters", False),
        "wrong_template": _kind("chats get the other template than --template names", False),
        "storm_429": _kind("HTTP 429", retry_after=0.0),
        "storm_503": _kind("HTTP 503", retry_after=0.0),
        "engine_dead": _kind("the engine is dead: running streams end with an error, new requests get 500, /health is "
                             "503; the process ends after `exit_s` (inf: never)", False, exit_s=math.inf),
        "crash_on": _kind("a prompt of more than `tokens` kills the engine at its first step; a new one takes over "
                          "after `down_s`, the process ends after `exit_s` (inf: never)", False, tokens=2048,
                          down_s=math.inf, exit_s=math.inf),
        "slow_metrics": _kind("/metrics waits `seconds`", False, seconds=3.0),
        "broken_metrics": _kind("/metrics answers with `as`: html, empty, truncated, 500 or hang", False,
                                **{"as": "html"}),
        "duplicate_engines": _kind("every series of engine 0 is there again as engine 1", False),
        "counter_reset": _kind("counters start again, as after a restart; once", False),
        "deaf": _kind("disconnects are not noticed: what is abandoned runs to its end", False),
        "port_flap": _kind("the port is closed for `closed_s`, open connections are cut; once", False, closed_s=2.0),
    }
)  # fmt: skip
#: Faults of the tokens themselves.
OUTPUT_FAULTS = frozenset({"junk_after_stop", "early_stop", "cross_talk", "loop", "garble"})
#: Faults inside the engine: those that virtual time can play as well.
ENGINE_FAULTS = OUTPUT_FAULTS | {"no_correction", "draft_drift", "stale_draft", "cold_start"}
_COMMON: Mapping[str, float] = {"share": 1.0, "after": 0.0, "for": math.inf}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that is set. Active within [since_s + after, since_s + after + for)."""

    name: str
    since_s: float
    share: float
    after_s: float
    for_s: float
    params: Mapping[str, Value]

    def active(self, now_s: float) -> bool:
        """Whether it holds at `now_s`."""
        return 0.0 <= now_s - self.since_s - self.after_s < self.for_s

    def ramped(self, now_s: float) -> float:
        """How far it is grown: from 0 where it begins to 1 after `ramp_s`."""
        ramp_s = self.number("ramp_s")
        return 1.0 if ramp_s <= 0 else min(1.0, (now_s - self.since_s - self.after_s) / ramp_s)

    def number(self, key: str) -> float:
        """A numeric parameter."""
        return float(self.params[key])

    def shown(self) -> dict[str, Any]:
        """For JSON; None is endless."""
        return {key: None if value == math.inf else value for key, value in self._options().items()}

    def _options(self) -> dict[str, Value]:
        return {"share": self.share, "after": self.after_s, "for": self.for_s, **self.params}


class Faults:
    """The faults of one server; one of each kind."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._set: dict[str, Fault] = {}

    def set(self, name: str, options: Mapping[str, Any], now_s: float) -> Fault:
        """Set a fault, replacing one of the same name. ValueError for unknown names or impossible values."""
        kind = KINDS.get(name)
        if kind is None:
            raise ValueError(f"unknown fault {name!r}; known: {', '.join(KINDS)}")
        common = {k: v for k, v in _COMMON.items() if k != "share" or kind.per_request}
        known = {**common, **kind.defaults}
        if unknown := sorted(options.keys() - known.keys()):
            raise ValueError(f"fault {name}: unknown {', '.join(unknown)}; known: {', '.join(known)}")
        values = known | {key: _value(name, key, value, known[key]) for key, value in options.items()}
        if not 0.0 <= float(values.get("share", 1.0)) <= 1.0:
            raise ValueError(f"fault {name}: share must be within 0 and 1")
        params = {key: values[key] for key in kind.defaults}
        fault = Fault(
            name, now_s, float(values.get("share", 1.0)), float(values["after"]), float(values["for"]), params
        )
        self._set[name] = fault
        return fault

    def set_text(self, text: str, now_s: float) -> Fault:
        """Set from "name" or "name:key=value,…"."""
        name, _, rest = text.partition(":")
        return self.set(name, parse_options(rest, f"fault {text!r}"), now_s)

    def clear(self, name: str | None = None) -> None:
        """Forget one fault, or all."""
        if name is None:
            self._set.clear()
        else:
            self._set.pop(name, None)

    def shown(self) -> dict[str, dict[str, Any]]:
        """What is set, for JSON."""
        return {name: fault.shown() for name, fault in self._set.items()}

    def active(self, name: str, now_s: float) -> Fault | None:
        """The fault of that name, where it holds now."""
        fault = self._set.get(name)
        return fault if fault is not None and fault.active(now_s) else None

    def for_request(self, number: int, now_s: float) -> dict[str, Fault]:
        """The faults that hit request `number`, which came at `now_s`."""
        return {
            name: fault
            for name, fault in self._set.items()
            if KINDS[name].per_request and fault.active(now_s) and self._chance(name, number) < fault.share
        }

    def apply(self, switches: Switches, now_s: float) -> None:
        """Set the engine's switches as they should be at `now_s`."""
        drift, cold = self.active("draft_drift", now_s), self.active("cold_start", now_s)
        switches.correction = self.active("no_correction", now_s) is None
        switches.stale_draft = self.active("stale_draft", now_s) is not None
        switches.draft_bias = 0.0 if drift is None else drift.number("bias") * drift.ramped(now_s)
        switches.slowdown = 1.0 if cold is None else cold.number("factor")

    def _chance(self, name: str, number: int) -> float:
        return crc32(f"{self._seed}/{name}/{number}".encode()) / 2**32


def output_faults(hit: Mapping[str, Fault]) -> OutputFaults | None:
    """What the faults that hit a request do to its output; None where they leave it alone."""

    def whole(name: str, key: str) -> int | None:
        return int(hit[name].number(key)) if name in hit else None

    if not hit.keys() & OUTPUT_FAULTS:
        return None
    return OutputFaults(
        junk_after_stop=whole("junk_after_stop", "tokens"),
        early_stop_at=whole("early_stop", "at_tokens"),
        cross_talk_at=whole("cross_talk", "at_tokens"),
        loop_at=whole("loop", "at_tokens"),
        loop_period=max(1, whole("loop", "period") or 1),
        garble_at=whole("garble", "at_tokens"),
    )


def _value(name: str, key: str, value: Any, default: Value) -> Value:
    if isinstance(default, str):
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"fault {name}: {key} must be a number, not {value!r}") from None
    if math.isnan(number) or number < 0:
        raise ValueError(f"fault {name}: {key} must not be negative")
    return number
