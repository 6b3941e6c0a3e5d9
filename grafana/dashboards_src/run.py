"""Run: what one run asks of the servers, what they answer, and what speculation does meanwhile."""

from __future__ import annotations

from grafana.dashboards_src.frame import Page, Row, arm_choices, marks, run_choice, source_choice
from grafana.dashboards_src.panels import GREEN, GREY, ORANGE, RED, Ask, Panel, density, lines, number, rows
from grafana.dashboards_src.queries import (
    ARM,
    ONE_RUN,
    RATE,
    SOURCE,
    failed_share,
    final,
    last,
    newest,
    of_run,
    quantile,
    ratio,
    series,
    summed,
)

VERDICTS = {"0": ("fail", RED), "1": ("pass", GREEN), "-1": ("inconclusive", ORANGE)}
VALIDITY = {"0": ("invalid", RED), "1": ("valid", GREEN), "-1": ("doubtful", ORANGE)}
COUNTERS = {"0": ("none", GREY), "1": ("there", GREEN)}
_OK_ONLY = "Of requests that ended ok; failures are not in it, see the errors beside it."
_BUCKETS = "From buckets, so some percent off; the report's percentiles are exact."
_STREAMS = 'stream="true"'


def page() -> Page:
    return Page(
        uid="specload-run",
        title="specload / Run",
        description="One run, live: is the asked load delivered, what do clients see, does speculation work? "
        "Final numbers are the report's; here they are views.",
        since="now-30m",
        refresh="5s",
        variables=[run_choice(), arm_choices(ONE_RUN), source_choice()],
        annotations=[
            # each segment drains: with those marks nothing else would be seen
            marks("Phase", "run_phase_timestamp_seconds", "{{phase}}", "blue", ONE_RUN, 'phase!="drain"'),
            marks("Stage", "run_stage_timestamp_seconds", "{{stage}}", "purple", ONE_RUN),
        ],
        rows=[
            Row("Outcome", _verdict()),
            Row("Load: asked and delivered", _load()),
            Row("What clients see", _clients()),
            Row("Latency of clients", _latency()),
            Row("Speculation", _speculation()),
            Row("Servers and load generator", _machines()),
        ],
    )


def _verdict() -> list[Panel]:
    return [
        number(
            "Verdict",
            "Of all thresholds together. Only a finished run has one; it goes with the run's other gauges two "
            "minutes after the end, and is found here while the time range holds it.",
            "none",
            Ask(final("run_id", "run_verdict"), "verdict"),
            words=VERDICTS,
            height=6,
            none="not yet",
        ),
        number(
            "Measurement",
            "Whether the numbers can be trusted at all: load delivered, client not the bottleneck, no server "
            "restarted. An invalid run cannot pass.",
            "none",
            Ask(final("run_id", "run_validity"), "validity"),
            words=VALIDITY,
            height=6,
            none="not yet",
        ),
        number(
            "Draft counters",
            "Whether the newest look at the servers' metrics found draft counters. None is not 0 drafts: it is a "
            "server (or a gateway before it) that does not tell.",
            "none",
            Ask(last("arm", "server_spec_counters"), "{{arm}}"),
            words=COUNTERS,
            height=6,
            none="not told",
        ),
        rows(
            "Arms",
            "What the run compares; an empty cell is not known.",
            "none",
            Ask(final("arm, scenario, engine, engine_version, k, method", "run_info"), "there"),
            order=("arm", "scenario", "engine", "engine_version", "method", "k"),
            hidden=("Value",),
            widths={"scenario": 160, "engine": 70, "engine_version": 150, "k": 50},
            width=12,
            height=6,
        ),
        rows(
            "Thresholds",
            "Each threshold's value and its limit, as judged at the end.",
            "short",
            Ask(final("arm, threshold", "threshold_value"), "value"),
            Ask(final("arm, threshold", "threshold_limit"), "limit"),
            order=("threshold", "arm"),
            widths={"arm": 120, "value": 120, "limit": 120},
            height=6,
        ),
    ]


