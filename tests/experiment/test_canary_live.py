"""A canary on live engines: acceptance drifts, the third failing window fails, hooks are called once, it recovers."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadgen.control import CanaryStanding, CheckId
from loadgen.experiment import CanaryOptions, CanaryResult, Checks, read_canary, run_canary
from loadgen.export import Metrics
from loadgen.scenario import LoadedScenario, Scenario, Switch
from server_adapters.rehearsal.config import RehearsalConfig
from tests.experiment.canary_receiver import Receiver, receiving, until

KEY = bytes(range(32))
ACCEPTANCE = CheckId("acceptance", "probes")
OFF = dict.fromkeys(
    ("acceptance_ratio", "rollback", "speedup", "tpot_p50_ratio", "tpot_p95_ratio", "ttft_p95_ratio", "error_share")
)
Rehearsal = Callable[[RehearsalConfig], AbstractContextManager[str]]


@pytest.fixture(scope="module")
def engines(rehearsal: Rehearsal) -> Iterator[dict[str, str]]:
    with (
        rehearsal(RehearsalConfig(speed=20.0)) as baseline,
        rehearsal(RehearsalConfig(spec="draft:k=4", speed=20.0)) as candidate,
    ):
        yield {"baseline": baseline, "candidate": candidate}


def content(engines: dict[str, str], **keys: Any) -> dict[str, Any]:
    lengths = {"input_len": {"kind": "fixed", "value": 40}, "output_len": {"kind": "fixed", "value": 24}}
    return {
        "version": 1,
        "name": "canary",
        "environment": "disposable",
        "arms": {name: {"url": url} for name, url in engines.items()},
        "workload": {"endpoint": "completions", "tasks": [{"task_type": "code", **lengths}]},
        "load": [{"kind": "concurrency", "concurrency": 2, "cases": 100}],
        "scrape": {"interval_s": 0.2, "timeout_s": 2.0},
        "canary": keys,
    }


def probing(engines: dict[str, str], **keys: Any) -> LoadedScenario:
    """Windows of 2 s, some 24 pairs each, of which acceptance alone is watched."""
    probes = {
        "window_s": 2.0, "counters": False, "probes": {"requests_per_s": 40.0}, "grace_windows": 0,
        "least_draft_tokens": 50, "limits": {"acceptance": 0.4, **OFF},
    }  # fmt: skip
    return LoadedScenario(Scenario.model_validate(content(engines, **{**probes, **keys})), None, "")


class Watch:
    def __init__(self) -> None:
        self.standings: list[CanaryStanding] = []
        self.said: list[str] = []
        self.folder = Path()

    def begun(self, folder: Path, checks: Checks) -> None:
        self.folder = folder

    def window(self, standing: CanaryStanding) -> None:
        self.standings.append(standing)

    def say(self, text: str) -> None:
        self.said.append(text)

    def newest(self, state: str, after: int = 0) -> bool:
        return len(self.standings) > after and self.standings[-1].state == state

    def windows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "windows.jsonl").read_text().splitlines()]


class Running:
    """A monitor in a task. `ended()` stops it."""

    def __init__(self, loaded: LoadedScenario, out: Path, metrics: Metrics | None = None, **options: Any) -> None:
        self.watch = Watch()
        self._stopping = asyncio.Event()
        made = CanaryOptions(out, metrics=metrics, stopping=self._stopping, **options)
        self._task = asyncio.create_task(run_canary(loaded, made, self.watch))

    async def until(self, state: str, after: int = 0) -> int:
        """Windows so far, once the newest one is in this state."""

        def there() -> bool:
            if self._task.done():
                self._task.result()
            return self.watch.newest(state, after)

        await until(there, f"state {state}; {[s.state for s in self.watch.standings]}", 90)
        return len(self.watch.standings)

    async def ended(self) -> CanaryResult:
        self._stopping.set()
        folder, result = await self._task
        assert read_canary(folder) == result
        return result


async def control(url: str, path: str, **body: Any) -> None:
    async with httpx.AsyncClient() as client:
        (await client.post(f"{url}/rehearsal/{path}", json=body)).raise_for_status()


async def speculating(url: str) -> bool:
    async with httpx.AsyncClient() as client:
        return bool((await client.get(f"{url}/rehearsal/truth")).json()["speculation_enabled"])


def hooks(receiver: Receiver) -> dict[str, Any]:
    return {
        "webhooks": [{"url": receiver.url, "secret": {"env": "CANARY_HOOK_KEY"}}],
        "on_fail": "switch",
        "switch": {"off": {"kind": "adapter"}},
    }


async def test_drift_fails_on_the_third_window_pulls_the_switch_once_and_recovers(
    engines: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """METHOD "Verdict": three in a row. Beside it a dry run sees the same, calls nobody and pulls nothing.

    I1, I4: no key, and nothing of a webhook's URL but its host, in what is written."""
    monkeypatch.setenv("CANARY_HOOK_KEY", base64.b64encode(KEY).decode())
    candidate, metrics = engines["candidate"], Metrics()
    async with receiving() as receiver, receiving() as untold:
        placed: list[Switch] = []

        async def place(switch: Switch) -> Switch:
            """Asked once for each pull, and never by a dry run."""
            placed.append(switch)
            return switch

        real = Running(probing(engines, **hooks(receiver)), tmp_path / "real", metrics, place=place)
        dry = Running(probing(engines, **hooks(untold), dry_run=True), tmp_path / "dry", place=place)
        await asyncio.gather(real.until("ok"), dry.until("ok"))
        await control(candidate, "faults", name="draft_drift")
        failed_at = await real.until("fail")
        # the switch ends drafting: after three windows without drafts nothing is known
        blind_at = await real.until("no_data", failed_at)
        assert not await speculating(candidate)
        await control(candidate, "faults", clear=True)
        await control(candidate, "speculation", enabled=True)
        await real.until("ok", blind_at)
        result, of_dry = await asyncio.gather(real.ended(), dry.ended())
    windows = real.watch.windows()
    _failed_on_the_third(windows)
    fails = [told for told in receiver.told if told.event["data"]["state"] == "fail"]
    assert len(fails) == 1
    assert all(told.signed_by(KEY) for told in receiver.told)
    event = fails[0].event["data"]
    assert (event["before"], event["verdict"], event["arm"], event["baseline"]) == (
        "doubtful", "fail", "candidate", "baseline",
    )  # fmt: skip
    assert "acceptance (probes) failed in 3 windows in a row" in event["reasons"][0]
    ids = [told.headers["webhook-id"] for told in receiver.told]
    assert ids == [alert.id for alert in result.alerts]
    assert len(set(ids)) == len(ids)
    assert placed == [Switch.model_validate({"off": {"kind": "adapter"}})]
    switched = [call for call in result.calls if call.hook == "switch"]
    assert [(call.result, call.tries) for call in switched] == [("delivered", 1)]
    assert result.windows == len(windows) == sum(result.windows_by_state.values())
    assert not result.active
    assert metrics.value("canary_hook_calls_total", canary="canary", hook="switch", result="delivered") == 1
    assert metrics.value("canary_state", canary="canary", state="fail") == 0
    assert metrics.value("canary_active", canary="canary") == 0
    assert (metrics.value("canary_probes_total", canary="canary", arm="candidate", outcome="ok") or 0) > 100
    _dry_run_did_nothing(of_dry, dry.watch, untold)
    written = "".join(file.read_text() for file in real.watch.folder.iterdir()) + " ".join(real.watch.said)
    assert "planted-path-token" not in written
    assert base64.b64encode(KEY).decode() not in written


