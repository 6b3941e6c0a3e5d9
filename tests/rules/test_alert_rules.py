"""Each alert on a real promtool: fires, does not fire, low traffic, a counter reset, no data."""

from collections.abc import Callable, Iterator

import pytest

STEP_S = 15
MINUTE = 60 // STEP_S
K = 4
#: (minutes, draft tokens a second, share accepted)
Segment = tuple[float, float, float]
Series = dict[str, str]
Holds = Callable[..., None]
CANARY, RUN = "canary", "run"
LOW, ROLLBACK, SILENT = "SpecloadAcceptanceRateLow", "SpecloadRollbackRateHigh", "SpecloadSpecDecodeSilent"


def counter(*parts: tuple[float, float], resets: bool = False) -> str:
    """(minutes, increase a second) one after the other; `resets`: each part begins at 0."""
    at, text = 0.0, []
    for minutes, per_s in parts:
        steps = round(minutes * MINUTE)
        at = 0.0 if resets else at
        text.append(f"{at:g}+{per_s * STEP_S:g}x{steps - 1}")
        at += per_s * STEP_S * steps
    return " ".join(text)


def gauge(value: float, minutes: float) -> str:
    return f"{value:g}x{round(minutes * MINUTE)}"


NAMES = {
    "vllm": ("vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_draft_tokens_total",
             "vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_per_pos_total",
             "position", "vllm:generation_tokens_total", "engine=\"0\",model_name=\"m\""),
    "llamacpp": ("llamacpp:spec_decode_num_drafts_total", "llamacpp:spec_decode_num_draft_tokens_total",
                 "llamacpp:spec_decode_num_accepted_tokens_total",
                 "llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
                 "position", "llamacpp:tokens_predicted_total", ""),
    "lmdeploy": ("lmdeploy:spec_decode_num_drafts_total", "lmdeploy:spec_decode_num_draft_tokens_total",
                 "lmdeploy:spec_decode_num_accepted_tokens_total",
                 "lmdeploy:spec_decode_num_accepted_tokens_per_pos_total",
                 "position", "lmdeploy:iter_token_latency_count", "engine=\"0\",model_name=\"m\""),
    "trtllm": ("trtllm_spec_decode_drafted_tokens_total", "trtllm_spec_decode_num_draft_tokens_total",
               "trtllm_spec_decode_num_accepted_tokens_total", "trtllm_spec_decode_accepted_tokens_total",
               "token_position", "trtllm_generation_tokens_total", "engine_type=\"undefined\",model_name=\"m\""),
    "watch": ("specload_verify_rounds_total", "specload_draft_tokens_total", "specload_accepted_tokens_total",
              "specload_accepted_position_total", "position", "specload_output_tokens_total",
              "arm=\"server\",source=\"server_window\""),
}  # fmt: skip


def server(family: str, *segments: Segment, resets: bool = False, more: str = "", k: int = K) -> Series:
    """Rounds of k drafts, accepted as a whole or not at all: acceptance a is a rollback rate of 1 − a."""
    rounds, drafts, accepted, at, position, tokens, labels = NAMES[family]
    base = ",".join(filter(None, ('job="inference",instance="s:1"', labels, more)))

    def made(of: Callable[[float, float], float]) -> str:
        return counter(*((minutes, of(d, a)) for minutes, d, a in segments), resets=resets)

    first = f',{position}="0"' if family == "trtllm" else ""
    found = {
        f"{rounds}{{{base}{first}}}": made(lambda d, a: d / k),
        f"{drafts}{{{base}}}": made(lambda d, a: d),
        f"{accepted}{{{base}}}": made(lambda d, a: d * a),
        f"{tokens}{{{base}}}": made(lambda d, a: d / k + d * a),
    }
    found |= {f'{at}{{{base},{position}="{i}"}}': made(lambda d, a: d * a / k) for i in range(k)}
    return found


def sglang(minutes: float, drafts_per_s: float, acceptance: float) -> Series:
    """Gauges, and a counter of rounds; a draft tree of 5 tokens is 4 drafts and the root."""
    base = 'job="inference",instance="s:1",model_name="m"'
    return {
        f"sglang:spec_verify_calls_total{{{base}}}": counter((minutes, drafts_per_s / K)),
        f'sglang:spec_num_draft_tokens{{{base},tp_rank="0"}}': gauge(K + 1, minutes),
        f'sglang:spec_accept_length{{{base},tp_rank="0"}}': gauge(1 + K * acceptance, minutes),
        f'sglang:generation_tokens_total{{{base},is_streaming="true"}}': counter((minutes, drafts_per_s)),
    }


