"""What rollout controllers are answered: tables, the documented payloads, and types that never change."""

from __future__ import annotations

import base64
import time
from typing import Any, get_args

import pytest

from loadgen.experiment import CanaryResult
from loadgen.service.registry import RunRow, RunState
from loadgen.service.rollouts import CODES, FlaggerHook, Outcome, flagger_answer, of_canary, of_run
from tests.service.conftest import TOKENS, InProcess, MakeInside, Served

#: Flagger's documented payload, with what specload needs in its metadata.
PODINFO: dict[str, Any] = {
    "name": "podinfo",
    "namespace": "test",
    "phase": "Progressing",
    "checksum": "85d557f47b",
    "metadata": {"test": "all", "token": "16688eb5e9f289f1991c", "scenario": "small"},
}
#: And its documented event.
EVENT: dict[str, Any] = {
    "name": "podinfo",
    "namespace": "test",
    "phase": "Progressing",
    "metadata": {
        "eventMessage": "Advance podinfo.test canary weight 10",
        "eventType": "Normal",
        "timestamp": "1578607635167",
    },
}
HOOKS = get_args(FlaggerHook)


def row(state: RunState, verdict: str | None = None, exit_code: int | None = None) -> RunRow:
    return RunRow(1, "r", "small", state, "", verdict=verdict, exit_code=exit_code)


@pytest.mark.parametrize(
    ("state", "verdict", "code", "word"),
    [
        (RunState.QUEUED, None, None, "running"),
        (RunState.RUNNING, None, None, "running"),
        (RunState.FINISHED, "pass", 0, "pass"),
        (RunState.FINISHED, "fail", 99, "fail"),
        (RunState.FINISHED, "inconclusive", 98, "inconclusive"),
        (RunState.FINISHED, "pass", 98, "inconclusive"),  # an invalid measurement
        (RunState.FINISHED, None, 0, "inconclusive"),  # nothing was to be judged
        (RunState.INTERRUPTED, None, 130, "inconclusive"),
        (RunState.FAILED, None, 3, "inconclusive"),  # refused before any load
        (RunState.STOPPED, "fail", 99, "fail"),  # by a threshold with abort_on_fail
        (RunState.DELETED, None, None, "inconclusive"),
    ],
)
def test_only_a_verdict_is_a_pass(state: RunState, verdict: str | None, code: int | None, word: str) -> None:
    """G15: what was not shown is inconclusive, whatever kept it from being shown."""
    found = of_run(row(state, verdict, code))
    assert found.word == word
    assert found.reason


def canary(**known: Any) -> CanaryResult:
    base: dict[str, Any] = {
        "canary_id": "c", "scenario": "small", "arm": "candidate", "baseline": "baseline", "environment": "staging",
        "window_s": 300.0, "pooled_windows": 12, "dry_run": False, "started": "2026-11-30T07:00:00.000Z",
    }  # fmt: skip
    return CanaryResult.model_validate({**base, **known})


def test_a_canarys_verdict_is_one_of_now() -> None:
    """A monitor that has ended, or hangs, says nothing of this rollout."""
    ended = "2026-11-30T08:00:00.000Z"
    now_s = 1796025600.0  # the same moment
    good = canary(window_ended=ended, verdict="pass", state="ok", reasons=[], windows=12)
    assert of_canary(good, now_s + 300) == Outcome("pass", "every check is shown to keep its limit")
    assert of_canary(good, now_s + 901).word == "inconclusive"
    assert "901 s ago" in of_canary(good, now_s + 901).reason
    assert of_canary(canary(started=ended), now_s).word == "running"
    assert of_canary(canary(active=False), now_s).word == "inconclusive"
    bad = canary(window_ended=ended, verdict="fail", state="fail", reasons=["a", "b", "c", "d"])
    assert of_canary(bad, now_s) == Outcome("fail", "a; b; c")


ENDED, NOW_S = "2026-11-30T08:00:00.000Z", 1796025600.0


@pytest.mark.parametrize(
    ("known", "age_s", "word", "said"),
    [
        ({"active": False, "ended": ENDED, "verdict": "pass"}, 10, "inconclusive", "watching has ended"),
        ({"active": False, "verdict": "pass"}, 10, "inconclusive", "its monitor has died"),
        ({"active": False, "verdict": "fail", "reasons": ["a"]}, 10, "fail", "a"),
        ({"active": False, "verdict": "fail"}, 901, "inconclusive", "901 s ago"),
        ({"window_ended": None, "started": ENDED}, 899, "running", "no window has ended yet"),
        ({"window_ended": None, "started": ENDED}, 901, "inconclusive", "watching began 901 s ago"),
        ({"window_ended": None, "started": ENDED, "active": False}, 10, "inconclusive", "its monitor has died"),
    ],
)
def test_nobody_watches_any_more(known: dict[str, Any], age_s: float, word: str, said: str) -> None:
    """A monitor that has ended or died passes nothing; a fail that it has seen stays one while it is of now. One that
    never ends a window is not waited for for ever."""
    found = of_canary(canary(**{"window_ended": ENDED, "state": "ok", **known}), NOW_S + age_s)
    assert found.word == word
    assert said in found.reason


