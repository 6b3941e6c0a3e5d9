"""examples/ and docs/hooks.md: held to the command line and the service's routes; conditions are tried on answers."""

from __future__ import annotations

import base64
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
import typer
import yaml

from loadgen.cli.entry import app
from loadgen.experiment import signature
from loadgen.service.api.hook_models import ArgoAsk, FlaggerAsk, RolloutOut
from loadgen.service.api.hooks import _start_of
from loadgen.service.roles import ACCESS, API
from loadgen.service.rollouts import CODES, FlaggerHook, Outcome, Word, flagger_answer, starts

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
YAML = sorted([*EXAMPLES.rglob("*.yaml"), *EXAMPLES.rglob("*.yml")])


def loaded(name: str) -> Any:
    return yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))


def answers() -> list[dict[str, Any]]:
    """One for each word, as the service gives them."""
    return [
        RolloutOut(verdict=word, code=CODES[word], reason="why", id="r", state="s").model_dump()
        for word in get_args(Word)
    ]


def test_the_page_names_every_example() -> None:
    assert {f"../{f.relative_to(ROOT)}" for f in EXAMPLES.rglob("*") if f.is_file() and "nginx" not in f.parts} == set(
        re.findall(r"\((\.\./examples/[^)]+\.[a-z]+)\)", PAGE)
    )


@pytest.mark.parametrize("file", YAML, ids=lambda file: file.name)
def test_examples_are_valid_yaml_without_secrets(file: Path) -> None:
    assert yaml.safe_load(file.read_text(encoding="utf-8"))
    assert not re.search(r"sl_\w+_\w{8,}", file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["analysis-run.yaml", "analysis-canary.yaml", "analysis-job.yaml"])
def test_argos_templates_have_what_its_schema_asks_for(name: str) -> None:
    found = loaded(f"argo-rollouts/{name}")
    assert (found["apiVersion"], found["kind"]) == ("argoproj.io/v1alpha1", "AnalysisTemplate")
    for metric in found["spec"]["metrics"]:
        (provider,) = metric["provider"]
        assert metric["name"]
        assert provider in ("web", "job")
        assert ("interval" in metric) == (provider == "web")


@pytest.mark.parametrize("name", ["analysis-run.yaml", "analysis-canary.yaml"])
def test_argos_conditions_on_real_answers(name: str) -> None:
    """G17: the conditions are tried on every answer that the service can give, with the value that jsonPath takes. G15:
    neither holds for what is inconclusive or not over."""
    for metric in loaded(f"argo-rollouts/{name}")["spec"]["metrics"]:
        key = re.fullmatch(r"\{\$\.(\w+)\}", metric["provider"]["web"]["jsonPath"])
        assert key is not None
        found = {}
        for answer in answers():
            value = answer[key[1]]
            found[answer["verdict"]] = [
                eval(metric[condition], {"__builtins__": {}}, {"result": value})
                for condition in ("successCondition", "failureCondition")
            ]
        assert found == {
            "pass": [True, False],
            "fail": [False, True],
            "inconclusive": [False, False],
            "running": [False, False],
        }


def path_of(url: str) -> str:
    return "/" + url.split("://", 1)[1].split("/", 1)[1]


def route_of(method: str, path: str) -> tuple[str, str]:
    """The route of the service that takes this path."""
    for route in ACCESS:
        if route[0] == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route[1]), path):
            return route
    raise LookupError(path)


def test_argos_requests_are_what_the_routes_take() -> None:
    web = loaded("argo-rollouts/analysis-run.yaml")["spec"]["metrics"][0]["provider"]["web"]
    assert route_of(web["method"], path_of(web["url"])) == ("POST", f"{API}/hooks/argo")
    body = {**web["jsonBody"], "key": "6d5f7c9b8d"}
    assert ArgoAsk.model_validate(body).arms == {"baseline": "vllm-stable", "candidate": "vllm-canary"}
    canary = loaded("argo-rollouts/analysis-canary.yaml")["spec"]["metrics"][0]["provider"]["web"]
    assert route_of("GET", path_of(canary["url"])) == ("GET", f"{API}/hooks/argo/canaries/{{name}}")


def test_polling_ends_as_inconclusive_not_as_a_failure() -> None:
    """Argo counts a measurement without a verdict as inconclusive: the limits must let the run come to its end."""
    metric = loaded("argo-rollouts/analysis-run.yaml")["spec"]["metrics"][0]
    assert metric["inconclusiveLimit"] == metric["count"] - 1
    assert metric["failureLimit"] == 0