def test_healthy_servers_fire_nothing(holds: Holds) -> None:
    """G14: also none at the first minutes, at which rates have few samples."""
    for at in ("1m", "30m"):
        holds(server("vllm", (31, 400, 0.7)), at, {})


@pytest.mark.parametrize("family", list(NAMES))
def test_low_acceptance_fires_on_every_family(holds: Holds, family: str) -> None:
    """G6: the same rule, whatever the server calls its counters. Recovery resolves it."""
    series = server(family, (20, 400, 0.3), (40, 400, 0.7))
    holds(series, "4m", {})
    holds(series, "15m", {(LOW, CANARY): 1})
    holds(series, "40m", {})


def test_low_acceptance_of_sglang(holds: Holds) -> None:
    holds(sglang(20, 400, 0.3), "15m", {(LOW, CANARY): 1})
    holds(sglang(20, 400, 0.7), "15m", {})
    holds(sglang(20, 4, 0.3), "15m", {})


def test_engines_of_one_server_add_up(holds: Holds) -> None:
    """D1, D2: engines are summed, and `_created` is no counter."""
    one = server("vllm", (20, 400, 0.3))
    both = one | {name.replace('engine="0"', 'engine="1"'): values for name, values in one.items()}
    name = next(iter(both)).replace("_total", "_created")
    holds(both | {name: gauge(1.7e9, 20)}, "15m", {(LOW, CANARY): 1})


def test_low_traffic_and_idle_servers_fire_nothing(holds: Holds) -> None:
    """G14, G15: below the floor a ratio is noise; without traffic it is no number."""
    holds(server("vllm", (30, 4, 0.05)), "20m", {})
    holds(server("vllm", (30, 0, 0.0)), "20m", {})
    holds({}, "20m", {})


def test_a_counter_reset_is_no_loss_of_acceptance(holds: Holds) -> None:
    """D4: 20 minutes, then a restart from 0."""
    series = server("vllm", (20, 400, 0.7), (20, 400, 0.7), resets=True)
    for at in ("20m15s", "22m", "30m"):
        holds(series, at, {})
    low = server("vllm", (20, 400, 0.3), (20, 400, 0.3), resets=True)
    holds(low, "22m", {(LOW, CANARY): 1})


def test_acceptance_that_has_always_been_so_is_no_alert(holds: Holds) -> None:
    """G26: below the floor, but what this traffic has had for hours; a fall from there fires."""
    usual = server("vllm", (180, 400, 0.35), (40, 400, 0.25))
    holds(usual, "170m", {}, 300)
    holds(usual, "210m", {(LOW, CANARY): 1}, 300)


def test_rollback_fires_on_what_is_certain(holds: Holds) -> None:
    series = server("vllm", (20, 400, 0.1), (20, 400, 0.7))
    holds(series, "15m", {(LOW, CANARY): 1, (ROLLBACK, CANARY): 1})
    holds(series, "35m", {})
    holds(server("vllm", (20, 4, 0.1)), "15m", {})
    holds(server("vllm", (20, 400, 0.1), (20, 400, 0.1), resets=True), "22m", {(LOW, CANARY): 1, (ROLLBACK, CANARY): 1})


def test_short_drafts_are_no_rollbacks(holds: Holds) -> None:
    """Rounds of two drafts where four are possible, all accepted: the naive 1 − a_k / rounds would say 100 %."""
    base = 'job="inference",instance="s:1",engine="0",model_name="m"'
    at = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    series = {
        f"vllm:spec_decode_num_drafts_total{{{base}}}": counter((20, 100)),
        f"vllm:spec_decode_num_draft_tokens_total{{{base}}}": counter((20, 200)),
        f"vllm:spec_decode_num_accepted_tokens_total{{{base}}}": counter((20, 200)),
        **{f'{at}{{{base},position="{i}"}}': counter((20, 100 if i < 2 else 0)) for i in range(4)},
    }
    holds(series, "15m", {})


