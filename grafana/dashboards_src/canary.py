"""Canary and soak: servers under anybody's traffic, through the recording rules, and long runs of our own."""

from __future__ import annotations

from grafana.dashboards_src.frame import Page, Row, choices, marks
from grafana.dashboards_src.panels import GREEN, ORANGE, RED, Ask, Panel, lines, number, rows
from grafana.dashboards_src.queries import RATE, ratio, recorded, series
from loadgen.export import Limits, Windows

_SERVER = ('job=~"$job"', 'instance=~"$instance"')
_JOBS = 'job=~"inference|specload|specload-watch"'
_LIMITS, _WINDOWS = Limits(), Windows()
#: `lane`: of the service's runs and monitors, which may have arms of one name; others have none.
_LEGEND = "{{arm}} {{instance}} {{lane}}"
_RUNNING = (
    "vllm:num_requests_running|sglang:num_running_reqs|llamacpp:requests_processing|lmdeploy:num_requests_running|"
    "trtllm_num_requests_running"
)
_TTFT = "|".join(
    f"{family}time_to_first_token_seconds_bucket" for family in ("vllm:", "sglang:", "lmdeploy:", "trtllm_")
)


def page() -> Page:
    return Page(
        uid="specload-canary",
        title="specload / Canary and soak",
        description="Servers that live long, under anybody's traffic: is a budget burning, does speculation hold? "
        "Needs grafana/prometheus/recording.yml.",
        since="now-24h",
        refresh="1m",
        variables=[
            choices("job", "Job", f"label_values(up{{{_JOBS}}}, job)"),
            choices("instance", "Instance", 'label_values(up{job=~"$job"}, instance)'),
        ],
        annotations=[
            marks("Load test", "run_phase_timestamp_seconds", "{{run_id}} {{phase}}", "orange", 'phase=~"measure|end"')
        ],
        rows=[
            Row("State", _state()),
            Row("Canary monitor", _monitor()),
            Row("Error budget", _budget()),
            Row("Speculation of the servers", _speculation()),
            Row("Drift", _drift()),
            Row("Load of the servers", _load()),
            Row("specload watch", _watch()),
            Row("Soak: a long run's own requests", _soak()),
        ],
    )


def _canary(name: str, *matchers: str) -> str:
    return recorded(f"specload:{name}", "canary", *_SERVER, *matchers)


def _state() -> list[Panel]:
    seen = _canary("output_tokens:rate")
    firing = 'count(ALERTS{alertname=~"Specload.+",alertstate="firing"})'
    spans = [burn.long for burn in _WINDOWS.burns]
    longest = spans[-1]

    def left(name: str, objective: float) -> list[Ask]:
        spent = _canary(f"{name}:ratio_rate{longest}")
        return [Ask(f"1 - {spent} / {1 - objective:g}", _LEGEND)]

    return [
        number(
            "Targets up",
            "Whether Prometheus can read the target. What is down is not idle: nothing else here is known of it.",
            "none",
            Ask(f"up{{{','.join(_SERVER)}}}", "{{job}} {{instance}}"),
            width=8,
            height=5,
            words={"0": ("down", RED), "1": ("up", GREEN)},
            stacked=True,
        ),
        number(
            "Alerts firing",
            "All of specload's, whatever is chosen above. 0 only where the rules are evaluated.",
            "short",
            Ask(f"{firing} or 0 * count({seen})", "alerts"),
            height=5,
            limits=((None, GREEN), (1, RED)),
        ),
        number(
            f"Error budget left, {longest}",
            f"Of {1 - _LIMITS.error_objective:.0%} failed requests. Below 0 the objective is missed. Requests that "
            f"clients "
            "ended do not count; llama.cpp, LMDeploy and SGLang count no failures.",
            "percentunit",
            *left("errors", _LIMITS.error_objective),
            width=6,
            height=5,
            limits=((None, RED), (0, GREEN)),
            none="too little traffic",
            stacked=True,
            decimals=1,
        ),
        number(
            f"First-token budget left, {longest}",
            f"Of {1 - _LIMITS.ttft_objective:.0%} first tokens later than {_LIMITS.ttft_s:g} s. Below 0 the "
            f"objective is "
            "missed.",
            "percentunit",
            *left("ttft_over_limit", _LIMITS.ttft_objective),
            width=6,
            height=5,
            limits=((None, RED), (0, GREEN)),
            none="too little traffic",
            stacked=True,
            decimals=1,
        ),
    ]