def test_flaggers_webhooks_are_what_the_routes_take() -> None:
    """The documented payload with the example's metadata, hook by hook."""
    found = loaded("flagger/canary.yaml")
    assert (found["apiVersion"], found["kind"]) == ("flagger.app/v1beta1", "Canary")
    analysis = found["spec"]["analysis"]
    waits = 0
    for hook in analysis["webhooks"]:
        assert path_of(hook["url"]).endswith(f"/hooks/flagger/{hook['type']}")
        assert route_of("POST", path_of(hook["url"])) == ("POST", f"{API}/hooks/flagger/{{hook}}")
        assert hook["type"] in get_args(FlaggerHook)
        waits += int(hook.get("timeout", "0s").removesuffix("s")) * (hook["type"] == "rollout")
        payload = {"name": "vllm", "namespace": "serving", "phase": "Progressing", "checksum": "85d557f47b"}
        asked = FlaggerAsk.model_validate({**payload, "metadata": hook.get("metadata", {})})
        if starts(hook["type"]):
            assert _start_of(asked).scenario == "quickstart"
    assert waits < 60 * int(analysis["interval"].removesuffix("m"))


def test_the_table_of_flaggers_hooks_is_what_is_answered() -> None:
    rows = {}
    for line in PAGE.split("## Flagger")[1].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0].startswith("`"):
            rows |= dict.fromkeys(re.findall(r"`([a-z-]+)`", cells[0]), cells[1:])
    assert set(rows) == set(get_args(FlaggerHook))
    for hook, (begins, *told) in rows.items():
        assert (begins == "yes") == starts(hook)  # type: ignore[arg-type]
        for word, text in zip(("running", "pass", "fail", "inconclusive"), told, strict=True):
            status, _ = flagger_answer(hook, Outcome(word, "why"), go_inconclusive=False)  # type: ignore[arg-type]
            assert text.lstrip("*").startswith(str(status)), (hook, word)


def commands(text: str) -> list[list[str]]:
    """Every call of specload in a script, as words."""
    lines = (line.strip().removeprefix("- ") for line in text.splitlines())
    return [shlex.split(line.split(" >")[0])[1:] for line in lines if line.startswith("specload ")]


def test_commands_of_the_examples_exist() -> None:
    group = typer.main.get_command(app)
    known = {name: {o for p in c.params for o in p.opts} for name, c in group.commands.items()}  # type: ignore[attr-defined]
    calls = commands((EXAMPLES / "github-actions/load-test.yml").read_text())
    calls += commands((EXAMPLES / "gitlab-ci/load-test.gitlab-ci.yml").read_text())
    job = loaded("argo-rollouts/analysis-job.yaml")["spec"]["metrics"][0]["provider"]["job"]["spec"]["template"]["spec"]
    calls.append(job["containers"][0]["args"])
    assert len(calls) >= 5
    for name, *words in calls:
        assert {word for word in words if word.startswith("--")} <= known[name], (name, words)


def test_a_job_is_asked_once() -> None:
    job = loaded("argo-rollouts/analysis-job.yaml")["spec"]["metrics"][0]["provider"]["job"]["spec"]
    assert job["backoffLimit"] == 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_inconclusive_is_a_warning_in_ci_and_nothing_else_is() -> None:
    assert loaded("gitlab-ci/load-test.gitlab-ci.yml")["load-test"]["allow_failure"] == {"exit_codes": [98]}
    (step,) = [
        s for s in loaded("github-actions/load-test.yml")["jobs"]["specload"]["steps"] if s.get("id") == "specload"
    ]
    script = step["run"].replace("$GITHUB_STEP_SUMMARY", "/dev/null")
    for code, ends in ((0, 0), (98, 0), (99, 99), (1, 1), (3, 3)):
        stub = f"specload() {{ if [ $1 = run ]; then return {code}; fi; }}; ls() {{ echo r; }}\n"
        done = subprocess.run(
            ["bash", "-c", stub + script.replace("> junit.xml", "> /dev/null")], check=False, capture_output=True
        )
        assert done.returncode == ends, (code, done.stderr)


def test_the_receiver_takes_what_is_signed_once(tmp_path: Path) -> None:
    key = bytes(range(32))
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / "webhook" / "receive.py", "0"], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "HOOK_KEY": "whsec_" + base64.b64encode(key).decode()},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        body = b'{"data": {"scenario": "s", "before": "doubtful", "state": "fail", "verdict": "fail"}}'

        def told(event_id: str, at_s: float, with_key: bytes = key) -> int:
            stamp = int(at_s)
            headers = {
                "webhook-id": event_id,
                "webhook-timestamp": str(stamp),
                "webhook-signature": signature(with_key, event_id, stamp, body),
            }
            return httpx.post(url, content=body, headers=headers, trust_env=False).status_code

        now_s = time.time()
        assert [told("a", now_s), told("a", now_s), told("b", now_s)] == [204, 204, 204]
        assert [told("c", now_s, key[::-1]), told("d", now_s - 3600)] == [401, 401]
    finally:
        process.terminate()
        out, _ = process.communicate(timeout=30)
    assert out.splitlines() == ["s: doubtful -> fail, verdict fail"] * 2