def test_silent_speculation_fires_when_counters_stand_still_or_are_gone(holds: Holds) -> None:
    """The kill switch leaves the counters; a restart without speculation takes them away (D5: absent is not 0)."""
    tokens = 'vllm:generation_tokens_total{job="inference",instance="s:1",engine="0",model_name="m"}'
    flat = server("vllm", (20, 400, 0.7), (30, 0, 0.0)) | {tokens: counter((50, 300))}
    holds(flat, "19m", {})
    holds(flat, "35m", {(SILENT, CANARY): 1})
    gone = {name: f"{values} stale" for name, values in server("vllm", (20, 400, 0.7)).items()}
    holds(gone | {tokens: counter((50, 300))}, "35m", {(SILENT, CANARY): 1})
    back = server("vllm", (20, 400, 0.7), (20, 0, 0.0), (20, 400, 0.7)) | {tokens: counter((60, 300))}
    holds(back, "55m", {})


def test_silence_needs_traffic_and_an_expectation(holds: Holds) -> None:
    """An idle server, and a baseline that never speculated, are not silent; one that should have from the start is."""
    holds(server("vllm", (20, 400, 0.7), (30, 0, 0.0)), "40m", {})
    tokens = 'vllm:generation_tokens_total{job="inference",instance="s:1",engine="0",model_name="m"%s}'
    holds({tokens % "": counter((30, 300))}, "25m", {})
    holds({tokens % ',speculation="expected"': counter((30, 300))}, "25m", {(SILENT, CANARY): 1})
    holds({tokens % ',speculation="expected"': counter((30, 3))}, "25m", {})
    reset = server("vllm", (20, 400, 0.7), (20, 400, 0.7), resets=True)
    holds(reset, "22m", {})


def fall(minutes: int, start: float, end: float, per_s: float) -> Series:
    return server("vllm", *((1, per_s, start + (end - start) * i / minutes) for i in range(minutes)))


def test_drift_fires_on_a_steady_fall(holds: Holds) -> None:
    drift = {("SpecloadAcceptanceDrift", CANARY): 1}
    series = fall(240, 0.9, 0.6, 400)
    holds(series, "105m", {}, 300)
    holds(series, "200m", drift, 300)
    holds(fall(240, 0.9, 0.85, 400), "200m", {}, 300)
    holds(fall(240, 0.9, 0.6, 4), "200m", {}, 300)
    holds(server("vllm", (100, 400, 0.8), (100, 400, 0.8), resets=True), "180m", {}, 300)


TTFT = "vllm:time_to_first_token_seconds"


def first_tokens(per_s: float, late: float, minutes: float = 120, *, resets: bool = False) -> Series:
    base = 'job="inference",instance="s:1",engine="0",model_name="m"'
    parts = ((minutes / 2, per_s), (minutes / 2, per_s))
    within = ((minutes / 2, per_s * (1 - late)), (minutes / 2, per_s * (1 - late)))
    return {
        f"{TTFT}_count{{{base}}}": counter(*parts, resets=resets),
        f'{TTFT}_bucket{{{base},le="1.0"}}': counter(*within, resets=resets),
        f'{TTFT}_bucket{{{base},le="+Inf"}}': counter(*parts, resets=resets),
    }


def test_ttft_budget(holds: Holds) -> None:
    """Objective 99 % within 1 s: 20 % late burns 20 times too fast; 0.5 % does not burn."""
    burn = "SpecloadTTFTBudgetBurn"
    holds(first_tokens(5, 0.2), "90m", {(burn, CANARY): 2}, 300)
    holds(first_tokens(5, 0.2, resets=True), "65m", {(burn, CANARY): 2}, 300)
    holds(first_tokens(5, 0.005), "90m", {}, 300)
    holds(first_tokens(5, 0.005, resets=True), "65m", {}, 300)
    holds(first_tokens(0.05, 0.5), "90m", {}, 300)
    holds(first_tokens(50, 0.02), "90m", {(burn, CANARY): 1}, 300)


def test_latencies_beyond_every_bucket_fire(holds: Holds) -> None:
    """G9: no quantile tells how late they are, but a share within the limit needs none; of our own send lag, the last
    edge is beyond the limit."""
    holds(first_tokens(5, 1.0), "90m", {("SpecloadTTFTBudgetBurn", CANARY): 2}, 300)
    base = f'{BASE},arm="candidate"'
    name = "specload_send_lag_seconds"
    lag = {
        f'{name}_bucket{{{base},le="{edge}"}}': counter((20, n)) for edge, n in (("0.01", 0), ("600.0", 0), ("+Inf", 5))
    }
    holds(lag | {f"{name}_count{{{base}}}": counter((20, 5))}, "10m", {("SpecloadLoadNotDelivered", RUN): 1}, 15)


