"""The scraping process against a real HTTP server in this process."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from pydantic import SecretStr

from loadgen.clock import now_ns
from loadgen.observe import Scrape, ScrapeArm, Scraped, Scraper, window

ROOT = Path(__file__).resolve().parents[2]


class Pages:
    """A metrics server. `mode` says what it answers next; every request's head is kept in `heads`."""

    def __init__(self) -> None:
        self.mode = "ok"
        self.fail_next = 0
        self.drafts, self.running, self.waiting, self.started = 100.0, 0.0, 0.0, 1000.0
        self.heads: list[str] = []
        self.released = asyncio.Event()  # what the page waits for in mode "slow", from the second request on
        self.port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head.decode())
                if self.fail_next:
                    self.fail_next -= 1
                    return
                if self.mode == "hang":
                    await asyncio.sleep(30)
                if self.mode == "slow" and len(self.heads) >= 2:
                    await self.released.wait()
                status, body = self._answer()
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self._open.discard(writer)
            writer.close()

    def _answer(self) -> tuple[str, bytes]:
        if self.mode == "401":
            return "401 Unauthorized", b"no"
        if self.mode == "html":
            return "200 OK", b"<!doctype html><html><body>Please log in</body></html>"
        if self.mode == "garbage":
            return "Please log in", b""
        if self.mode == "empty":
            return "200 OK", b""
        if self.mode == "other":
            return "200 OK", b"# TYPE go_goroutines gauge\ngo_goroutines 7\n"
        labels = '{engine="0",model_name="m"}'
        lines = [
            "# TYPE vllm:num_requests_running gauge", f"vllm:num_requests_running{labels} {self.running}",
            "# TYPE vllm:num_requests_waiting gauge", f"vllm:num_requests_waiting{labels} {self.waiting}",
            "# TYPE vllm:spec_decode_num_drafts counter", f"vllm:spec_decode_num_drafts_total{labels} {self.drafts}",
            "# TYPE vllm:generation_tokens counter", f"vllm:generation_tokens_total{labels} {self.drafts}",
            "# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {self.started}",
        ]  # fmt: skip
        return "200 OK", ("\n".join(lines) + "\n").encode()


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    server = Pages()
    await server.start()
    yield server
    await server.stop()


Started = Callable[..., Awaitable[Scraper]]


@pytest.fixture
async def started(pages: Pages) -> AsyncIterator[Started]:
    """A running scraper of the arm "a": `await started(interval_s=…, urls=…)`."""
    running: list[Scraper] = []

    async def start(
        interval_s: float = 60.0,
        urls: tuple[str, ...] | None = None,
        headers: dict[str, SecretStr] | None = None,
        timeout_s: float = 5.0,
        on_scrape: Callable[[Scrape], None] | None = None,
    ) -> Scraper:
        arm = ScrapeArm("a", "vllm", "m", (pages.url,) if urls is None else urls, headers or {})
        scraper = Scraper([arm], interval_s=interval_s, timeout_s=timeout_s, on_scrape=on_scrape)
        running.append(scraper)
        await scraper.start()
        return scraper

    yield start
    for scraper in running:
        await scraper.stop()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass within 20 s")


async def test_an_edge_is_a_fresh_scrape_with_stamps_of_this_clock(pages: Pages, started: Started) -> None:
    scraper = await started()
    pages.drafts = 123.0
    before = now_ns()
    [edge] = await scraper.edge("a", 7, "start")
    assert before <= edge.asked_ns <= edge.answered_ns <= now_ns()
    assert (edge.status, edge.edge, edge.segment, edge.source) == (Scraped.OK, "start", 7, pages.url)
    assert edge.page is not None
    assert {s.name: s.value for s in edge.page.series}["drafts"] == 123.0
    assert edge.page.model_names == ("m",)


async def test_periodic_scrapes_go_on_and_reach_the_callback_once(pages: Pages, started: Started) -> None:
    seen: list[Scrape] = []
    scraper = await started(interval_s=0.2, on_scrape=seen.append)
    await until(lambda: len(seen) >= 3)
    stamps = [s.asked_ns for s in seen]
    assert len(set(stamps)) == len(stamps)
    assert all(s.edge is None and s.status is Scraped.OK for s in seen)
    assert scraper.drain() == []
    assert scraper.latest("a")[0].asked_ns in stamps


async def test_a_page_that_has_not_answered_is_not_asked_again(pages: Pages, started: Started) -> None:
    """G22: a slow page gets no scrape storm, and does not hold up the others."""
    slow = Pages()
    slow.mode = "hang"
    await slow.start()
    seen: list[Scrape] = []
    await started(interval_s=0.2, urls=(slow.url, pages.url), timeout_s=30.0, on_scrape=seen.append)
    await until(lambda: len(seen) >= 4)
    assert {s.source for s in seen} == {pages.url}
    assert len(slow.heads) == 1
    await slow.stop()