def statuses(word: str, *, go: bool = False) -> dict[str, int]:
    outcome = None if word == "none" else Outcome(word, "why")  # type: ignore[arg-type]
    return {hook: flagger_answer(hook, outcome, go_inconclusive=go)[0] for hook in HOOKS}


@pytest.mark.parametrize(
    ("word", "go", "gate", "rollout", "rollback"),
    [
        ("running", False, 409, 202, 409),
        ("pass", False, 200, 200, 409),
        ("fail", False, 412, 412, 200),
        ("fail", True, 412, 412, 200),
        ("inconclusive", False, 412, 412, 409),
        ("inconclusive", True, 200, 200, 409),
        ("none", True, 409, 409, 409),
    ],
)
def test_flaggers_hooks(word: str, go: bool, gate: int, rollout: int, rollback: int) -> None:
    """Gates wait, the others go on while nothing is known; rollback is the other way round; 200 and 202 alone go on."""
    assert statuses(word, go=go) == {
        "confirm-rollout": gate,
        "pre-rollout": rollout,
        "rollout": rollout,
        "confirm-traffic-increase": gate,
        "confirm-promotion": gate,
        "rollback": rollback,
        "post-rollout": 200,
        "event": 200,
    }


async def flagger(service: InProcess, hook: str, payload: dict[str, Any] = PODINFO, **more: Any) -> Any:
    return await service.ask("POST", f"/api/v1/hooks/flagger/{hook}", json=payload, **more)


async def test_flagger_starts_once_for_each_revision_and_does_not_wait(inside: MakeInside) -> None:
    async with inside() as service:
        begun = time.monotonic()
        first = await flagger(service, "pre-rollout")
        assert time.monotonic() - begun < 30
        assert (first.status_code, first.headers["content-type"]) == (202, "text/plain; charset=utf-8"), first.text
        for hook in ("pre-rollout", "rollout", "confirm-promotion", "rollback"):
            assert (await flagger(service, hook)).status_code in (202, 409, 412)
        runs = (await service.ask("GET", "/api/v1/runs")).json()["runs"]
        assert [run["scenario"] for run in runs] == ["small"]
        await flagger(service, "pre-rollout", {**PODINFO, "checksum": "another"})
        assert len((await service.ask("GET", "/api/v1/runs")).json()["runs"]) == 2
        audited = (await service.ask("GET", "/api/v1/audit")).json()["entries"]
        assert any("pre-rollout of test/podinfo, phase Progressing" in (one["detail"] or "") for one in audited)


async def test_flaggers_events_and_rollbacks_start_nothing(inside: MakeInside) -> None:
    async with inside() as service:
        assert (await flagger(service, "event", EVENT)).status_code == 200
        assert (await flagger(service, "post-rollout", EVENT)).status_code == 200
        rollback = await flagger(service, "rollback")
        assert (rollback.status_code, rollback.text) == (409, "no run was asked for\n")
        assert (await service.ask("GET", "/api/v1/runs")).json()["runs"] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metadata": {}}, "metadata.scenario"),
        ({"metadata": {"scenario": "small", "inconclusive": "maybe"}}, "metadata.inconclusive"),
        ({"metadata": {"scenario": "small", "time_budget_s": "soon"}}, "metadata.time_budget_s"),
        ({"checksum": ""}, "neither checksum nor metadata.key"),
        ({"metadata": {"scenario": "small", "arm.base": "nowhere"}}, "nowhere"),
        ({"metadata": {"scenario": "none-such"}}, "none-such"),
    ],
)
async def test_what_flagger_sends_wrong_is_said_and_never_a_go(
    inside: MakeInside, change: dict[str, Any], said: str
) -> None:
    """I6, and: a slip in the configuration must not let a canary through."""
    async with inside() as service:
        answer = await flagger(service, "confirm-promotion", {**PODINFO, **change})
        assert 400 <= answer.status_code < 500
        assert said in answer.text