def endings(bad: float, good: float, *, left: float | None = None, resets: bool = False) -> Series:
    """`left`: requests a second that clients gave up."""
    given_up = good if left is None else left
    base = 'job="inference",instance="s:1",engine="0",model_name="m"'
    name = "vllm:request_success_total"
    return {
        f'{name}{{{base},finished_reason="stop"}}': counter((60, good), (60, good), resets=resets),
        f'{name}{{{base},finished_reason="error"}}': counter((60, bad), (60, bad), resets=resets),
        f'{name}{{{base},finished_reason="abort"}}': counter((60, given_up), (60, given_up), resets=resets),
    }


def test_error_budget(holds: Holds) -> None:
    """Requests that clients gave up are no errors, and hide none; a full queue is one. SGLang counts aborts alone:
    clients that left."""
    burn = "SpecloadErrorBudgetBurn"
    holds(endings(1, 1), "90m", {(burn, CANARY): 2}, 300)
    holds(endings(2, 2, resets=True), "65m", {(burn, CANARY): 2}, 300)
    holds(endings(0, 5), "90m", {}, 300)
    holds(endings(0.02, 0.02), "90m", {}, 300)
    holds(endings(0.6, 2, left=10), "90m", {(burn, CANARY): 2}, 300)
    sglang = 'job="inference",instance="s:1",model_name="m"'
    left = {f"sglang:num_aborted_requests_total{{{sglang}}}": counter((120, 1))}
    holds(left | {f"sglang:num_requests_total{{{sglang}}}": counter((120, 4))}, "90m", {}, 300)
    labels = 'job="inference",instance="s:1",model_name="m",reason="max_num_queued_reqs"'
    rejected = f"vllm:admission_rejections_total{{{labels}}}"
    holds(endings(0, 1) | {rejected: counter((120, 1))}, "90m", {(burn, CANARY): 2}, 300)


FAILING = "SpecloadServerScrapeFailing"


def test_scrapes_that_fail(holds: Holds) -> None:
    """G23, G6: down; up, but none of the known families; our own scraper, too."""
    up = 'up{job="inference",instance="s:1"}'
    running = 'vllm:num_requests_running{job="inference",instance="s:1",engine="0",model_name="m"}'
    holds({up: gauge(0, 20)}, "10m", {(FAILING, CANARY): 1})
    holds({up: gauge(1, 20)}, "10m", {(FAILING, CANARY): 1})
    holds({up: gauge(1, 20), running: gauge(0, 20)}, "10m", {})
    holds({up: "1x20 0x3 1x60", running: gauge(0, 20)}, "6m", {})
    holds({'up{job="node",instance="n:1"}': gauge(0, 20)}, "10m", {})
    holds({'up{job="specload-watch",instance="w:1"}': gauge(0, 20)}, "10m", {(FAILING, CANARY): 1})
    holds({'up{job="specload",instance="r:1"}': gauge(0, 20)}, "10m", {})  # between two runs (G19)
    ours = 'job="specload-watch",instance="w:1",arm="server"'
    looks = {f"specload_server_scrapes_total{{{ours}}}": counter((20, 1))}
    errors = f"specload_server_scrape_errors_total{{{ours}}}"
    holds(looks | {errors: counter((20, 0.9))}, "10m", {(FAILING, CANARY): 1})
    holds(looks | {errors: counter((20, 0.1))}, "10m", {})
    again = {name: f"{values} {values}" for name, values in (looks | {errors: counter((20, 0.1))}).items()}
    holds(again, "21m", {})


BASE = 'job="specload",instance="r:1"'
INFO = {f'specload_run_info{{{BASE},run_id="r1",arm="candidate"}}': gauge(1, 60)}
CELL = f'{BASE},arm="candidate",task_type="code",source="per_request"'


