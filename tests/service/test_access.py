"""Every route × every role; sessions and CSRF; limits; what an answer says and does not say."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from loadgen.service.api.base import Authorized
from loadgen.service.api.login import local_path
from loadgen.service.app import routes
from loadgen.service.registry import Registry
from loadgen.service.roles import ACCESS, Access
from loadgen.service.runner import queue
from tests.service.conftest import TOKENS, InProcess, MakeInside, scenario

PATHS = {"{name}": "nothing", "{run_id}": "nothing", "{version}": "0", "{canary_id}": "nothing", "{hook}": "event"}
ALL = sorted(ACCESS)


def filled(path: str) -> str:
    return re.sub(r"\{\w+\}", lambda found: PATHS[found[0]], path)


def test_every_route_is_in_the_table_and_goes_through_the_check() -> None:
    found = {(method, route.path) for route in routes() for method in route.methods}
    assert found == set(ACCESS)
    for route in routes():
        assert isinstance(route, Authorized), route.path


async def test_every_route_by_every_role(inside: MakeInside) -> None:
    """Who may not is told so before anything is looked at; who may, is not."""
    async with inside() as service:
        for method, path in ALL:
            access = ACCESS[method, path]
            for who in (None, "eye", "ops"):
                answer = await service.ask(method, filled(path), who)
                if who is None and access not in (Access.OPEN,):
                    expected: set[int] = {401}
                elif who == "eye" and access is Access.OPERATOR:
                    expected = {403}
                else:
                    assert answer.status_code not in (401, 403) or path == "/login", (method, path, who)
                    continue
                assert answer.status_code in expected, (method, path, who, answer.text)
                assert answer.headers["content-type"] == "application/problem+json"


async def test_every_route_by_every_role_with_a_session(inside: MakeInside) -> None:
    """A role is asked for first, then the CSRF token of what changes something, then what is wanted."""
    async with inside() as service:
        for who in ("eye", "ops"):
            service.client.cookies.clear()
            await login(service, who)
            for method, path in ALL:
                if path == "/login":
                    continue
                access = ACCESS[method, path]
                answer = await service.client.request(method, filled(path))
                kind = answer.json().get("type") if answer.status_code == 403 else None
                if who == "eye" and access is Access.OPERATOR:
                    assert kind == "urn:specload:problem:not-allowed", (method, path, answer.text)
                elif method != "GET":
                    assert kind == "urn:specload:problem:csrf", (method, path, answer.text)
                else:
                    assert answer.status_code not in (401, 403), (method, path, answer.text)
                    continue
                csrf = {"X-CSRF-Token": service.client.cookies["specload_csrf"]}
                answer = await service.client.request(method, filled(path), headers=csrf)
                refused = who == "eye" and access is Access.OPERATOR
                assert (answer.status_code in (401, 403)) == refused, (method, path)
                if path == "/logout":
                    service.client.cookies.clear()
                    await login(service, who)


async def test_a_wrong_token_is_nobody_and_is_written_down(inside: MakeInside) -> None:
    async with inside() as service:
        for header in (f"Bearer {TOKENS['eye']}x", "Bearer", "Basic b3BzOm9wcw==", "Bearer sl_ops_\xff"):
            answer = await service.client.get("/api/v1/me", headers={"Authorization": header.encode("latin-1")})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert "send Bearer TOKEN in the header Authorization" in answer.json()["detail"]  # no mask ate it
        assert (await service.ask("GET", "/api/v1/me", "eye")).json() == {"name": "eye", "role": "viewer"}
        rows = service.service.registry.audit.select()
        assert {(row.who, row.action, row.address) for row in rows} == {("unknown", "login.refused", "127.0.0.1")}
        assert len(rows) == 3  # what is no bearer token was never compared
        assert not any(TOKENS["eye"] in json.dumps([row.detail, row.subject]) for row in rows)


async def test_a_body_that_is_not_said_to_be_json(inside: MakeInside) -> None:
    async with inside() as service:
        answer = await service.ask("POST", "/api/v1/runs", content=b'{"scenario": "small"}')
        assert answer.status_code == 422
        assert answer.json()["problems"] == [
            "body: is not said to be JSON: send the header Content-Type: application/json"
        ]
        headers = {"Content-Type": "application/json"}
        answer = await service.ask("POST", "/api/v1/runs", content=b"[]", headers=headers)
        assert (answer.status_code, "Content-Type" in answer.text) == (422, False)


async def test_unknown_paths_and_methods_say_nothing_of_the_inside(inside: MakeInside) -> None:
    async with inside() as service:
        for method, path, status in (("GET", "/nothing", 404), ("PATCH", "/api/v1/runs", 405), ("GET", "/../etc", 404)):
            answer = await service.ask(method, path)
            assert (answer.status_code, answer.json()["status"]) == (status, status)
            assert answer.headers["content-type"] == "application/problem+json"


async def test_metrics_may_be_open(inside: MakeInside) -> None:
    async with inside(metrics={"open": True}) as service:
        for path in ("/metrics", "/sd"):
            assert (await service.ask("GET", path, None)).status_code == 200
        assert (await service.ask("GET", "/api/v1/runs", None)).status_code == 401


async def login(service: InProcess, who: str = "ops", **more: Any) -> httpx.Response:
    return await service.client.post("/login", data={"token": TOKENS[who], "next": "/x"}, **more)


async def test_a_browser_logs_in_and_changes_things_only_with_its_csrf_token(inside: MakeInside) -> None:
    async with inside() as service, inside() as _other:
        client = service.client
        answer = await login(service)
        assert (answer.status_code, answer.headers["location"]) == (303, "/x")
        cookies = answer.headers.get_list("set-cookie")
        assert "specload_session=" in cookies[0]
        assert "HttpOnly" in cookies[0]
        assert all("SameSite=strict" in cookie for cookie in cookies)
        assert "HttpOnly" not in cookies[1]
        assert (await client.get("/api/v1/me")).json()["name"] == "ops"
        token = client.cookies["specload_csrf"]
        change = "/api/v1/scenarios/nothing"
        for headers in ({}, {"X-CSRF-Token": "x"}, {"X-CSRF-Token": token, "Origin": "http://evil.example"},
                        {"X-CSRF-Token": token, "Sec-Fetch-Site": "cross-site"}):  # fmt: skip
            refused = await client.delete(change, headers=headers)
            assert (refused.status_code, refused.json()["type"]) == (403, "urn:specload:problem:csrf")
        fine = {"X-CSRF-Token": token, "Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
        assert (await client.delete(change, headers=fine)).status_code == 404
        assert service.service.metrics.value("service_refused_total", reason="csrf") == 4
        assert (await client.post("/logout", data={"csrf_token": "x"})).status_code == 403
        assert (await client.post("/logout", data={"csrf_token": token})).status_code == 303
        assert (await client.get("/api/v1/me")).status_code == 401
        actions = [(row.who, row.action, row.status) for row in service.service.registry.audit.select()]
        delete = "DELETE /api/v1/scenarios/{name}"
        assert actions == [
            ("ops", "POST /logout", 303), ("ops", "POST /logout", 403), ("ops", delete, 404),
            *[("ops", delete, 403)] * 4, ("ops", "POST /login", 303),
        ]  # fmt: skip


async def test_one_sessions_csrf_token_is_no_others(inside: MakeInside) -> None:
    async with inside() as service:
        await login(service, "ops")
        first = service.client.cookies["specload_csrf"]
        service.client.cookies.clear()
        await login(service, "ops")
        answer = await service.client.delete("/api/v1/scenarios/nothing", headers={"X-CSRF-Token": first})
        assert answer.status_code == 403


async def test_a_refused_login_sets_no_cookie_and_shows_no_token(inside: MakeInside) -> None:
    async with inside() as service:
        answer = await service.client.post("/login", data={"token": "<script>secret", "next": '"><script>'})
        assert answer.status_code == 401
        assert not answer.cookies
        assert "secret" not in answer.text
        assert "<script>" not in answer.text
        assert (await login(service, headers={"Origin": "http://evil.example"})).status_code == 403
        assert (await service.client.post("/login", content=b"\xff" * 10)).status_code == 401
        assert [row.action for row in service.service.registry.audit.select()] == ["login.refused"] * 2


@pytest.mark.parametrize("away", ["//evil.example", "https://evil.example", "/\\evil.example", "", "x", "/a\nb", "/ü"])
def test_a_login_leads_nowhere_else(away: str) -> None:
    assert local_path(away) == "/"
    assert local_path("/runs?state=queued") == "/runs?state=queued"


async def test_cookies_are_for_tls_only_where_there_is_tls(inside: MakeInside) -> None:
    async with inside(listen={"port": 0, "behind_tls_proxy": True}) as service:
        cookies = (await login(service)).headers.get_list("set-cookie")
        assert cookies[0].startswith("__Host-specload_session=")
        assert all("Secure" in cookie for cookie in cookies)
        assert "strict-transport-security" in (await service.ask("GET", "/health")).headers


async def test_another_name_than_ours_is_not_answered(inside: MakeInside) -> None:
    """I7: a page of elsewhere whose name leads to this address gets nothing."""
    async with inside(listen={"port": 0, "hostnames": ["specload.example"]}) as service:
        for host, status in (
            ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("127.0.0.1:80", 200), ("localhost:8080", 200),
            ("specload.example", 200), ("SPECLOAD.example:443", 200), ("[::1]:8080", 200), ("", 421),
        ):  # fmt: skip
            answer = await service.client.get("/health", headers={"Host": host})
            assert answer.status_code == status, host


async def test_bodies_are_limited_before_they_are_read(inside: MakeInside) -> None:
    async with inside(limits={"body_bytes": 1024}) as service:
        path = "/api/v1/scenarios/big"
        assert (await service.ask("PUT", path, content=b"x" * 1025)).status_code == 413
        pieces = 0

        async def endless() -> Any:
            nonlocal pieces
            while True:
                pieces += 1
                yield b"x" * 512

        assert (await service.ask("PUT", path, content=endless())).status_code == 413
        assert pieces < 10
        for length in ("-1", "x", "9" * 30):
            answer = await service.ask("PUT", path, content=b"x", headers={"Content-Length": length})
            assert answer.status_code == 413
        assert (await service.ask("PUT", path, content=b"x" * 1024)).status_code == 422


async def test_one_token_asks_so_often_and_no_other_suffers(inside: MakeInside) -> None:
    async with inside(limits={"requests_per_minute": 3}) as service:
        codes = [(await service.ask("GET", "/api/v1/me", "eye")).status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        again = await service.ask("GET", "/api/v1/me", "eye")
        assert 1 <= int(again.headers["retry-after"]) <= 21
        assert (await service.ask("GET", "/api/v1/me", "ops")).status_code == 200


async def test_guessing_is_slowed_by_address(inside: MakeInside) -> None:
    """And who is known already goes on."""
    async with inside(limits={"failures_per_minute": 3}) as service:
        assert (await service.ask("GET", "/api/v1/me", "eye")).status_code == 200
        wrong = {"Authorization": "Bearer sl_ops_guess"}
        codes = [(await service.client.get("/api/v1/me", headers=wrong)).status_code for _ in range(5)]
        assert codes == [401, 401, 401, 429, 429]
        assert (await service.client.post("/login", data={"token": "sl_ops_guess"})).status_code == 429
        assert (await service.ask("GET", "/api/v1/me", "eye")).status_code == 200
        assert (await service.ask("GET", "/api/v1/me", "ops")).status_code == 429
        assert len(service.service.registry.audit.select()) == 3


async def test_guesses_at_once_are_no_more_than_guesses_in_a_row(inside: MakeInside) -> None:
    """What is being compared counts already: else a burst is compared whole, at the price of a hash each."""
    async with inside(limits={"failures_per_minute": 3}) as service:
        wrong = [{"Authorization": f"Bearer sl_ops_guess{i}"} for i in range(12)]
        answers = await asyncio.gather(*(service.client.get("/api/v1/me", headers=one) for one in wrong))
        assert sorted(answer.status_code for answer in answers) == [401] * 3 + [429] * 9
        assert len(service.service.registry.audit.select()) == 3


async def test_webhooks_and_headers_of_the_folder_are_masked(inside: MakeInside, tmp_path: Path) -> None:
    """I4: a webhook's URL may hold its token in its path, and a switch's headers are secret."""
    off = {"kind": "http", "url": "http://gate/off", "headers": {"X-Gate": "open-sesame"}}
    hooks = [{"url": "https://hooks.example/services/T0/planted-1"}]
    text = scenario(canary={"webhooks": hooks, "switch": {"off": off}}, drill={"switch": {"off": off}})
    async with inside() as service:
        (tmp_path / "scenarios" / "canary.yaml").write_text(text)
        shown = (await service.ask("GET", "/api/v1/scenarios/canary", "eye")).json()["text"]
        assert "planted-1" not in shown
        assert "open-sesame" not in shown
        assert "http://gate/off" in shown


@pytest.mark.parametrize(
    "more",
    ['"overrides": {"seed": 1000000000000000000000}', '"overrides": {"description": "\\ud800"}',
     '"overrides": {"\\ud800": 1}', '"arms": {"\\ud800": "one"}', '"\\ud800": 1'],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/api/v1/runs", "/api/v1/scenarios/validate", "/api/v1/hooks/argo"])
async def test_what_cannot_be_kept_is_refused(inside: MakeInside, path: str, more: str) -> None:
    async with inside() as service:
        key = '"key": "k", ' if path.endswith("argo") else ""
        body = f'{{"scenario": "small", {key}{more}}}'.encode()
        answer = await service.ask("POST", path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422, answer.text


async def test_the_queue_outlives_a_registry_that_takes_no_writes(
    inside: MakeInside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk for a while: runs wait, and are started afterwards."""

    async def resolver(_host: str, _port: int) -> list[str]:
        return ["169.254.169.254"]

    monkeypatch.setattr(queue, "RETRY_S", 0.01)
    async with inside(resolver, targets={"one": {"url": "http://model.example"}}) as service:
        runs = service.service.registry.runs
        move, failed = runs.move, []

        def full(*values: Any, **more: Any) -> Any:
            if len(failed) < 2:
                failed.append(values)
                raise sqlite3.OperationalError("database or disk is full")
            return move(*values, **more)

        monkeypatch.setattr(runs, "move", full)
        service.service.runner.asked(runs.add("r", "small", arms={"base": "one"}, scenario_text="x"))
        async with asyncio.timeout(60):
            while not runs.one("r").state.over:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert len(failed) == 2