def _monitor() -> list[Panel]:
    """Of `specload canary`. Checks have units of their own, so they are shown beside their limits."""
    by = "canary, instance"

    def newest(name: str, more: str = "") -> str:
        """Of monitors that are active: what an ended one told stays a while, beside what the next one tells."""
        active = f"and on (job, instance, lane, canary) {series('canary_active', *_SERVER)} == 1"
        return f"max by ({by}{more}) ({series(f'canary_{name}', *_SERVER)} {active})"

    def check(name: str) -> str:
        return newest(f"check_{name}", ", check, source")

    codes = {"0": ("fail", RED), "1": ("pass", GREEN), "-1": ("unclear, or no data", ORANGE)}
    return [
        lines(
            "Canary state",
            "1 for the state that `specload canary` sees: fail is three failing windows in a row; no_data is no pass.",
            "short",
            Ask(newest("state", ", state"), "{{canary}} {{instance}} {{state}}"),
            width=6,
            high=1,
        ),
        number(
            "Canary verdict",
            "Of the last windows together: pass only where every check is shown to keep its limit.",
            "none",
            Ask(newest("verdict"), "{{canary}} {{instance}}"),
            width=4,
            height=8,
            words={**codes, "-1": ("inconclusive", ORANGE)},
            stacked=True,
        ),
        rows(
            "Canary checks, newest window",
            "Value with its 95 % interval, and its limit. Values that are not known are missing.",
            "none",
            Ask(check("value"), "value", decimals=3),
            Ask(check("low"), "low", decimals=3),
            Ask(check("high"), "high", decimals=3),
            Ask(check("limit"), "limit", decimals=3),
            Ask(check("failing_windows"), "failing in a row"),
            Ask(check("result"), "result"),
            order=["canary", "instance", "check", "source"],
            width=14,
            words=codes,
        ),
        lines(
            "Canary's share of the traffic",
            "Of the requests that both arms ended in the newest window, probes left out. Absent: not known.",
            "percentunit",
            Ask(newest("traffic_ratio"), "{{canary}} {{instance}}"),
        ),
        lines(
            "Failing windows in a row",
            "By check; at 3 the state is fail.",
            "short",
            Ask(check("failing_windows"), "{{canary}} {{instance}} {{check}} {{source}}"),
            reach=3,
            limits=((None, GREEN), (3, RED)),
        ),
        lines(
            "Probes of the canary",
            "Requests of our own a second, by outcome. Absent where it is watched by counters alone.",
            "reqps",
            Ask(
                f"sum by ({by}, arm, outcome) (rate({series('canary_probes_total', *_SERVER)}[{RATE}]))",
                "{{canary}} {{instance}} {{arm}} {{outcome}}",
            ),
        ),
    ]


def _budget() -> list[Panel]:
    pages = [burn for burn in _WINDOWS.burns if burn.severity == "critical"]
    factors = [burn.factor for burn in pages]
    limits = ((None, GREEN), (min(factors), ORANGE), (max(factors), RED))

    def burning(name: str, objective: float) -> list[Ask]:
        asks = []
        for burn in pages:
            short, long = (_canary(f"{name}:ratio_rate{span}") for span in (burn.short, burn.long))
            less = f"({short} < {long} or {long} <= {short})"
            asks.append(Ask(f"{less} / {1 - objective:g}", f"{_LEGEND} {burn.short}, {burn.long}"))
        return asks

    why = (
        "How many times too fast the budget is used: at 1 it lasts exactly its period. An alert pages where a short "
        "and a long window are both above their line, so the smaller of the two is drawn. Absent while either has too "
        "little traffic."
    )
    return [
        lines(
            "Burn of failed requests",
            why,
            "suffix:×",
            *burning("errors", _LIMITS.error_objective),
            width=12,
            limits=limits,
            reach=max(factors),
            beside=True,
        ),
        lines(
            f"Burn of first tokens later than {_LIMITS.ttft_s:g} s",
            why,
            "suffix:×",
            *burning("ttft_over_limit", _LIMITS.ttft_objective),
            width=12,
            limits=limits,
            reach=max(factors),
            beside=True,
        ),
    ]


def _speculation() -> list[Panel]:
    return [
        lines(
            "Acceptance rate",
            "Accepted ÷ drafted tokens over five minutes, engines and ranks added up. The line is the alert's floor. "
            "It moves "
            "with the mix of tasks, which servers do not tell. Absent: no drafts, which is not 0.",
            "percentunit",
            Ask(_canary("acceptance:ratio"), _LEGEND),
            width=6,
            high=1,
            limits=((None, RED), (_LIMITS.acceptance, GREEN)),
        ),
        lines(
            "Rollback rate",
            "Share of rounds that certainly rejected a draft: exact where all drafts have k tokens, else a lower "
            "bound.",
            "percentunit",
            Ask(_canary("rollback:ratio"), _LEGEND),
            width=6,
            high=1,
            limits=((None, GREEN), (_LIMITS.rollback, RED)),
        ),
        lines(
            "Tokens per round (E)",
            "1 + accepted ÷ rounds, of rounds that had a draft. 1 while drafts flow: the drafter is broken.",
            "none",
            Ask(_canary("tokens_per_round:mean"), _LEGEND),
            width=6,
            low=1,
            decimals=2,
        ),
        lines(
            "Speedup between arms",
            "Baseline's mean time per output token ÷ the arm's, of targets with an arm label and the same model. "
            "Their traffic "
            "is not the same: a hint, no measurement.",
            "suffix:×",
            Ask(recorded("specload:speedup:ratio", "canary"), "{{arm}} {{model_name}}"),
            width=6,
            limits=((None, RED), (_LIMITS.speedup, GREEN)),
            decimals=2,
        ),
    ]