def client(*segments: Segment, resets: bool = False) -> Series:
    """What a run's own client counts; the chunks' decode steps stand beside it, and tell no drafts."""

    def made(of: Callable[[float, float], float]) -> str:
        return counter(*((minutes, of(d, a)) for minutes, d, a in segments), resets=resets)

    chunks = CELL.replace("per_request", "client_chunk")
    tokens = f'specload_output_tokens_total{{{BASE},arm="candidate",task_type="code",stage="c8"}}'
    return INFO | {
        f"specload_verify_rounds_total{{{CELL}}}": made(lambda d, a: d / K),
        f"specload_draft_tokens_total{{{CELL}}}": made(lambda d, a: d),
        f"specload_accepted_tokens_total{{{CELL}}}": made(lambda d, a: d * a),
        f"specload_rollback_rounds_total{{{CELL}}}": made(lambda d, a: d / K * (1 - a)),
        f"specload_verify_rounds_total{{{chunks}}}": counter((60, 50)),
        f"specload_draft_tokens_total{{{chunks}}}": counter((60, 0)),
        tokens: counter((60, 300)),
    }


def test_a_runs_own_numbers(holds: Holds) -> None:
    """G26: by task type. What a run counts is not taken for a server's, so no canary alert fires."""
    holds(client((30, 400, 0.7)), "20m", {}, 15)
    holds(client((10, 400, 0.1), (20, 400, 0.7)), "8m", {(LOW, RUN): 1, (ROLLBACK, RUN): 1}, 15)
    holds(client((10, 400, 0.1), (20, 400, 0.7)), "20m", {}, 15)
    holds(client((10, 400, 0.7), (20, 0, 0.0)), "20m", {(SILENT, RUN): 1}, 15)
    holds(client((30, 4, 0.1)), "20m", {}, 15)
    hardly = {name: counter((60, 3)) for name in client((20, 4, 0.7)) if "output_tokens" in name}
    holds(client((10, 400, 0.7), (20, 0, 0.0)) | hardly, "20m", {}, 15)
    holds(client((10, 400, 0.7), (20, 400, 0.7), resets=True), "10m30s", {}, 15)


def in_flight(asked: float, running: float, waiting: float | None, minutes: float = 20) -> Series:
    base = f'{BASE},arm="candidate"'
    waits = {} if waiting is None else {f"specload_server_waiting_requests{{{base}}}": gauge(waiting, minutes)}
    return {
        f"specload_inflight_requests{{{base}}}": gauge(asked, minutes),
        f"specload_server_running_requests{{{base}}}": gauge(running, minutes),
        **waits,
    }


def test_requests_held_back_before_the_servers(holds: Holds) -> None:
    """E3: a router lets 100 of 256 through. Those that wait at the server are no hop's; nothing is concluded of servers
    that do not tell, of an idle client, or of the few on their way."""
    held = {("SpecloadRequestsHeldBack", RUN): 1}
    holds(in_flight(256, 100, 0), "10m", held, 15)
    holds(in_flight(256, 100, 0, 5), "12m", {}, 15)
    holds(in_flight(256, 100, 156), "10m", {}, 15)
    holds(in_flight(256, 240, 0), "10m", {}, 15)
    holds(in_flight(5, 2, 0), "10m", {}, 15)
    holds(in_flight(0, 100, 0), "10m", {}, 15)
    holds(in_flight(256, 100, None), "10m", {}, 15)
    restarted = {name: values for name, values in in_flight(100, 100, 0).items() if "running" not in name}
    running = f'specload_server_running_requests{{{BASE},arm="candidate"}}'
    holds(restarted | {running: "100x40 0x1 100x39"}, "10m30s", {}, 15)


def delivery(lag: float, dropped: float, per_s: float = 10, reason: str = "max_in_flight") -> Series:
    """`lag`: share of requests sent more than 0.2 s after they were due."""
    base = f'{BASE},arm="candidate"'
    name = "specload_send_lag_seconds"
    return {
        f"{name}_count{{{base}}}": counter((30, per_s)),
        f'{name}_bucket{{{base},le="0.01"}}': counter((30, per_s * (1 - lag))),
        f'{name}_bucket{{{base},le="0.2"}}': counter((30, per_s * (1 - lag))),
        f'{name}_bucket{{{base},le="0.5"}}': counter((30, per_s)),
        f'{name}_bucket{{{base},le="+Inf"}}': counter((30, per_s)),
        f"specload_scheduled_requests_total{{{base}}}": counter((30, per_s)),
        f'specload_dropped_requests_total{{{base},reason="{reason}"}}': counter((30, per_s * dropped)),
    }