def _load() -> list[Panel]:
    in_flight = [
        Ask(newest("arm", "target_concurrency"), "{{arm}} asked"),
        Ask(newest("arm", "inflight_requests"), "{{arm}} in flight"),
    ]
    due = [
        Ask(summed("arm", "scheduled_requests_total"), "{{arm}} due"),
        Ask(summed("arm", "sent_requests_total"), "{{arm}} sent"),
        Ask(newest("arm", "target_rate_per_second"), "{{arm}} asked rate"),
    ]
    lost = [
        Ask(
            ratio(summed("arm", f"{kind}_requests_total"), summed("arm", "scheduled_requests_total")),
            f"{{{{arm}}}} {kind}",
        )
        for kind in ("dropped", "late")
    ]
    lag = [Ask(quantile(q, "arm", "send_lag_seconds"), f"{{{{arm}}}} P{q * 100:g}") for q in (0.5, 0.99)]
    return [
        lines(
            "Requests in flight",
            "Closed loop: the plateau asked for and what was in flight, warm-up too. Interleaved arms take turns, so "
            "each rests while another is measured.",
            "short",
            *in_flight,
            width=6,
        ),
        lines(
            "Requests due and sent",
            "Measured requests. Sent below due is load that was not delivered. The asked rate is an open loop's; 0: "
            "there is none now.",
            "reqps",
            *due,
            width=6,
        ),
        lines(
            "Dropped and late share",
            "Of the scheduled requests: never sent, and sent more than 10 ms after due. Above 1 % dropped the run "
            "measured another load than asked.",
            "percentunit",
            *lost,
            width=6,
            high=1,
            limits=((None, GREEN), (0.01, RED)),
        ),
        lines(
            "Send lag",
            "Due to sent: what coordinated omission would hide. Above 0.1 s the client is the bottleneck, and "
            "latencies say nothing of the server. " + _BUCKETS,
            "s",
            *lag,
            width=6,
            limits=((None, GREEN), (0.1, RED)),
        ),
    ]


def _clients() -> list[Panel]:
    ended = summed("arm", "requests_total")
    return [
        lines(
            "Requests by outcome",
            "Measured requests that ended, a second. A 200 is not a success: broken, empty and stalled streams have "
            "outcomes of their own.",
            "reqps",
            Ask(f"{summed('arm, outcome', 'requests_total')} > 0", "{{arm}} {{outcome}}"),
            width=6,
        ),
        lines(
            "Errors",
            "Share of ended requests that were not ok, without those that our own drain or stop cut.",
            "percentunit",
            Ask(failed_share(), "{{arm}}"),
            width=6,
            limits=((None, GREEN), (0.01, RED)),
        ),
        lines(
            "Within the SLOs",
            "Share of all ended requests, failures among them, that were ok and met every limit of the scenario. "
            "Only where it sets limits.",
            "percentunit",
            Ask(ratio(summed("arm", "good_requests_total"), ended), "{{arm}}"),
            width=6,
            high=1,
        ),
        lines(
            "Output tokens",
            "Tokens of measured requests when they end, failed ones among them, by the server's own usage count: a "
            "chunk is not a token.",
            "suffix: tok/s",
            Ask(summed("arm", "output_tokens_total"), "{{arm}}"),
            width=6,
        ),
    ]


def _percentiles(by: str, legend: str, histogram: str, *matchers: str) -> list[Ask]:
    return [Ask(quantile(q, by, histogram, *matchers), f"{legend} P{q * 100:g}") for q in (0.5, 0.95, 0.99)]


def _latency() -> list[Panel]:
    buckets = series("chunk_gap_seconds_bucket", ARM)
    gaps = f"sum by (le) ({of_run(f'increase({buckets}[{RATE}])')})"
    whole = Ask(quantile(0.95, "arm", "total_time_seconds", 'stream="false"'), "{{arm}} not streamed P95")
    return [
        lines(
            "Time to first token",
            f"Sent to first token, streams only. {_OK_ONLY} {_BUCKETS}",
            "s",
            *_percentiles("arm", "{{arm}}", "ttft_seconds", _STREAMS),
            width=6,
            height=10,
            exemplars=True,
        ),
        lines(
            "Time per output token",
            f"After the first chunk, by tokens and not by chunks. {_OK_ONLY} {_BUCKETS}",
            "s",
            *_percentiles("arm", "{{arm}}", "tpot_seconds"),
            width=6,
            height=10,
        ),
        lines(
            "Total time",
            f"Sent to last token; bodies that were not streamed are apart. {_OK_ONLY} {_BUCKETS}",
            "s",
            *_percentiles("arm", "{{arm}}", "total_time_seconds", _STREAMS),
            whole,
            width=6,
            height=10,
        ),
        density(
            "Gaps between chunks",
            "How long streams that ended ok pause, all chosen arms. With speculation a chunk holds several tokens: "
            "longer gaps can be faster answers.",
            "s",
            Ask(gaps, "{{le}}"),
            width=6,
            height=10,
        ),
    ]