def _drift() -> list[Panel]:
    acceptance = _canary("acceptance:ratio")
    hours = _WINDOWS.drift
    seconds = int(hours.removesuffix("h")) * 3600
    return [
        lines(
            "Acceptance against its day",
            "Change against the median of the last day, in points. A step is a new mix or a new drafter; a slope is "
            "drift.",
            "percentunit",
            Ask(f"{acceptance} - quantile_over_time(0.5, {acceptance}[{_WINDOWS.baseline}])", _LEGEND),
            low=None,
        ),
        lines(
            f"Slope of acceptance, {hours}",
            f"Change over {hours} along a straight line, in points; the alert fires below −{_LIMITS.drift:g}.",
            "percentunit",
            Ask(f"deriv({acceptance}[{hours}]) * {seconds}", _LEGEND),
            low=-1,
            high=1,
            limits=((None, RED), (-_LIMITS.drift, GREEN)),
        ),
        lines(
            "Drafted tokens per output token",
            "How much is drafted at all: acceptance is near 1 where almost nothing is.",
            "none",
            Ask(ratio(_canary("draft_tokens:rate"), _canary("output_tokens:rate")), _LEGEND),
            decimals=2,
        ),
    ]


def _load() -> list[Panel]:
    running = f'{{__name__=~"{_RUNNING}",{",".join(_SERVER)}}}'
    buckets = f'{{__name__=~"{_TTFT}",{",".join(_SERVER)}}}'
    first = f"histogram_quantile(0.95, sum by (instance, arm, le) (rate({buckets}[{RATE}])))"
    return [
        lines(
            "Output tokens",
            "A second, whoever asked for them.",
            "suffix: tok/s",
            Ask(_canary("output_tokens:rate"), _LEGEND),
        ),
        lines(
            "Running requests",
            "Engines and ranks added up.",
            "short",
            Ask(f"sum by (instance, arm) ({running})", _LEGEND),
        ),
        lines(
            "Time to first token, P95, by the server",
            "From the server's own buckets, which are coarse: it cannot be compared with a client's, or across "
            "engines.",
            "s",
            Ask(first, _LEGEND),
        ),
    ]


def _watch() -> list[Panel]:
    """Of `specload watch` alone: runs look at servers too, and have run_info."""
    alone = f"unless on (job, instance, lane) {series('run_info', *_SERVER)}"

    def counted(name: str, how: str = "rate") -> str:
        return f"sum by (instance, lane, arm) ({how}({series(name, *_SERVER)}[{RATE}]) {alone})"

    def requests(name: str) -> Ask:
        newest = f"max by (arm, instance, lane) ({series(f'server_{name}_requests', *_SERVER)} {alone})"
        return Ask(newest, f"{_LEGEND} {name}")

    return [
        lines(
            "Watched: running and waiting",
            "At the newest look, all pages of the arm; absent where the page does not tell.",
            "short",
            requests("running"),
            requests("waiting"),
        ),
        lines(
            "Looks that failed",
            "Share of looks at the server's metrics that gave no usable page. Nothing is known of the time between.",
            "percentunit",
            Ask(ratio(counted("server_scrape_errors_total"), counted("server_scrapes_total")), _LEGEND),
            high=1,
            limits=((None, GREEN), (0.5, RED)),
        ),
        lines(
            "Restarts seen",
            "Counters of a server that went back. Counts go on where they were.",
            "short",
            Ask(counted("server_resets_total", "increase"), _LEGEND),
            reach=1,
        ),
    ]


def _soak() -> list[Panel]:
    legend = "{{arm}} {{task_type}} {{source}}"

    def of_client(name: str) -> str:
        return recorded(f"specload:{name}", "run", *_SERVER)

    return [
        lines(
            "Acceptance by task",
            "Of the run's own requests, which know their task. Each source is a line of its own: they count the same "
            "work.",
            "percentunit",
            Ask(of_client("acceptance:ratio"), legend),
            high=1,
        ),
        lines(
            "Rollback by task",
            "Rounds that certainly rejected a draft, by task and source.",
            "percentunit",
            Ask(of_client("rollback:ratio"), legend),
            high=1,
        ),
        lines(
            "Time per output token by task",
            "Mean over five minutes, of requests that ended ok. A rise over hours at the same load is what a soak "
            "looks for.",
            "s",
            Ask(of_client("tpot_seconds:mean"), "{{arm}} {{task_type}}"),
        ),
    ]
