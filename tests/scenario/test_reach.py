"""How an arm is reached: what its keys become, and what is said where they cannot be followed."""

from __future__ import annotations

import importlib.util
import pickle
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import ScenarioError
from loadgen.scenario import Arm, Reach, Scenario, reach_of

PEM = Path(__file__).parents[1] / "drive" / "data" / "localhost.pem"
SECURE = {"arms.baseline.url": "https://h"}


def arm(**keys: Any) -> Arm:
    return Arm.model_validate({"url": "https://h", **keys})


def test_the_usual_way() -> None:
    reach = reach_of("base", arm())
    assert reach.usual
    assert reach.plain_because is None
    context = reach.ssl_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert reach.httpx_options()["proxy"] is None


def test_a_proxy_and_its_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """G: the account is in no text of it."""
    monkeypatch.setenv("PROXY_ACCOUNT", "me:planted9:x")
    reach = reach_of("base", arm(proxy="http://proxy:3128/", proxy_auth={"env": "PROXY_ACCOUNT"}))
    assert (reach.proxy, reach.proxy_account(), reach.plain_because) == (
        "http://proxy:3128", ("me", "planted9:x"), "proxy",
    )  # fmt: skip
    assert not reach.usual
    assert "planted9" not in repr(reach) + str(reach.httpx_options()["proxy"])
    assert pickle.loads(pickle.dumps(reach)) == reach


def test_both_reasons() -> None:
    assert Reach("base", proxy="http://p", http2=True).plain_because == "proxy and HTTP/2"
    assert Reach("base", ca=PEM).plain_because is None


def test_an_account_needs_both_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_ACCOUNT", "planted9")
    with pytest.raises(ScenarioError, match=r"arms.base.proxy_auth must hold user:password") as refused:
        reach_of("base", arm(proxy="http://proxy", proxy_auth={"env": "PROXY_ACCOUNT"}))
    assert "planted9" not in str(refused.value)
    monkeypatch.delenv("PROXY_ACCOUNT")
    with pytest.raises(ScenarioError, match=r"PROXY_ACCOUNT is not set.*arms.base.proxy_auth.env"):
        reach_of("base", arm(proxy="http://proxy", proxy_auth={"env": "PROXY_ACCOUNT"}))


def test_http2_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(
        ScenarioError, match=r"arms.base.http2 needs the extra `http2`: pip install 'specload\[http2\]'"
    ):
        reach_of("base", arm(http2=True))


def test_certificates_of_ones_own() -> None:
    reach = reach_of("base", arm(tls={"ca": str(PEM), "client_cert": str(PEM)}))
    context = reach.ssl_context()
    assert [entry["subject"] for entry in context.get_ca_certs()] == [((("commonName", "localhost"),),)]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context is reach_of("base", arm(tls={"ca": str(PEM), "client_cert": str(PEM)})).ssl_context()


def test_verification_is_off_only_where_asked() -> None:
    context = reach_of("base", arm(tls={"verify": False})).ssl_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    assert reach_of("base", arm()).ssl_context().verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("key", ["ca", "client_cert"])
def test_files_that_are_not_what_they_should_be(key: str, tmp_path: Path) -> None:
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    with pytest.raises(ScenarioError, match=rf"arms.base.tls.{key}: .*text.pem is not PEM"):
        reach_of("base", arm(tls={key: str(text)}))
    with pytest.raises(ScenarioError, match=rf"arms.base.tls.{key}: .*none.pem cannot be read: No such file"):
        reach_of("base", arm(tls={key: str(tmp_path / "none.pem")}))


def test_an_encrypted_key_asks_nobody(tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    subprocess.run(
        ["openssl", "pkey", "-in", PEM, "-aes256", "-passout", "pass:planted9", "-out", locked],
        check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    with pytest.raises(ScenarioError, match=r"client_cert: .* needs a password"):
        reach_of("base", arm(tls={"client_cert": str(PEM), "client_key": str(locked)}))


def test_the_account_is_masked_in_what_is_dumped(build: Callable[[dict[str, Any]], Scenario]) -> None:
    scenario = build({"arms.baseline.proxy": "http://p:1", "arms.baseline.proxy_auth": {"env": "X"}})
    dumped = scenario.model_dump(mode="json")["arms"]["baseline"]
    assert (dumped["proxy"], dumped["proxy_auth"]) == ("http://p:1", {"env": "X", "file": None})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"arms.baseline.proxy": "socks5://p"}, "arms.baseline.proxy: must be a URL like"),
        ({"arms.baseline.proxy": "http://me:pw@p"}, "arms.baseline.proxy: must hold no user or password"),
        ({"arms.baseline.proxy": "http://p/x"}, "arms.baseline.proxy: must end after the port"),
        ({"arms.baseline.proxy_auth": {"env": "A"}}, "arms.baseline.proxy_auth: needs proxy"),
        ({"arms.baseline.http2": True}, "arms.baseline.http2: needs https:// URLs"),
        ({"arms.baseline.tls": {"verify": False}}, "arms.baseline.tls: needs an https:// URL"),
        ({**SECURE, "arms.baseline.tls": {"client_key": "k"}}, "arms.baseline.tls.client_key: needs client_cert"),
        ({**SECURE, "arms.baseline.tls": {"ca": "c", "verify": False}}, "arms.baseline.tls.ca: contradicts verify"),
    ],
)
def test_refused_with_one_sentence(refused: Callable[..., list[str]], changes: dict[str, Any], expected: str) -> None:
    problems = refused(changes)
    assert len(problems) == 1, problems
    assert problems[0].startswith(expected)