async def test_flagger_can_say_who_it_is_in_the_url(inside: MakeInside) -> None:
    """Its webhooks send no headers of ours: https://flagger:TOKEN@host is basic authentication. Nowhere else."""
    basic = {"Authorization": "Basic " + base64.b64encode(f"flagger:{TOKENS['ops']}".encode()).decode()}
    wrong = {"Authorization": "Basic " + base64.b64encode(b"flagger:no").decode()}
    async with inside() as service:
        assert (await flagger(service, "event", EVENT, who=None, headers=basic)).status_code == 200
        for headers in (wrong, {"Authorization": "Basic !"}):
            assert (await flagger(service, "event", EVENT, who=None, headers=headers)).status_code == 401
        assert (await service.ask("GET", "/api/v1/runs", who=None, headers=basic)).status_code == 401
        assert (await flagger(service, "event", EVENT, who="eye")).status_code == 403


ARGO = {"key": "vllm-6d5f7c9b8d", "scenario": "small"}


def conditions_hold(told: dict[str, Any]) -> list[bool]:
    """The conditions of examples/argo, on a value as Argo has it: text or number, never null."""
    assert {type(value) for value in told.values()} <= {str, int}
    assert told["code"] == CODES[told["verdict"]]
    return [told["verdict"] == "pass", told["verdict"] == "fail"]


async def test_argo_asks_once_and_then_after_it(inside: MakeInside) -> None:
    """G17: the same types whatever the state; neither condition holds while nothing is known."""
    async with inside() as service:
        first = await service.ask("POST", "/api/v1/hooks/argo", json=ARGO)
        assert first.status_code == 200, first.text
        again = await service.ask("POST", "/api/v1/hooks/argo", json=ARGO)
        assert again.json()["id"] == first.json()["id"]
        assert conditions_hold(first.json()) == [False, False]
        one = await service.ask("GET", f"/api/v1/hooks/argo/runs/{first.json()['id']}", who="eye")
        assert one.json().keys() == first.json().keys()
        other = await service.ask("POST", "/api/v1/hooks/argo", json={**ARGO, "time_budget_s": 60})
        assert (other.status_code, other.json()["detail"]) == (409, "this Idempotency-Key was used for another request")
        assert (await service.ask("POST", "/api/v1/hooks/argo", who="eye", json=ARGO)).status_code == 403


async def test_canaries_of_the_folder(inside: MakeInside) -> None:
    async with inside() as service:
        runs = service.service.config.folders.runs
        for hour, word in (("07", "fail"), ("08", "pass")):
            name = f"20261130T{hour}0000Z-small-canary-{hour * 3}"
            ended = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
            found = canary(canary_id=name, verdict=word, state="ok", reasons=[], window_ended=ended, started=ended)
            (runs / name).mkdir(parents=True)
            (runs / name / "canary.json").write_text(found.model_dump_json(by_alias=True))
        (runs / "20261130T090000Z-small-canary-090909").mkdir()
        (runs / "20261130T090000Z-small-canary-090909" / "canary.json").write_text("{")
        told = (await service.ask("GET", "/api/v1/hooks/argo/canaries/small", who="eye")).json()
        assert (told["verdict"], told["id"][-6:]) == ("pass", "080808")
        assert conditions_hold(told) == [True, False]
        listed = (await service.ask("GET", "/api/v1/canaries", who="eye")).json()["canaries"]
        assert [one["canary_id"][-6:] for one in listed] == ["080808", "070707"]
        one = await service.ask("GET", f"/api/v1/canaries/{listed[1]['canary_id']}", who="eye")
        assert one.json() == listed[1]
        assert (await service.ask("GET", "/api/v1/hooks/argo/canaries/nothing")).status_code == 404
        assert (await service.ask("GET", "/api/v1/canaries/..%2F..", who="eye")).status_code in (404, 422)


def test_real_runs_to_their_end_by_both_doors(served: Served) -> None:
    """Rollouts as Argo and Flagger would see them, on rehearsal engines: asked for, running, judged."""
    asked = {**PODINFO, "metadata": {"scenario": "small", "arm.base": "two"}}

    def said(hook: str) -> int:
        return served.ask("POST", f"/api/v1/hooks/flagger/{hook}", json=asked).status_code

    def argo() -> dict[str, Any]:
        answer = served.ask("POST", "/api/v1/hooks/argo", json=ARGO)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        conditions_hold(found)
        return found

    argo()
    assert said("pre-rollout") == 202
    assert said("confirm-promotion") == 409
    served.until(lambda: argo()["verdict"] != "running", "Argo's run is over")
    served.until(lambda: said("rollout") != 202, "Flagger's run is over")
    # one arm without thresholds: nothing was judged, and that is no pass
    assert (argo()["state"], argo()["verdict"], argo()["code"]) == ("finished", "inconclusive", -1)
    assert [said(hook) for hook in ("rollout", "confirm-promotion", "rollback")] == [412, 412, 409]
