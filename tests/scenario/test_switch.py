"""Kill switches: the three kinds, what is refused, and that secrets are read from where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from loadgen.errors import ScenarioError
from loadgen.scenario import CommandCall, HttpCall, Switch, secrets_of, switch_secrets

HTTP: dict[str, Any] = {"kind": "http", "url": "http://127.0.0.1:9/speculation", "body": {"enabled": False}}


def problems(off: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        Switch.model_validate({"off": off})
    return str(caught.value)


def test_one_direction_may_be_missing() -> None:
    switch = Switch.model_validate({"off": HTTP})
    assert isinstance(switch.call("off"), HttpCall)
    with pytest.raises(ValueError, match="has no `on`"):
        switch.call("on")


@pytest.mark.parametrize(
    ("off", "said"),
    [
        ({**HTTP, "headers": {"Host": "x"}}, "is set by specload itself"),
        ({**HTTP, "headers": {"A b": "x"}}, "is not a header name"),
        ({**HTTP, "headers_from": {"Content-Type": {"env": "X"}}}, "is set by specload itself"),
        ({**HTTP, "headers": {"X-A": "x"}, "headers_from": {"X-A": {"env": "X"}}}, "is in headers, too"),
        ({**HTTP, "api_key": {"env": "X"}, "headers": {"authorization": "x"}}, "contradicts api_key"),
        ({**HTTP, "url": "http://user:pass@host/"}, "must hold no user or password"),
        ({**HTTP, "tls": {"verify": False}}, "needs an https:// URL"),
        ({**HTTP, "expect_status": [7]}, "greater than or equal to 100"),
        ({"kind": "command", "command": []}, "at least 1"),
        ({"kind": "command", "command": "true", "env": {"A=B": "x"}}, "is no name of an environment variable"),
        ({"kind": "command", "command": "true", "env": {"A": "x"}, "env_from": {"A": {"env": "X"}}}, "is in env, too"),
        ({"kind": "adapter", "adapter": "batch"}, "speculation"),
        ({"kind": "magic"}, "expected tags"),
    ],
)
def test_what_is_refused(off: dict[str, Any], said: str) -> None:
    assert said in problems(off)


def test_secrets_are_read_where_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADMIN_KEY", "sesame-4711")
    (tmp_path / "token").write_text("second-secret\n")
    switch = Switch.model_validate(
        {
            "off": {**HTTP, "api_key": {"env": "ADMIN_KEY"}, "headers": {"X-Mark": "a-mark"}},
            "on": {"kind": "command", "command": ["true"], "env_from": {"TOKEN": {"file": str(tmp_path / "token")}}},
        }
    )
    off = {name: value.get_secret_value() for name, value in secrets_of(switch.off).items()}
    assert off == {"X-Mark": "a-mark", "Authorization": "Bearer sesame-4711"}
    assert {s.get_secret_value() for s in switch_secrets(switch)} == {
        "a-mark", "Bearer sesame-4711", "second-secret"
    }  # fmt: skip


def test_a_missing_secret_is_named_by_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADMIN_KEY", raising=False)
    call = CommandCall.model_validate(
        {"kind": "command", "command": "true", "env_from": {"TOKEN": {"env": "ADMIN_KEY"}}}
    )
    with pytest.raises(ScenarioError, match=r"drill\.switch\.off\.env_from\.TOKEN\.env"):
        secrets_of(call, "drill.switch.off")
