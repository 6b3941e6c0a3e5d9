"""The rules that read servers alone, on real vLLM servers under a real Prometheus."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadgen.export import Burn, Limits, Windows
from loadgen.observe import CounterWindow, Scrape, Scraped, window
from server_adapters.launch import LaunchedServer
from server_adapters.rounds import from_positions
from server_adapters.vllm import VllmAdapter

pytestmark = pytest.mark.vllm

#: The window of rates holds all of the load.
SHORT = Windows(
    rate="30s", hold="1s", scrape_hold="2s", baseline="2m", baseline_ago="60s", memory="2m", drift="2m",
    drift_hold="1m", interval="1s", run_interval="1s", burns=(Burn("30s", "60s", 14.4, "critical"),),
)  # fmt: skip
#: Beyond what any server does, so that traffic is all that is missing: acceptance is about 0.7.
STRICT = Limits(
    acceptance=0.999, rollback=0.001, speedup=1000.0, draft_tokens_per_s=1, output_tokens_per_s=1, requests_per_s=0.01
)
#: rate() extrapolates each counter over up to half a scrape at either end.
SCRAPE_ERROR = 0.05
LOAD_S = 4.0


@dataclass(frozen=True)
class Look:
    """A page as specload reads it, and its text."""

    scrape: Scrape
    text: str

    def total(self, family: str, labels: str = "") -> float:
        """Of what specload itself does not read: the sum of the family's series."""
        found = re.findall(rf"^{family}\{{[^}}]*{labels}[^}}]*\}} (\S+)$", self.text, re.MULTILINE)
        return sum(map(float, found))


async def look(client: httpx.AsyncClient, url: str, arm: str) -> Look:
    asked = time.monotonic_ns()
    text = (await client.get(f"{url}/metrics")).raise_for_status().text
    page = VllmAdapter().parse_metrics(text)
    return Look(Scrape(arm, url, asked, time.monotonic_ns(), Scraped.OK, None, page), text)


async def load(client: httpx.AsyncClient, url: str, seconds: float) -> None:
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += 1
        body = {"model": "tiny", "prompt": f"def find_{number}(items):\n    for item in items:\n        if item.",
                "max_tokens": 48, "temperature": 0, "ignore_eos": True}  # fmt: skip
        (await client.post(f"{url}/v1/completions", json=body)).raise_for_status()


async def test_rules_of_servers_alone(
    vllm_off: LaunchedServer, vllm_draft: LaunchedServer, vllm_ngram: LaunchedServer, tmp_path: Path,
    prometheus_over: Callable[..., Any], until: Callable[..., Any],
) -> None:  # fmt: skip
    """G17: idle servers fire nothing, whatever the limits. Under load every recorded series is what specload makes of
    the same counters, and alerts fire: on acceptance and rollback, on speed, on a server that should speculate."""
    urls = {"baseline": vllm_off.url, "draft": vllm_draft.url, "ngram": vllm_ngram.url}
    targets = [target(url, arm=arm) for arm, url in urls.items()]
    targets.append(target(vllm_off.url, arm="forgotten", speculation="expected"))
    folder = tmp_path / "prometheus"
    folder.mkdir()
    async with (
        prometheus_over(folder, {"inference": targets}, SHORT, STRICT) as prometheus,
        httpx.AsyncClient(timeout=60) as client,
    ):
        await until(lambda: prometheus.looked(4), "every server answers")
        assert await prometheus.asked('specload:rounds:rate{arm="draft"}')
        assert await prometheus.asked("ALERTS") == []

        before = {arm: await look(client, url, arm) for arm, url in urls.items()}
        await asyncio.gather(*(load(client, url, LOAD_S) for url in urls.values()))
        after = {arm: await look(client, url, arm) for arm, url in urls.items()}
        seen = f"timestamp(vllm:generation_tokens_total) > {time.time():.3f}"

        async def evaluated() -> bool:
            return len(await prometheus.asked(seen)) >= 4

        await until(evaluated, "the end of the load is scraped")
        await asyncio.sleep(1.2)  # an evaluation interval
        for arm in ("draft", "ngram"):
            await speculation_is_recorded(prometheus, between(before[arm], after[arm]), arm)
        await speed_is_recorded(prometheus, before, after)
        expected = {
            ("SpecloadAcceptanceRateLow", "draft"), ("SpecloadRollbackRateHigh", "draft"),
            ("SpecloadSpeedupLost", "draft"), ("SpecloadSpecDecodeSilent", "forgotten"),
        }  # fmt: skip

        async def fired() -> bool:
            found = await prometheus.asked('ALERTS{alertstate="firing"}')
            return {(labels["alertname"], labels["arm"]) for labels, _ in found} >= expected

        await until(fired, f"{expected}")
        assert await prometheus.asked('ALERTS{alertname="SpecloadSpecDecodeSilent",arm!="forgotten"}') == []


