"""`specload watch`: rates from a server's counters, as a table and as metrics; no load of our own."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from io import StringIO
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from loadgen.errors import ScenarioError, TargetUnusable
from loadgen.experiment import Reading, WatchMetrics, readings_line, readings_table, watch
from loadgen.export import FAMILIES
from loadgen.observe import ScrapeArm

SPECULATION = {"drafts": 10, "draft_tokens": 40, "accepted_tokens": 20}
AT = (9, 6, 4, 1)


class Counting:
    """A metrics page whose counters go on with every look: rounds by 10, drafts by 40, accepted by 20, tokens by 30."""

    def __init__(self) -> None:
        self.speculates, self.broken = True, False
        self.models = ["m"]
        self.started, self.looks, self.paths = 1000.0, 0, [""]
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def restart(self) -> None:
        self.started, self.looks = self.started + 100, 0

    def page(self) -> str:
        self.looks += 1
        lines = [f"process_start_time_seconds {self.started}"]
        for model in self.models:
            of = f'model_name="{model}",engine="0"'
            lines += [f"vllm:generation_tokens_total{{{of}}} {30 * self.looks}"]
            lines += [f"vllm:num_requests_running{{{of}}} 3", f"vllm:num_requests_waiting{{{of}}} 1"]
            if self.speculates:
                lines += [f"vllm:spec_decode_num_{n}_total{{{of}}} {by * self.looks}" for n, by in SPECULATION.items()]
                name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
                lines += [f'{name}{{{of},position="{i}"}} {by * self.looks}' for i, by in enumerate(AT)]
        return "\n".join(lines) + "\n"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.paths.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode())
                body = b"<html>login</html>" if self.broken else self.page().encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Counting]:
    counting = Counting()
    listener = await asyncio.start_server(counting.answer, "127.0.0.1", 0)
    counting.port = listener.sockets[0].getsockname()[1]
    yield counting
    listener.close()
    await listener.wait_closed()


Served = Callable[[int], Awaitable[dict[str, float]]]
Watching = Callable[..., Awaitable[list[Reading]]]


@pytest.fixture
async def watched(server: Counting) -> AsyncIterator[Watching]:
    """watched(until, metrics=None, model="") -> the first readings of which `until(reading)` is true."""
    tasks: list[asyncio.Task[None]] = []
    shown: list[list[Reading]] = []

    async def until(
        true: Callable[[Reading], Any], metrics: WatchMetrics | None = None, model: str = ""
    ) -> list[Reading]:
        if not tasks:
            arm = ScrapeArm("server", "vllm", model, (f"{server.url}/metrics",))
            tasks.append(asyncio.create_task(watch([arm], 0.2, 2.0, shown.append, metrics)))
        shown.clear()
        async with asyncio.timeout(30):
            while not (shown and true(shown[-1][0])):
                if tasks[0].done():
                    tasks[0].result()
                await asyncio.sleep(0.02)
        return shown[-1]

    yield until
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def samples() -> Served:
    """await samples(port): what is served there, after promtool's lint. Without promtool the tests skip; with
    SPECLOAD_NO_SKIP=1 (CI) that is a failure."""
    promtool = shutil.which("promtool")
    if promtool is None:
        if os.environ.get("SPECLOAD_NO_SKIP") == "1":
            pytest.fail("no promtool (sh scripts/setup_prometheus.sh)", pytrace=False)
        pytest.skip("no promtool (sh scripts/setup_prometheus.sh)")

    def lint(text: str) -> None:
        command = [promtool, "check", "metrics"]
        checked = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
        assert checked.returncode == 0, checked.stderr

    async def served(port: int) -> dict[str, float]:
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
        await asyncio.to_thread(lint, text)
        families = list(text_string_to_metric_families(text))
        known = {family.full_name: set(family.labels) for family in FAMILIES.values()}
        assert all(set(s.labels) <= known[s.name] for family in families for s in family.samples)
        return {s.name + str(sorted(s.labels.items())): s.value for family in families for s in family.samples}

    return served


def value(found: dict[str, float], name: str, **labels: str) -> float:
    return found[name + str(sorted({"arm": "server", **labels}.items()))]


async def test_rates_are_of_the_window_and_nothing_but_the_page_is_asked(server: Counting, watched: Watching) -> None:
    [reading] = await watched(lambda r: r.seconds > 0.7)
    assert reading.acceptance == pytest.approx(0.5)
    assert reading.tokens_per_round == pytest.approx(3.0)
    assert reading.rounds_per_s is not None
    assert reading.tokens_per_s == pytest.approx(3 * reading.rounds_per_s)
    assert (reading.running, reading.waiting, reading.notes) == (3, 1, ())
    assert reading.seconds <= 2.6
    assert set(server.paths) == {"", "/metrics"}
    assert "acceptance 50.0 %, tokens/round 3.00" in readings_line(reading)


async def test_metrics_go_on_over_a_restart(server: Counting, watched: Watching, samples: Served) -> None:
    """D4, G18: series begin at 0, and a restarted server's counters add up."""
    metrics = WatchMetrics()
    port = metrics.serve("127.0.0.1", 0)
    source = {"task_type": "all", "source": "server_window"}
    await watched(lambda r: r.seconds > 0.5, metrics)
    before = await samples(port)
    drafted = value(before, "specload_draft_tokens_total", **source)
    assert drafted > 0
    assert value(before, "specload_accepted_tokens_total", **source) == drafted / 2
    assert value(before, "specload_verify_rounds_total", **source) == drafted / 4
    last = value(before, "specload_accepted_position_total", position="3", source="server_window")
    assert last == drafted / 40
    assert value(before, "specload_server_running_requests") == 3
    server.restart()
    await watched(lambda r: any("restarted" in note for note in r.notes))
    after = await samples(port)
    assert value(after, "specload_draft_tokens_total", **source) > drafted
    assert value(after, "specload_server_resets_total") == 1