def _failed_on_the_third(windows: list[dict[str, Any]]) -> None:
    """Every fail begins at the third failing window in a row, and ends after three others."""
    results = [window["checks"][0]["result"] for window in windows]
    states = [window["state"] for window in windows]
    begun = [i for i, state in enumerate(states) if state == "fail" and states[i - 1] != "fail"]
    assert len(begun) == 1, list(zip(results, states, strict=True))
    assert results[begun[0] - 2 : begun[0] + 1] == ["fail"] * 3
    assert begun[0] < 3 or results[begun[0] - 3] != "fail"
    after = list(
        itertools.dropwhile(lambda pair: pair[0] == "fail", list(zip(results, states, strict=True))[begun[0] :])
    )
    assert [state for _, state in after[:3]] == ["fail", "fail", "no_data"]
    assert {result for result, _ in after[:3]} == {"no_data"}


def _dry_run_did_nothing(result: CanaryResult, watch: Watch, untold: Receiver) -> None:
    assert untold.told == []
    assert {call.result for call in result.calls} == {"dry_run"}
    assert [call.detail for call in result.calls if call.hook == "switch"] == [
        "would: ask the servers of the arm to switch speculation off (at most 10 s)"
    ]
    assert "the kill switch was not pulled (dry run)" in " ".join(watch.said)


async def test_an_idle_canary_by_counters_has_no_data(engines: dict[str, str], tmp_path: Path) -> None:
    """G15, G18, G19: nothing is asked of the servers, and nothing is known; series begin at 0 and stay at the end."""
    metrics = Metrics()
    loaded = LoadedScenario(Scenario.model_validate(content(engines, window_s=5.0, grace_windows=0)), None, "")
    running = Running(loaded, tmp_path, metrics)
    await running.until("no_data")
    result = await running.ended()
    assert (result.state, result.verdict, result.share) == ("no_data", "inconclusive", None)
    assert result.alerts == []
    states = {check.check: check.state for check in result.checks}
    assert states.pop("restarts") == "ok"
    assert set(states.values()) == {"no_data"}
    assert {entry["check"] for entry in result.not_checked} == {"acceptance_ratio"}
    assert metrics.value("canary_windows_total", canary="canary", state="no_data") == 1
    assert metrics.value("canary_windows_total", canary="canary", state="fail") == 0
    assert metrics.value("canary_check_value", canary="canary", check="acceptance", source="counters") is None
    assert metrics.value("draft_tokens_total", arm="candidate", task_type="all", source="server_window") == 0
    assert metrics.value("canary_end_timestamp_seconds", canary="canary") is not None


async def test_ctrl_c_ends_with_the_verdicts_code(
    engines: dict[str, str], cli: Callable[..., Awaitable[Any]], tmp_path: Path
) -> None:
    file = tmp_path / "canary.yaml"
    keys = {
        "window_s": 2.0, "counters": False, "probes": {"requests_per_s": 40.0}, "grace_windows": 0,
        "least_draft_tokens": 50, "limits": {"acceptance": 0.1, **OFF},
    }  # fmt: skip
    file.write_text(json.dumps(content(engines, **keys)))
    ended = await cli("canary", file, "--json", when="window 1:", signals=(signal.SIGINT,))
    found = json.loads(ended.out)
    assert (ended.code, found["verdict"], found["state"], found["windows"]) == (0, "pass", "ok", 1), ended.said
    assert found["kind"] == "canary"
    assert found["probes"]["candidate"].keys() == {"ok"}
    limits = {"acceptance": "null", "speedup": "1000"}
    ended = await cli("canary", file, "--for", "6s", *(f"--set=canary.limits.{k}={v}" for k, v in limits.items()))
    assert ended.code == 99, ended.said
    assert "state fail, verdict fail" in ended.out
