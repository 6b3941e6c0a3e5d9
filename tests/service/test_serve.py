"""The command itself: tokens, the configuration, TLS, an address that is taken."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from loadgen.errors import ScenarioError
from loadgen.service import ServiceConfig, check_config, serve
from loadgen.service.tokens import matches
from tests.service.conftest import TOKENS, begin, end, plain_config

PEM = Path(__file__).resolve().parents[1] / "drive" / "data" / "localhost.pem"
Specload = Callable[..., subprocess.CompletedProcess[str]]


def test_a_token_is_on_stdout_once_and_its_hash_beside_it(specload: Specload) -> None:
    """I4: what is kept does not hold it."""
    done = specload("serve", "--new-token", "ci", "operator")
    token = done.stdout.strip()
    assert (done.returncode, token[:6], len(token)) == (0, "sl_ci_", 70)
    (line,) = re.findall(r"- (\{.*\})", done.stderr)
    kept = yaml.safe_load(line)
    assert (kept["name"], kept["role"]) == ("ci", "operator")
    assert matches(token, kept["hash"])
    assert token not in done.stderr
    assert specload("serve", "--new-token", "ci", "admin").returncode == 2
    assert specload("serve", "--new-token", "CI!", "viewer").returncode == 2


def test_a_configuration_is_read_without_serving(specload: Specload, tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    file.write_text(yaml.safe_dump(plain_config(tmp_path)))
    assert specload("serve", "--config", file, "--check").stdout == f"{file} is fine: 1 targets, 2 tokens\n"
    opened = specload("serve", "--config", file, "--check", "--host", "0.0.0.0")
    assert (opened.returncode, "tokens would go in clear text" in opened.stderr) == (2, True)
    assert not (tmp_path / "runs").exists()
    file.write_text("version: 2\n")
    broken = specload("serve", "--config", file, "--check")
    assert (broken.returncode, f"{file}:1: version: must be 1" in broken.stderr) == (2, True)
    assert specload("serve", "--config", tmp_path / "nothing.yaml").returncode == 2


def configured(folder: Path, **changes: Any) -> ServiceConfig:
    return ServiceConfig.model_validate({"version": 1, "folders": {"scenarios": str(folder)}, **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"targets": {"one": {"url": "http://127.0.0.1:9"}}},
            "targets.one: http://127.0.0.1:9: 127.0.0.1 is a loopback address: not connected to unless",
        ),
        (
            {"targets": {"one": {"url": "http://93.184.215.14", "api_key": {"env": "SPECLOAD_NO_SUCH_KEY"}}}},
            "targets.one: environment variable SPECLOAD_NO_SUCH_KEY is not set",
        ),
        (
            {"listen": {"tls_cert": "/nothing/cert.pem"}},
            "listen.tls_cert, listen.tls_key: cannot be used: No such file",
        ),
        ({"listen": {"tls_cert": __file__}}, "listen.tls_cert, listen.tls_key: cannot be used"),
        ({"outgoing": {"hosts": ["a b"]}}, "outgoing.hosts.0: the URL has no usable host"),
        ({"folders": {"runs": "/dev/null/runs"}}, "folders.runs: /dev/null is no folder that can be written to"),
    ],
)
def test_a_check_refuses_what_a_start_refuses(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """Both ask the same: `serve` begins with it."""
    with pytest.raises(ScenarioError) as checked:
        check_config(configured(tmp_path, **changes))
    assert said in checked.value.problems[0]
    with pytest.raises(ScenarioError) as started:
        serve(configured(tmp_path, **changes), pytest.fail)
    assert started.value.problems == checked.value.problems


def test_a_folder_of_scenarios_that_is_not_there_is_said(tmp_path: Path) -> None:
    missing = tmp_path / "nosuch"
    assert check_config(configured(missing)) == [
        f"folders.scenarios: there is no folder {missing}: only uploaded scenarios can be run"
    ]
    assert check_config(configured(tmp_path)) == []
    assert not missing.exists()


def test_an_address_that_is_taken_is_said(specload: Specload, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        file = tmp_path / "service.yaml"
        file.write_text(yaml.safe_dump(plain_config(tmp_path, listen={"port": port})))
        done = specload("serve", "--config", file)
    assert (done.returncode, f"127.0.0.1:{port} cannot be listened on" in done.stderr) == (2, True)


def test_it_speaks_tls(tmp_path: Path) -> None:
    config = plain_config(tmp_path, listen={"port": 0, "tls_cert": str(PEM), "hostnames": ["localhost"]})
    served = begin(tmp_path, config, verify=False)
    try:
        url = str(served.client.base_url)
        assert url.startswith("https://")
        answer = served.client.post("/login", data={"token": TOKENS["ops"]})
        assert "Secure" in answer.headers["set-cookie"]
        assert "strict-transport-security" in answer.headers
        plain = url.replace("https", "http")
        with pytest.raises(httpx.TransportError):
            httpx.get(plain, trust_env=False)
    finally:
        assert end(served) == 0
