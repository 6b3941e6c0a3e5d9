"""The rules' view of each server family: rates of speculation, of errors, and of first tokens, as PromQL.

The counters are those of docs/method.md, "Speculation". Families are matched by their whole name, so `_created` series
never count; sums leave out `engine` and every rank, so data-parallel replicas add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loadgen.export.rules.types import Limits

#: What identifies a server: `arm` and `speculation` are labels of the scrape target, where it has them. `lane`: of runs
#: and canaries' monitors at once of the service; nothing else has it.
BY_SERVER = "job, instance, lane, arm, model_name, speculation"
#: What a run's own client tells apart; sources of one number never add up.
BY_RUN = "job, instance, lane, arm, task_type, source"

#: A series that every server of a family shows at all times, idle ones too.
ALWAYS_THERE = (
    "vllm:num_requests_running",
    "sglang:num_running_reqs",
    "llamacpp:requests_processing",
    "lmdeploy:num_requests_running",
    "trtllm_num_requests_running",
)


@dataclass(frozen=True, slots=True)
class Speculation:
    """Counters of one family. `tokens`: output tokens, or at least one event a step; `position` is the label of the
    draft position in `accepted_at`."""

    drafts: str
    draft_tokens: str
    accepted: str
    accepted_at: str
    position: str
    tokens: str


def _vllm_names(prefix: str, tokens: str) -> Speculation:
    return Speculation(
        drafts=f"{prefix}spec_decode_num_drafts_total",
        draft_tokens=f"{prefix}spec_decode_num_draft_tokens_total",
        accepted=f"{prefix}spec_decode_num_accepted_tokens_total",
        accepted_at=f"{prefix}spec_decode_num_accepted_tokens_per_pos_total",
        position="position",
        tokens=f"{prefix}{tokens}",
    )


_WATCHED = '{source="server_window"}'
_NO_RUN = "unless on (job, instance, lane) specload_run_info"
#: Servers with counters. LMDeploy counts decode steps, each of at least one token.
COUNTED: Mapping[str, Speculation] = {
    "vllm": _vllm_names("vllm:", "generation_tokens_total"),
    "llamacpp": _vllm_names("llamacpp:", "tokens_predicted_total"),
    "lmdeploy": _vllm_names("lmdeploy:", "iter_token_latency_count"),
    "trtllm": Speculation(
        drafts='trtllm_spec_decode_drafted_tokens_total{token_position="0"}',
        draft_tokens="trtllm_spec_decode_num_draft_tokens_total",
        accepted="trtllm_spec_decode_num_accepted_tokens_total",
        accepted_at="trtllm_spec_decode_accepted_tokens_total",
        position="token_position",
        tokens="trtllm_generation_tokens_total",
    ),
    "watch": Speculation(
        drafts=f"specload_verify_rounds_total{_WATCHED}",
        draft_tokens=f"specload_draft_tokens_total{_WATCHED}",
        accepted=f"specload_accepted_tokens_total{_WATCHED}",
        accepted_at=f"specload_accepted_position_total{_WATCHED}",
        position="position",
        tokens="specload_output_tokens_total",
    ),
}


def rates(metric: str, window: str, by: str = BY_SERVER) -> str:
    return f"sum by ({by}) (rate({metric}[{window}]))"


def either(parts: list[str]) -> str:
    return "\nor ".join(parts)


def _all(pick: Callable[[Speculation], str], window: str) -> list[str]:
    return [
        f"({rates(pick(family), window)} {_NO_RUN})" if name == "watch" else rates(pick(family), window)
        for name, family in COUNTED.items()
    ]


def rounds(window: str) -> str:
    return either([*_all(lambda f: f.drafts, window), rates("sglang:spec_verify_calls_total", window)])


def output_tokens(window: str) -> str:
    return either([*_all(lambda f: f.tokens, window), rates("sglang:generation_tokens_total", window)])


def draft_tokens(window: str) -> str:
    """SGLang has gauges: rounds × (tokens of a draft tree − the root)."""
    sglang = (
        f"{rates('sglang:spec_verify_calls_total', window)} "
        f"* (avg by ({BY_SERVER}) (avg_over_time(sglang:spec_num_draft_tokens[{window}])) - 1)"
    )
    return either([*_all(lambda f: f.draft_tokens, window), sglang])


def accepted_tokens(window: str) -> str:
    """SGLang's accept length holds the bonus token; its gauge is of the last decode log, so of recent traffic."""
    sglang = (
        f"{rates('sglang:spec_verify_calls_total', window)} "
        f"* (avg by ({BY_SERVER}) (avg_over_time(sglang:spec_accept_length[{window}])) - 1)"
    )
    return either([*_all(lambda f: f.accepted, window), sglang])