async def test_without_a_callback_scrapes_are_drained_once(started: Started) -> None:
    scraper = await started()
    await scraper.edge("a", 0, "start")
    first = scraper.drain()
    assert [s.edge for s in first].count("start") == 1
    assert scraper.drain() == []


async def test_no_compression_no_redirect_and_the_arms_headers(pages: Pages, started: Started) -> None:
    scraper = await started(headers={"Authorization": SecretStr("Bearer sesame-sesame")})
    await scraper.edge("a", 0, "start")
    head = pages.heads[-1].lower()
    assert "accept-encoding: identity" in head
    assert "authorization: bearer sesame-sesame" in head


async def test_secrets_are_not_on_the_command_line_or_in_the_scrapes(pages: Pages, started: Started) -> None:
    """I1: the secret goes over the pipe."""
    url = f"http://user:sesame-sesame@127.0.0.1:{pages.port}/metrics"
    pages.mode = "401"
    scraper = await started(urls=(url,), headers={"X-Key": SecretStr("sesame-sesame")})
    [edge] = await scraper.edge("a", 0, "start")
    assert scraper.pid is not None
    process = psutil.Process(scraper.pid)
    assert "sesame-sesame" not in " ".join(process.cmdline())
    assert "sesame-sesame" not in repr(edge)
    assert edge.reason == "HTTP 401; check the arm's api_key"


async def test_two_pages_behind_one_masked_url_are_two_pages(pages: Pages, started: Started) -> None:
    """Also when the scraper is gone and nobody asks them."""
    scraper = await started(urls=tuple(f"{pages.url}?key={word}" for word in ("first", "second")))
    alive = await scraper.edge("a", 0, "start")
    await scraper.stop()
    after = await scraper.edge("a", 0, "end")
    for looks in (alive, after):
        assert [look.source for look in looks] == [f"{pages.url}?key=***", f"{pages.url}?key=*** (2)"]


@pytest.mark.parametrize(
    ("mode", "status", "reason"),
    [
        ("401", Scraped.UNREACHABLE, "HTTP 401"),
        ("html", Scraped.NOT_METRICS, ""),
        ("empty", Scraped.NOT_METRICS, ""),
        ("other", Scraped.FAMILIES_MISSING, ""),
        ("garbage", Scraped.UNREACHABLE, "no HTTP answer (RemoteProtocolError)"),
        ("hang", Scraped.UNREACHABLE, "no answer within 0.6 s"),
    ],
)
async def test_what_is_not_a_page_of_this_server_is_a_failed_scrape(
    pages: Pages, started: Started, mode: str, status: Scraped, reason: str
) -> None:
    """G23: HTML, empty bodies, another service, no answer: a status and a reason, never zeros. I6: a reason has no word
    of what was answered."""
    pages.mode = mode
    scraper = await started(timeout_s=0.2)
    [edge] = await scraper.edge("a", 0, "start")
    assert (edge.status, edge.page) == (status, None)
    assert edge.reason
    assert edge.reason.startswith(reason)
    assert "Please log in" not in edge.reason
    got = window([edge], "a", "m", now_ns(), now_ns() + 1)
    assert got.deltas == {}
    assert edge.reason in got.absent["drafts"]


async def test_an_edge_that_fails_once_is_tried_again_and_both_are_kept(pages: Pages, started: Started) -> None:
    scraper = await started()
    await until(lambda: len(scraper.latest("a")) == 1)
    scraper.drain()
    pages.fail_next = 1
    [edge] = await scraper.edge("a", 0, "end")
    assert edge.status is Scraped.OK
    assert [s.status for s in scraper.drain()] == [Scraped.UNREACHABLE, Scraped.OK]


async def test_an_edge_of_a_slow_page_is_waited_for(pages: Pages, started: Started) -> None:
    """The second try has more patience than one scrape: a page may be slow just when its server is."""
    pages.mode = "slow"
    scraper = await started(timeout_s=0.5)
    await until(lambda: len(scraper.latest("a")) == 1)
    scraper.drain()
    edge = asyncio.create_task(scraper.edge("a", 0, "end"))
    await until(lambda: len(pages.heads) == 3)
    await asyncio.sleep(0.6)
    pages.released.set()
    [scrape] = await edge
    assert scrape.status is Scraped.OK
    assert scrape.answered_ns - scrape.asked_ns > 500_000_000
    assert [s.reason for s in scraper.drain()] == ["no answer within 0.5 s", None]