def test_load_not_delivered(holds: Holds) -> None:
    late = {("SpecloadLoadNotDelivered", RUN): 1}
    holds(delivery(0.05, 0), "10m", late, 15)
    holds(delivery(0, 0.05), "10m", late, 15)
    holds(delivery(0, 0), "10m", {}, 15)
    holds(delivery(0, 0.05, reason="stopped"), "10m", {}, 15)
    holds(delivery(0.5, 0.5, per_s=0.02), "10m", {}, 15)
    reset = {name: f"{values.split('x')[0]}x40 {values.split('x')[0]}x40" for name, values in delivery(0, 0).items()}
    holds(reset, "10m30s", {}, 15)


def per_token(baseline_s: float, candidate_s: float, per_s: float) -> Series:
    series = {}
    for arm, mean in (("baseline", baseline_s), ("candidate", candidate_s)):
        base = f'{BASE},arm="{arm}",task_type="code",stage="c8"'
        series[f"specload_tpot_seconds_sum{{{base}}}"] = counter((15, per_s * mean), (15, per_s * mean), resets=True)
        series[f"specload_tpot_seconds_count{{{base}}}"] = counter((15, per_s), (15, per_s), resets=True)
    return series


def test_speedup_lost(holds: Holds) -> None:
    """Also over a counter reset, at 15 minutes."""
    lost = "SpecloadSpeedupLost"
    for at in ("12m", "15m30s", "25m"):
        holds(per_token(0.02, 0.03, 2), at, {(lost, RUN): 1}, 30)
        holds(per_token(0.03, 0.02, 2), at, {}, 30)
    holds(per_token(0.02, 0.03, 0.02), "12m", {}, 30)
    for candidate_s, per_s, firing in ((0.03, 2, 1), (0.01, 2, 0), (0.03, 0.02, 0)):
        holds(servers_per_token(0.02, candidate_s, per_s), "15m30s", {(lost, CANARY): 1} if firing else {}, 30)


def servers_per_token(baseline_s: float, candidate_s: float, per_s: float) -> Series:
    """vLLM's histogram of both arms, with a reset at 15 minutes."""
    return {
        f'vllm:request_time_per_output_token_seconds_{part}{{job="inference",instance="{arm}:1",arm="{arm}",'
        f'model_name="m",engine="0"}}': counter((15, rate), (15, rate), resets=True)
        for arm, mean in (("baseline", baseline_s), ("candidate", candidate_s))
        for part, rate in (("sum", per_s * mean), ("count", per_s))
    }


def phases(**at: float) -> Iterator[tuple[str, str]]:
    for phase, values in at.items():
        yield f'specload_run_phase_timestamp_seconds{{{BASE},run_id="r1",phase="{phase}"}}', gauge(values, 30)


def test_run_in_progress(holds: Holds) -> None:
    """G19: over with the end's timestamp, or when the run's series are gone."""
    running = {("SpecloadRunInProgress", RUN): 1}
    holds(dict(phases(warmup=1.7e9, measure=1.7e9)), "10m", running)
    holds(dict(phases(warmup=1.7e9, end=0)), "10m", running)
    holds(dict(phases(warmup=0, end=0)), "10m", {})
    holds(dict(phases(warmup=1.7e9, measure=1.7e9, end=1.7e9)), "10m", {})
    holds({name: "1.7e9x8 stale" for name, _ in phases(measure=1)}, "10m", {})


FAILING_CANARY, BLIND, HOOK = "SpecloadCanaryFailing", "SpecloadCanaryBlind", "SpecloadCanaryHookFailing"
WATCHED = 'job="specload-watch",instance="c:1",canary="c"'


def canary(state: str, minutes: float = 60, *, active: str | None = None, window_s: float = 60) -> Series:
    """Windows that end as they should, of a canary that has been watched since 0."""
    rises = f"0+{STEP_S}x{round(minutes * MINUTE)}"
    found = {
        f'specload_canary_state{{{WATCHED},state="{one}"}}': gauge(one == state, minutes)
        for one in ("ok", "doubtful", "fail", "no_data")
    }
    return found | {
        f"specload_canary_active{{{WATCHED}}}": active or gauge(1, minutes),
        f"specload_canary_start_timestamp_seconds{{{WATCHED}}}": gauge(0, minutes),
        f"specload_canary_window_seconds{{{WATCHED}}}": gauge(window_s, minutes),
        f"specload_canary_window_end_timestamp_seconds{{{WATCHED}}}": rises,
    }