def accepted_last(window: str) -> str:
    """Rounds a second that accepted the last position: acceptance falls with the position, so the least of all."""
    parts = []
    for name, family in COUNTED.items():
        least = f"min by ({BY_SERVER}) ({rates(family.accepted_at, window, f'{BY_SERVER}, {family.position}')})"
        parts.append(f"({least} {_NO_RUN})" if name == "watch" else least)
    return either(parts)


def positions() -> str:
    """k: how many draft positions the server shows."""
    parts = []
    for name, family in COUNTED.items():
        number = f"count by ({BY_SERVER}) (sum by ({BY_SERVER}, {family.position}) ({family.accepted_at}))"
        parts.append(f"({number} {_NO_RUN})" if name == "watch" else number)
    return either(parts)


def ttft_over(window: str, limits: Limits) -> str:
    """Share of streamed first tokens later than the limit. Servers' clocks begin at arrival, ours at sending."""
    edge = "|".join(sorted({f"{limits.ttft_s:g}", str(float(limits.ttft_s))})).replace(".", "\\\\.")
    parts = []
    for metric, labels in (
        ("vllm:time_to_first_token_seconds", ""),
        ("sglang:time_to_first_token_seconds", 'is_streaming!="false"'),
        ("lmdeploy:time_to_first_token_seconds", ""),
        ("trtllm_time_to_first_token_seconds", ""),
        ("specload_ttft_seconds", 'stream="true"'),
    ):
        within = ",".join(filter(None, (labels, f'le=~"{edge}"')))
        every = rates(f"{metric}_count{{{labels}}}" if labels else f"{metric}_count", window)
        parts.append(f"1 - {rates(f'{metric}_bucket{{{within}}}', window)} / ({every} > {limits.requests_per_s:g})")
    return either(parts)


_VLLM_ENDINGS = '__name__=~"vllm:request_success_total|vllm:admission_rejections_total"'
#: Ends that are nobody's fault. Those that clients chose are neither: they would hide the others.
_VLLM_FINE = 'finished_reason!~"stop|length|abort|repetition"'
_VLLM_ASKED = 'finished_reason!="abort"'


def errors(window: str, limits: Limits) -> str:
    """Share of requests that failed by the server's doing, among those that clients did not give up. llama.cpp,
    LMDeploy and SGLang count no failed requests (SGLang's num_aborted_requests are clients that left)."""
    ours = 'outcome!~"client_fault|aborted'
    pairs = (
        (f"{{{_VLLM_ENDINGS},{_VLLM_FINE}}}", f"{{{_VLLM_ENDINGS},{_VLLM_ASKED}}}"),
        (
            'trtllm_request_error_total{http_code=~"5.."}',
            '{__name__=~"trtllm_request_success_total|trtllm_request_error_total"}',
        ),
        (f'specload_requests_total{{{ours}|ok"}}', f'specload_requests_total{{{ours}"}}'),
    )
    floor = f"{limits.requests_per_s:g}"
    return either([f"{rates(bad, window)} / ({rates(every, window)} > {floor})" for bad, every in pairs])


def tpot(window: str, limits: Limits) -> str:
    """Mean seconds per output token of finished requests, by arm: of targets that have an arm label."""
    parts = []
    for metric in (
        "vllm:request_time_per_output_token_seconds",
        "sglang:request_time_per_output_token_seconds",
        "lmdeploy:time_per_output_token_seconds",
        "trtllm_time_per_output_token_seconds",
    ):
        total, count = (
            rates(f'{metric}_{part}{{arm!=""}}', window, "cluster, arm, model_name") for part in ("sum", "count")
        )
        parts.append(f"{total} / ({count} > {limits.requests_per_s:g})")
    return either(parts)