async def test_a_page_without_draft_counters_is_no_zero(server: Counting, watched: Watching, samples: Served) -> None:
    """D5: absent, with the reason; no series of speculation is served."""
    server.speculates = False
    metrics = WatchMetrics()
    port = metrics.serve("127.0.0.1", 0)
    [reading] = await watched(lambda r: r.seconds > 0.3, metrics)
    assert (reading.acceptance, reading.tokens_per_round, reading.rounds_per_s) == (None, None, None)
    assert reading.tokens_per_s
    assert reading.notes == ("no speculation: the page has no draft counters",)
    assert not [name for name in await samples(port) if "draft" in name or "round" in name or "position" in name]


async def test_a_page_that_breaks_is_told_and_counted(server: Counting, watched: Watching, samples: Served) -> None:
    """G23: HTML is no metrics page; the look is counted as an error, and the next good one goes on."""
    metrics = WatchMetrics()
    port = metrics.serve("127.0.0.1", 0)
    await watched(lambda r: r.seconds > 0.3, metrics)
    server.broken = True
    [reading] = await watched(lambda r: any(note.startswith("now: ") for note in r.notes))
    assert reading.running is None
    assert value(await samples(port), "specload_server_scrape_errors_total") >= 1
    server.broken = False
    await watched(lambda r: r.running == 3)


async def test_what_cannot_be_watched(server: Counting, watched: Watching) -> None:
    server.models = ["m", "n"]
    with pytest.raises(ScenarioError, match="choose one with --model"):
        await watched(lambda r: True)


async def test_a_model_that_is_not_served(server: Counting, watched: Watching) -> None:
    with pytest.raises(TargetUnusable, match="serves m, not other"):
        await watched(lambda r: True, model="other")


def test_the_table_has_a_dash_and_the_reason_for_what_is_not_known() -> None:
    readings = [
        Reading("baseline", 10.0, None, None, None, 812.34, 8, 0, ("no speculation: the page has no draft counters",)),
        Reading("candidate", 9.9, 0.7251, 3.9, 310.0, 1209.0, 8, None),
    ]
    console = Console(width=110, file=StringIO(), record=True)
    console.print(readings_table(readings))
    shown = [" ".join(line.replace("│", " ").split()) for line in console.export_text().splitlines()]
    assert "baseline – – – 812.3 8 0" in shown
    assert "candidate 72.5 % 3.90 310.0 1209.0 8 –" in shown
    assert "baseline: no speculation: the page has no draft counters" in shown
    assert "over the last 10.0 s, whoever sends the load; Ctrl-C ends" in shown


async def test_command_line(server: Counting, cli: Callable[..., Any]) -> None:
    """Ctrl-C ends it with 130, a server that is not there with 3."""
    ended = await cli("watch", server.url, "--interval", "0.2", "--json", "--metrics-port", "0",
                      when="metrics: http://127.0.0.1:", signals=(signal.SIGINT,))  # fmt: skip
    assert ended.code == 130, ended.said
    assert all(json.loads(line)[0]["arm"] == "server" for line in ended.out.splitlines())
    gone = await cli("watch", "a=http://127.0.0.1:9", f"b={server.url}")
    assert gone.code == 3
    assert "a: http://127.0.0.1:9/metrics" in gone.err


@pytest.mark.parametrize("arguments", [("127.0.0.1:8000",), ("http://127.0.0.1:9", "--adapter", "none")])
def test_a_wrong_word_on_the_command_line(specload: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    assert specload("watch", *arguments).returncode == 2