async def test_counters_over_a_server_restart(pages: Pages, started: Started) -> None:
    """D4: 100, 160, gone, back with 40: 60 + 40, one restart."""
    seen: list[Scrape] = []
    scraper = await started(on_scrape=seen.append)
    await scraper.edge("a", 1, "start")
    pages.drafts = 160.0
    await scraper.edge("a", 99, "start")
    await pages.stop()
    [down] = await scraper.edge("a", 99, "end")
    assert down.status is Scraped.UNREACHABLE
    pages.drafts, pages.started = 40.0, 1090.0
    await pages.start()
    [end] = await scraper.edge("a", 1, "end")
    got = window(seen, "a", "m", seen[0].answered_ns, end.asked_ns, segment=1)
    assert got.deltas["drafts"] == 100
    assert got.restarts == 1
    assert len(got.incomplete) == 2


async def test_wait_idle_waits_until_nothing_runs(pages: Pages, started: Started) -> None:
    scraper = await started()
    pages.running = 2.0
    task = asyncio.create_task(scraper.wait_idle("a", 20.0))
    await until(lambda: len(pages.heads) >= 3)
    assert not task.done()
    pages.running = 0.0
    result = await task
    assert (result.reached, result.reason) == (True, None)
    assert result.waited_s > 0.0


async def test_wait_idle_gives_up_and_says_what_still_runs(pages: Pages, started: Started) -> None:
    """H20: the next phase is flagged as contaminated."""
    scraper = await started()
    pages.running, pages.waiting = 3.0, 1.0
    result = await scraper.wait_idle("a", 0.0)
    assert result.reached is False
    assert result.reason == "4 requests still running or waiting"
    await until(lambda: scraper.waiting("a") == 1)


async def test_wait_idle_is_unknown_where_nothing_tells(pages: Pages, started: Started) -> None:
    pages.mode = "html"
    scraper = await started()
    unknown = await scraper.wait_idle("a", 20.0)
    assert unknown.reached is None
    assert "not_metrics" in (unknown.reason or "")
    assert scraper.waiting("a") is None
    nothing = await (await started(urls=())).wait_idle("a", 20.0)
    assert (nothing.reached, nothing.reason) == (None, "the arm has no metrics page")


async def test_a_killed_scraper_is_noticed_and_reported_everywhere(pages: Pages, started: Started) -> None:
    scraper = await started()
    await scraper.edge("a", 0, "start")
    assert scraper.pid is not None
    os.kill(scraper.pid, signal.SIGKILL)
    await until(lambda: scraper.gone is not None)
    [latest] = scraper.latest("a")
    assert latest.status is Scraped.UNREACHABLE
    assert latest.reason == scraper.gone
    assert scraper.gone is not None
    assert scraper.gone.startswith("the scraping process has ended by itself")
    [edge] = await scraper.edge("a", 0, "end")
    assert (edge.status, edge.edge, edge.reason) == (Scraped.UNREACHABLE, "end", latest.reason)
    assert (await scraper.wait_idle("a", 20.0)).reached is None


async def test_a_question_under_way_ends_when_the_scraper_dies(pages: Pages, started: Started) -> None:
    scraper = await started()
    pages.mode = "hang"
    question = asyncio.create_task(scraper.edge("a", 0, "end"))
    await until(lambda: len(pages.heads) >= 2)
    assert scraper.pid is not None
    os.kill(scraper.pid, signal.SIGKILL)
    [edge] = await question
    assert edge.reason is not None
    assert edge.reason.startswith("the scraping process has ended by itself")


async def test_stop_leaves_no_process_behind_and_is_idempotent(started: Started) -> None:
    scraper = await started()
    pid = scraper.pid
    assert pid is not None
    await scraper.stop()
    await scraper.stop()
    assert not psutil.pid_exists(pid)
    assert (await scraper.edge("a", 0, "end"))[0].reason == "the scraper was stopped"


async def test_a_scraper_that_was_never_started_says_so() -> None:
    scraper = Scraper([ScrapeArm("a", "vllm", "m", ("http://127.0.0.1:9/metrics",))], 1.0, 1.0)
    [edge] = await scraper.edge("a", 0, "start")
    assert edge.reason == "the scraping process was not started"
    await scraper.stop()


async def test_an_adapter_that_does_not_exist_is_a_scraper_that_ended(pages: Pages) -> None:
    scraper = Scraper([ScrapeArm("a", "nonesuch", "m", (pages.url,))], 1.0, 1.0)
    await scraper.start()
    assert scraper.gone is not None
    assert scraper.gone.startswith("the scraping process failed: ValueError")
    assert "nonesuch" in scraper.gone
    await scraper.stop()


PARENT = """
import asyncio, os
from loadgen.observe import ScrapeArm, Scraper

async def main():
    scraper = Scraper([ScrapeArm("a", "vllm", "m", ("http://127.0.0.1:9/metrics",))], 60.0, 1.0)
    await scraper.start()
    print(scraper.pid, flush=True)
    await asyncio.sleep(60)

if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_the_scraper_dies_with_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    assert psutil.pid_exists(child)
    parent.kill()
    await parent.wait()

    def over() -> bool:
        try:
            return psutil.Process(child).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    await until(over)