def test_a_failing_canary(holds: Holds) -> None:
    """The state is the monitor's; once it has ended nobody is called any more (G19, G20)."""
    firing = {(FAILING_CANARY, CANARY): 1}
    holds(canary("fail"), "2m", firing)
    for state in ("ok", "doubtful"):
        holds(canary(state), "30m", {})
    holds(canary("fail", active="1x40 0x200"), "9m", firing)
    holds(canary("fail", active="1x40 0x200"), "12m", {})
    holds({name: f"{values} stale" for name, values in canary("fail", 10).items()}, "20m", {})
    states = {f'specload_canary_state{{{WATCHED},state="{s}"}}': v for s, v in (("fail", "0x40 1x40 0x100"),)}
    holds(canary("ok") | states, "15m", firing)
    holds(canary("ok") | states, "25m", {})


def in_lane(series: Series, lane: int) -> Series:
    """As the service shows what one of its monitors tells."""
    return {name.replace("}", f',lane="{lane}"}}'): values for name, values in series.items()}


def test_an_ended_monitor_of_the_service_says_nothing_of_the_next_one(holds: Holds) -> None:
    """G19, G20: a canary failed, was stopped and is watched anew in another lane; the old one's series stay a while."""
    ended = in_lane(canary("fail", active=gauge(0, 60)), 4)
    holds(ended | in_lane(canary("ok"), 5), "20m", {})
    hangs = {f"specload_canary_window_end_timestamp_seconds{{{WATCHED}}}": gauge(60, 60)}
    holds(ended | in_lane(hangs, 4) | in_lane(canary("ok"), 5), "20m", {})
    holds(ended | in_lane(canary("fail"), 5), "20m", {(FAILING_CANARY, CANARY): 1})
    blind = in_lane(canary("no_data"), 5) | in_lane(canary("ok", active=gauge(0, 60)), 4)
    holds(blind, "15m", {(BLIND, CANARY): 1})


def test_monitors_of_the_service_are_not_added_up(holds: Holds) -> None:
    """One's acceptance is low; the other's would hide it. A run of the service in a lane of its own hides neither."""
    low, high = (in_lane(server("watch", (30, 400, a)), lane) for a, lane in ((0.2, 4), (0.9, 5)))
    firing = {(LOW, CANARY): 1}
    run = {'specload_run_info{job="inference",instance="s:1",lane="0",run_id="r"}': gauge(1, 30)}
    holds(low | high, "15m", firing)
    holds(low | high | run, "15m", firing)
    same = {name.replace('lane="0"', 'lane="4"'): values for name, values in run.items()}
    holds(low | high | same, "15m", {(LOW, RUN): 1})  # the lane's own run: its alert is the run's


def test_a_canary_of_which_nothing_is_known(holds: Holds) -> None:
    """G14, G15: an idle canary is told; one that has just begun is not yet. A monitor that hangs is told, too."""
    blind = {(BLIND, CANARY): 1}
    holds(canary("no_data"), "3m", {})
    holds(canary("no_data"), "15m", blind)
    holds(canary("no_data", active="1x20 0x200"), "15m", {})
    hangs = {f"specload_canary_window_end_timestamp_seconds{{{WATCHED}}}": gauge(60, 60)}
    holds(canary("ok") | hangs, "20m", blind)
    holds(canary("ok", window_s=3600) | hangs, "20m", {})
    holds({}, "20m", {})


def test_a_hook_that_fails(holds: Holds) -> None:
    """Series begin at 0, so that the first failure is an increase (G18); a restarted monitor begins at 0 again."""
    calls = f'specload_canary_hook_calls_total{{{WATCHED},hook="switch",result="%s"}}'
    holds(canary("ok") | {calls % "failed": "0x20 1x100"}, "7m", {(HOOK, CANARY): 1})
    holds(canary("ok") | {calls % "failed": "0x20 1x100"}, "20m", {})
    for result in ("delivered", "dry_run"):
        holds(canary("ok") | {calls % result: "0x20 1x100"}, "7m", {})
    holds(canary("ok") | {calls % "failed": "1x20 0x100"}, "7m", {})