async def test_every_answer_forbids_what_it_does_not_need(inside: MakeInside) -> None:
    async with inside() as service:
        for path in ("/health", "/nothing", "/api/v1/runs", "/login", "/metrics"):
            headers = (await service.ask("GET", path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert "unsafe-inline" not in headers["content-security-policy"]
            assert "server" not in headers


async def test_invalid_requests_say_where_and_never_what_was_sent(inside: MakeInside) -> None:
    """I1: a value in the wrong place may be a secret."""
    async with inside() as service:
        for body in (
            b"",
            b"[",
            b'{"scenario": "planted secret!"}',
            b'{"api_key": "planted"}',
            b'{"scenario": 3}',
        ):
            answer = await service.ask(
                "POST", "/api/v1/runs", content=body, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 422
            assert "planted" not in answer.text
            assert answer.json()["problems"]


async def test_a_fault_of_ours_is_a_problem_without_a_stack(
    inside: MakeInside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """I6: the answer says that something went wrong; the log says what, masked."""
    target = {"url": "http://127.0.0.1:9", "headers": {"X-Key": "planted-secret"}}
    async with inside(targets={"one": target}) as service:

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("the key is planted-secret")

        monkeypatch.setattr(service.service.shelf, "listed", fail)
        with caplog.at_level(logging.ERROR):
            answer = await service.ask("GET", "/api/v1/scenarios")
    assert (answer.status_code, answer.json()["detail"]) == (500, "internal error of the service; see its log")
    assert "planted" not in answer.text + caplog.text
    assert "the key is ***" in caplog.text


async def test_what_cannot_be_written_down_is_not_done_unseen(
    inside: MakeInside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with inside() as service:

        def full(*_: object, **__: object) -> None:
            raise sqlite3.OperationalError("disk is full")

        monkeypatch.setattr(service.service.registry.audit, "add", full)
        answer = await service.ask("DELETE", "/api/v1/scenarios/nothing")
        assert answer.status_code == 500
        assert (await service.ask("GET", "/api/v1/runs")).status_code == 200


async def test_ready_says_why_not(inside: MakeInside) -> None:
    async with inside() as service:
        assert (await service.ask("GET", "/ready", None)).json() == {
            "ready": True, "problems": [], "queued": 0, "running": 0
        }  # fmt: skip
        service.service.config.folders.runs.rmdir()
        answer = await service.ask("GET", "/ready", None)
        assert answer.status_code == 503
        assert answer.json()["problems"] == ["the folder of runs is not there"]


async def test_the_description_names_every_route_with_examples(inside: MakeInside) -> None:
    async with inside() as service:
        found = (await service.ask("GET", "/api/v1/openapi.json", "eye")).json()
    described = {(m.upper(), path) for path, item in found["paths"].items() for m in item}
    told = {(method, route.path) for route in routes() for method in route.methods if route.include_in_schema}
    assert described == told
    assert {(m, p) for m, p in set(ACCESS) - told if p.startswith("/api/")} == {("GET", "/api/v1/openapi.json")}
    schemas = found["components"]["schemas"]
    assert schemas["RunStart"]["examples"][0]["scenario"] == "quickstart"
    assert schemas["RunOut"]["examples"][0]["verdict"] == "pass"
    for path, item in found["paths"].items():
        for method, operation in item.items():
            assert "application/problem+json" in operation["responses"]["default"]["content"], (method, path)
            assert operation["summary"]


async def test_scenarios_are_uploaded_listed_and_deleted(inside: MakeInside) -> None:
    async with inside() as service:
        text = scenario(description="mine")
        yaml = {"Content-Type": "application/yaml"}
        first = await service.ask("PUT", "/api/v1/scenarios/mine", content=text, headers=yaml)
        again = await service.ask("PUT", "/api/v1/scenarios/mine", content=text, headers=yaml)
        assert (first.status_code, again.status_code) == (201, 200)
        assert (first.json()["source"], first.json()["arms"]) == ("uploaded", {"base": "one"})
        assert (await service.ask("GET", "/api/v1/scenarios/mine", "eye")).json()["text"] == text
        assert [s["name"] for s in (await service.ask("GET", "/api/v1/scenarios")).json()["scenarios"]] == [
            "small",
            "mine",
        ]
        own = await service.ask("PUT", "/api/v1/scenarios/small", content=text, headers=yaml)
        assert (own.status_code, own.json()["type"]) == (409, "urn:specload:problem:not-yours")
        bad = await service.ask("PUT", "/api/v1/scenarios/bad", content="a: [", headers=yaml)
        assert (bad.status_code, bad.json()["problems"][0][:11]) == (422, "bad.yaml:1:")
        assert (await service.ask("DELETE", "/api/v1/scenarios/mine")).status_code == 204
        assert (await service.ask("DELETE", "/api/v1/scenarios/mine")).status_code == 404


async def test_urls_of_targets_are_checked_when_they_are_asked(inside: MakeInside) -> None:
    """I8: "test connection", too: the name leads inside, and nothing is connected to."""

    async def resolver(_host: str, _port: int) -> list[str]:
        return ["169.254.169.254"]

    async with inside(resolver, targets={"one": {"url": "http://model.example"}}) as service:
        found = (await service.ask("POST", "/api/v1/targets/one/check")).json()
        assert not found["usable"]
        assert "model.example is at 169.254.169.254, a metadata address" in found["reason"]
        row = service.service.registry.runs.add("r", "small", arms={"base": "one"}, scenario_text="x")
        service.service.runner.asked(row)
        async with asyncio.timeout(60):
            while not (ended := service.service.registry.runs.one("r")).state.over:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (ended.state, ended.exit_code) == ("failed", 3)
        assert "a metadata address" in (ended.reason or "")


async def test_a_target_that_has_two_addresses_is_one(inside: MakeInside) -> None:
    """Its name leads to another address with every look: two runs of it are not driven at once all the same."""
    turn = itertools.cycle(("127.0.0.1", "127.0.0.2"))

    async def resolver(_host: str, _port: int) -> list[str]:
        return [next(turn)]

    target = {"url": "http://model.example:9", "environment": "disposable"}
    async with inside(resolver, targets={"one": target}, limits={"at_once": 2}) as service:
        runs, runner, over = service.service.registry.runs, service.service.runner, []
        text = scenario()
        runner.on_over.append(lambda row: over.append((row.id, [runs.one(name).state.value for name in "ab"])))
        rows = [runs.add(name, "small", arms={"base": "one"}, scenario_text=text) for name in "ab"]
        for row in rows:
            runner.asked(row)
        async with asyncio.timeout(120):
            while len(over) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert over == [("a", ["failed", "queued"]), ("b", ["failed", "failed"])]


async def test_streams_are_limited(inside: MakeInside) -> None:
    """In all, and of one token; a slot that was left is free."""
    limits = {"watchers": 3, "watchers_per_token": 2, "requests_per_minute": 1000}
    async with inside(limits=limits) as service:
        watching, path = service.service.watching, "/api/v1/runs/r/events"
        service.service.registry.runs.add("r", "small", state="failed")
        for _ in range(2):
            watching.take("eye")
        mine = await service.ask("GET", path, "eye")
        assert (mine.status_code, mine.json()["detail"]) == (
            429, "eye has 2 streams open, and may have no more (limits.watchers_per_token)",
        )  # fmt: skip
        assert (await service.ask("GET", path, "ops")).status_code == 200
        watching.take("ops")
        full = await service.ask("GET", path, "ops")
        assert (full.status_code, full.json()["type"]) == (503, "urn:specload:problem:too-many-watchers")
        assert full.headers["retry-after"]
        watching.leave("eye")
        assert (await service.ask("GET", path, "eye")).status_code == 200
        assert (await service.ask("GET", "/api/v1/runs/none/events", "eye")).status_code == 404
        assert watching.open == 2


async def test_the_queue_is_limited(inside: MakeInside, monkeypatch: pytest.MonkeyPatch) -> None:
    async with inside(limits={"queued": 1}) as service:
        monkeypatch.setattr(service.service.registry.runs, "count", lambda: {"queued": 1})
        answer = await service.ask("POST", "/api/v1/runs", json={"scenario": "small"})
        assert (answer.status_code, answer.json()["type"]) == (429, "urn:specload:problem:queue-full")
        assert answer.headers["retry-after"]


async def test_what_is_not_kept_goes_at_the_start(inside: MakeInside, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    registry = Registry(tmp_path / "specload.db")
    for name in ("a", "b"):
        registry.runs.add(name, "small", state="finished", path=str(tmp_path / "runs" / name))
    registry.close()
    async with inside(retention={"runs": 1}) as service:
        found = service.service.registry
        async with asyncio.timeout(60):
            while not list(found.audit.select()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert found.runs.one("a").state == "deleted"
        assert found.runs.one("b").state == "finished"
        assert [(row.who, row.action, row.subject) for row in found.audit.select()] == [
            ("retention", "run.delete", "a")
        ]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["b"]