def target(url: str, **labels: str) -> dict[str, Any]:
    return {"targets": [url.removeprefix("http://")], "labels": labels}


def between(before: Look, after: Look) -> CounterWindow:
    looks = (before.scrape, after.scrape)
    return window(looks, looks[0].arm, "tiny", looks[0].answered_ns, looks[1].asked_ns)


async def value(prometheus: Any, series: str, arm: str) -> float:
    ((_, found),) = await prometheus.asked(f'specload:{series}{{scope="canary",arm="{arm}"}}')
    return float(found)


async def speculation_is_recorded(prometheus: Any, found: CounterWindow, arm: str) -> None:
    rounds, drafted, accepted = (found.deltas[name] for name in ("drafts", "draft_tokens", "accepted_tokens"))
    at = [round(n) for n in found.by_position["accepted_at"]]
    bounds = from_positions(round(rounds), round(drafted), at)
    close = pytest.approx
    assert await value(prometheus, "acceptance:ratio", arm) == close(accepted / drafted, rel=SCRAPE_ERROR)
    assert await value(prometheus, "tokens_per_round:mean", arm) == close(1 + accepted / rounds, rel=SCRAPE_ERROR)
    assert await value(prometheus, "positions:count", arm) == len(at) == 4
    rollback = await value(prometheus, "rollback:ratio", arm)
    assert rollback <= bounds.high / rounds * (1 + SCRAPE_ERROR)
    if arm == "draft":  # every draft has k tokens, so the counts leave one value
        assert bounds.determined
        assert rollback == close(bounds.low / rounds, rel=SCRAPE_ERROR, abs=0.01)
    of = [await value(prometheus, f"{name}:rate", arm) for name in ("draft_tokens", "rounds", "output_tokens")]
    assert of[0] / of[1] == close(drafted / rounds, rel=SCRAPE_ERROR)
    assert of[2] / of[1] == close(found.deltas["generation_tokens"] / rounds, rel=SCRAPE_ERROR)


async def speed_is_recorded(prometheus: Any, before: dict[str, Look], after: dict[str, Look]) -> None:
    """From families that specload does not need for its own numbers: the page's text is read here."""

    def delta(arm: str, family: str, labels: str = "") -> float:
        return after[arm].total(family, labels) - before[arm].total(family, labels)

    per_token, first = "vllm:request_time_per_output_token_seconds", "vllm:time_to_first_token_seconds"
    means = {arm: delta(arm, f"{per_token}_sum") / delta(arm, f"{per_token}_count") for arm in before}
    for arm, mean in means.items():
        assert await value(prometheus, "tpot_seconds:mean", arm) == pytest.approx(mean, rel=2 * SCRAPE_ERROR)
        late = 1 - delta(arm, f"{first}_bucket", 'le="1.0"') / delta(arm, f"{first}_count")
        assert await value(prometheus, "ttft_over_limit:ratio_rate30s", arm) == pytest.approx(late, abs=SCRAPE_ERROR)
        assert await value(prometheus, "errors:ratio_rate30s", arm) == pytest.approx(0, abs=1e-9)
    speedup = means["baseline"] / means["draft"]
    assert await value(prometheus, "speedup:ratio", "draft") == pytest.approx(speedup, rel=2 * SCRAPE_ERROR)
