"""What a failing canary sets off, from hand-made windows: what is kept of it, and what is only said."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from loadgen.control import Canary, CanaryWindow, CheckId, CheckReading
from loadgen.experiment import read_canary
from loadgen.experiment.canary.hooks import Hooks
from loadgen.experiment.canary.metrics import CanaryMetrics
from loadgen.experiment.canary.records import CanaryRecords, CanaryResult
from loadgen.experiment.canary.webhooks import plain_client
from loadgen.experiment.preflight import ReadyArm
from loadgen.export import Metrics
from loadgen.report import canary_tables
from loadgen.scenario import LoadedScenario, Scenario
from server_adapters.probing import NOTHING_KNOWN
from tests.experiment.canary_receiver import until

ACCEPTANCE = CheckId("acceptance", "probes")
FAILING = CheckReading(ACCEPTANCE, 0.4, "below", 0.1, 0.05, 0.15, 100, "requests")
PLANTED = "planted-upstream-4711"
TASK = {"task_type": "code", **{name: {"kind": "fixed", "value": 8} for name in ("input_len", "output_len")}}


class Hooked:
    """Hooks of a canary whose switch and webhooks these are; `fail` lets it fail. What was said is in `said`."""

    def __init__(self, folder: Path, **keys: Any) -> None:
        self.said: list[str] = []
        self.metrics = Metrics()
        scenario = Scenario.model_validate(
            {
                "version": 1, "name": "c", "environment": "disposable",
                "arms": {"baseline": {"url": "http://127.0.0.1:9"}, "candidate": {"url": "http://127.0.0.1:9"}},
                "workload": {"tasks": [TASK]}, "load": [{"kind": "concurrency", "concurrency": 1, "cases": 10}],
                "canary": {"on_fail": "switch", **keys},
            }
        )  # fmt: skip
        assert scenario.canary is not None
        told = CanaryMetrics(self.metrics, "c", ("candidate", "baseline"), scenario.canary)
        told.begin("id", (ACCEPTANCE,), 0.0)
        # neither an http switch nor a command asks the arm
        arm = ReadyArm("candidate", cast(Any, None), (), "m", NOTHING_KNOWN, cast(Any, None), ())
        self.hooks = Hooks(
            scenario.canary, LoadedScenario(scenario, None, ""), arm, False, plain_client, told, self.said.append
        )
        self.records = CanaryRecords(
            folder,
            CanaryResult(
                canary_id="id", scenario="c", arm="candidate", baseline="baseline", environment="disposable",
                window_s=60, pooled_windows=12, dry_run=False, started="2026-11-30T00:00:00.000Z",
            ),
        )  # fmt: skip
        self.hooks.records = self.records

    def fail(self) -> None:
        """Three failing windows."""
        canary = Canary([ACCEPTANCE])
        for number in (1, 2, 3):
            window = CanaryWindow(number, 60.0 * number, 60.0 * number + 60, (FAILING,), (FAILING,))
            standing = canary.take(window)
            alert = self.records.window(standing)
            if alert is not None:
                self.hooks.changed(alert, standing)
            self.hooks.standing(standing)

    def calls(self) -> list[tuple[str, str, str]]:
        """As canary.json has them, the switch first."""
        kept = [(call.hook, call.result, call.detail) for call in read_canary(self.records.folder).calls]
        return sorted(kept, key=lambda call: call[0] != "switch")


@asynccontextmanager
async def failed(folder: Path, **keys: Any) -> AsyncIterator[Hooked]:
    hooked = Hooked(folder, **keys)
    hooked.hooks.start()
    hooked.fail()
    yield hooked
    await hooked.hooks.close(5)


def answering(status: bytes) -> Callable[..., bytes]:
    body = PLANTED.encode()
    return lambda _number, _headers: b"%s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (b"HTTP/1.1 500 no", "HTTP 500"),
        (b"HTTP/1.1 200 OK", "HTTP 200"),
        (f"no HTTP {PLANTED}".encode(), "no HTTP answer (RemoteProtocolError)"),
    ],
)
async def test_what_a_switch_or_receiver_answers_is_said_and_never_kept(
    status: bytes, expected: str, hostile: Callable[..., Any], tmp_path: Path
) -> None:
    """I6: everybody who may look at canaries reads canary.json: it has the kind of answer, and no word of it."""
    server = await hostile(misbehave=answering(status))
    call = {"url": f"{server.url}/v1/completions"}
    keys = {"switch": {"off": {"kind": "http", "body": {}, **call}}, "webhooks": [{**call, "tries": 1, "on": ["fail"]}]}
    async with failed(tmp_path / "c", **keys) as hooked:
        await until(lambda: len(hooked.calls()) == 2, "both were called")
    result = "delivered" if expected == "HTTP 200" else "failed"
    assert hooked.calls() == [("switch", result, expected), ("127.0.0.1", result, expected)]
    kept = "".join(file.read_text() for file in (tmp_path / "c").iterdir())
    kept += str(canary_tables(read_canary(tmp_path / "c").model_dump()))
    assert "HTTP" in kept
    assert PLANTED not in kept
    assert any(PLANTED in said and said.startswith("the kill switch") for said in hooked.said)


async def test_what_a_command_prints_is_said_and_never_kept(tmp_path: Path) -> None:
    """I6."""
    switch = {"off": {"kind": "command", "command": f"echo {PLANTED}; exit 3"}}
    async with failed(tmp_path / "c", switch=switch) as hooked:
        await until(lambda: hooked.calls(), "the switch was pulled")
    assert hooked.calls() == [("switch", "failed", "ended with status 3")]
    assert PLANTED not in (tmp_path / "c" / "canary.json").read_text()
    assert hooked.said == [f"the kill switch is not known to have worked: ended with status 3: {PLANTED}"]


async def test_a_pull_that_the_end_cuts_short_is_told_as_failed(tmp_path: Path) -> None:
    """Nothing is dropped silently: whether it worked is not known, and that it was pulled is."""
    pid = tmp_path / "pid"
    hooked = Hooked(tmp_path / "c", switch={"off": {"kind": "command", "command": f"echo $$ > {pid}; sleep 600"}})
    hooked.hooks.start()
    hooked.fail()
    await until(lambda: pid.exists() and pid.read_text().strip(), "the command runs")
    await hooked.hooks.close(0.05)
    assert hooked.calls() == [("switch", "failed", "the monitor ended before it was told whether it worked")]
    assert read_canary(tmp_path / "c").calls_by_result == {"failed": 1}
    assert hooked.metrics.value("canary_hook_calls_total", canary="c", hook="switch", result="failed") == 1
    assert hooked.said[-1].startswith("the kill switch is not known to have worked: the monitor ended before")
