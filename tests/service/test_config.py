"""service.yaml: what is refused, and where it says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from loadgen.errors import ScenarioError
from loadgen.service import ServiceConfig, load_config
from loadgen.service.config import TargetKeys
from tests.service.conftest import plain_config


def problems(folder: Path, **changes: Any) -> list[str]:
    file = folder / "service.yaml"
    file.write_text(yaml.safe_dump(plain_config(folder, **changes), sort_keys=False))
    with pytest.raises(ScenarioError) as refused:
        load_config(file)
    return refused.value.problems


def test_a_whole_one_is_read_and_files_are_relative_to_it(tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    file.write_text("version: 1\nfolders: {scenarios: here}\n")
    found = load_config(file)
    assert found.folders.scenarios == tmp_path / "here"
    assert found.folders.database == tmp_path / "specload.db"
    assert (found.listen.host, found.listen.port, found.tokens, found.targets) == ("127.0.0.1", 8080, [], {})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"listen": {"host": "0.0.0.0"}}, "listen.host: 0.0.0.0 is reached from outside, and tokens would go in clear"),
        ({"listen": {"host": "example.com"}}, "listen.host: example.com is reached from outside"),
        ({"listen": {"tls_key": "key.pem"}}, "listen.tls_key: needs tls_cert"),
        (
            {"listen": {"behind_tls_proxy": True, "trusted_proxies": ["10.0.0.1", "*"]}},
            "listen.trusted_proxies.1: is no address and no network",
        ),
        ({"listen": {"trusted_proxies": ["10.0.0.1"]}}, "listen.trusted_proxies: needs behind_tls_proxy: true"),
        ({"targets": {"one": {"url": "http://a@b"}}}, "targets.one.url: must hold no user or password"),
        ({"targets": {"one": {"url": "http://b", "proxy": "http://c:1"}}}, "targets.one.proxy: is not for targets"),
        ({"targets": {"one": {"url": "http://b", "speculation": "on"}}}, "belongs into the scenario's arm"),
        ({"targets": {"one": {"url": "http://b", "resolve": {"b": "1.2.3.4"}}}}, "targets.one.resolve: is not for"),
        ({"outgoing": {"networks": ["10.0.0.1/8"]}}, "outgoing.networks.0: is not a network"),
        ({"tokens": [{"name": "a", "role": "admin", "hash": "x"}]}, "tokens.0.role: must be viewer or operator"),
        (
            {"tokens": [{"name": "a", "role": "viewer", "hash": "x"}]},
            "tokens.0.hash: is no hash of a token: make one with specload serve --new-token NAME ROLE",
        ),
        ({"limits": {"watchers": 0}}, "limits.watchers: must be at least 1"),
        ({"metrics": {"grace_s": 1}}, "metrics.grace_s: must be at least 10"),
        ({"retentions": {}}, "retentions: unknown key; did you mean retention?"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    found = problems(tmp_path, **changes)
    assert any(said in one for one in found), found
    assert all(one.startswith(f"{tmp_path}/service.yaml:") for one in found)


def test_a_token_in_place_of_its_hash_is_not_repeated(tmp_path: Path) -> None:
    """I4."""
    (said,) = problems(tmp_path, tokens=[{"name": "a", "role": "viewer", "hash": "sl_a_0123456789abcdef"}])
    assert said.endswith("make one with specload serve --new-token NAME ROLE")


def test_a_token_is_named_once(tmp_path: Path) -> None:
    tokens = plain_config(tmp_path)["tokens"]
    assert "tokens.1.name: eye is in the list twice" in problems(tmp_path, tokens=[tokens[0], tokens[0]])[0]


def test_tls_or_a_proxy_that_speaks_it_opens_other_addresses() -> None:
    for more in ({"tls_cert": Path("c.pem")}, {"behind_tls_proxy": True}):
        found = ServiceConfig.model_validate({"version": 1, "listen": {"host": "0.0.0.0", **more}})
        assert found.listen.secure
    with pytest.raises(ValidationError):
        ServiceConfig.model_validate({"version": 1, "listen": {"host": "0.0.0.0"}})


def urls_of(model: Any, before: str = "") -> set[str]:
    """Fields that hold a URL, as their checks say."""
    found = set()
    for name, field in model.model_fields.items():
        if "_url" in repr(field.metadata) + repr(field.annotation):
            found.add(f"{before}{name}")
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= urls_of(field.annotation, f"{before}{name}.")
    return found


def test_a_new_key_that_holds_a_url_is_not_overlooked() -> None:
    """I8: what `all_urls` names is all there is; a proxy is refused."""
    assert urls_of(TargetKeys) == {
        "url", "urls", "metrics_urls", "health_url", "proxy", "telemetry.gpu_metrics_urls"
    }  # fmt: skip


def test_every_url_of_a_target_is_known() -> None:
    """I8: metrics pages and exporters of GPUs are checked like the server itself."""
    config = ServiceConfig.model_validate(
        {
            "version": 1,
            "targets": {
                "a": {
                    "urls": ["http://a:1", "http://b:1"],
                    "telemetry": {"gpu_metrics_urls": ["http://g:9400/metrics"]},
                    "start": "serve",
                    "health_url": "http://a:1/up",
                },
                "b": {"url": "http://c", "metrics_urls": ["http://d/page?x=1"]},
            },
        }
    )
    assert set(config.targets["a"].all_urls) == {
        "http://a:1", "http://b:1", "http://a:1/metrics", "http://b:1/metrics", "http://g:9400/metrics", "http://a:1/up",
    }  # fmt: skip
    assert set(config.targets["b"].all_urls) == {"http://c", "http://d/page?x=1"}