def _speculation() -> list[Panel]:
    by = "arm, task_type"
    rounds = summed(by, "verify_rounds_total", SOURCE)
    accepted, drafted = (summed(by, f"{name}_tokens_total", SOURCE) for name in ("accepted", "draft"))
    at = ratio(summed("arm, position", "accepted_position_total", SOURCE), summed("arm", "verify_rounds_total", SOURCE))
    at = at.replace("\n/ ", "\n/ on (arm) group_left () ")
    legend = "{{arm}} {{task_type}}"
    return [
        lines(
            "Acceptance rate",
            "Accepted ÷ drafted tokens. Counted by the chosen source alone: sources see the same work, and are never "
            "added up. Servers tell no task.",
            "percentunit",
            Ask(ratio(accepted, drafted), legend),
            width=6,
            high=1,
        ),
        lines(
            "Rollback rate",
            "Share of verification rounds that certainly rejected a draft token: a lower bound, and exact where "
            "every request's counts determine it.",
            "percentunit",
            Ask(ratio(summed(by, "rollback_rounds_total", SOURCE), rounds), legend),
            width=6,
            high=1,
        ),
        lines(
            "Tokens per round (E)",
            "1 + accepted ÷ rounds, of rounds that had a draft. 1 while drafts flow: none is accepted.",
            "none",
            Ask(f"1 + {ratio(accepted, rounds)}", legend),
            width=6,
            low=1,
            decimals=2,
        ),
        lines(
            "Acceptance by position",
            "Share of rounds that accepted the draft token at this position, from 0: it falls along the draft; where "
            "it nears 0, k is too long.",
            "percentunit",
            Ask(at, "{{arm}} {{position}}"),
            width=6,
            high=1,
        ),
    ]


def _machines() -> list[Panel]:
    seen = [
        Ask(newest("arm", "inflight_requests"), "{{arm}} client"),
        Ask(newest("arm", "server_running_requests"), "{{arm}} running"),
        Ask(newest("arm", "server_waiting_requests"), "{{arm}} waiting"),
    ]
    client = [
        Ask(f"max by (worker) ({of_run(series('worker_cpu_ratio'))})", "worker {{worker}} CPU"),
        Ask(
            ratio(summed("arm", "server_scrape_errors_total"), summed("arm", "server_scrapes_total")),
            "{{arm}} scrape errors",
        ),
    ]
    return [
        lines(
            "In flight: client and server",
            "Running that stays at a round number below what the client has in flight, with nothing waiting: "
            "something between them limits connections.",
            "short",
            *seen,
            width=6,
        ),
        lines(
            "KV cache used",
            "Mean of the arm's engines; absent where the server does not tell. Near 1, requests are preempted.",
            "percentunit",
            Ask(newest("arm", "server_kv_usage_ratio"), "{{arm}}"),
            width=6,
            high=1,
        ),
        lines(
            "Event loop lag of the load generator",
            "Largest of the last second, by worker. Arrival stamps are late by up to so much where the kernel does "
            "not stamp.",
            "s",
            Ask(f"max by (worker) ({of_run(series('event_loop_lag_seconds'))})", "worker {{worker}}"),
            width=6,
        ),
        lines(
            "Load generator's CPU, failed scrapes",
            "CPU of each worker as a share of one core (near 1 it is the bottleneck), and the share of looks at "
            "servers' metrics that gave no usable page.",
            "percentunit",
            *client,
            width=6,
        ),
    ]
