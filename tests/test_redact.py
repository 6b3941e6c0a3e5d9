"""What must not be shown is masked in every form a server may repeat it in, and nothing else is."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from loadgen.redact import Redactor, names_of, printable


@pytest.mark.parametrize(
    "text",
    [
        "Bearer zq-93k/1b",
        "Incorrect key provided: zq-93k/1b.",
        "GET /x?trace=zq-93k%2F1b failed",
        "Bearer%20zq-93k%2F1b",
    ],
)
def test_a_known_secret_in_every_form(text: str) -> None:
    """I1, I2: whole, without its scheme, and escaped for a URL."""
    masked = Redactor([SecretStr("Bearer zq-93k/1b")])(text)
    assert "93k" not in masked
    assert "***" in masked


def test_short_values_are_no_secrets() -> None:
    """A header X-Retry: 1 must not eat every 1 of every address, id and count."""
    redact = Redactor([SecretStr("1"), SecretStr("a"), SecretStr("v1"), SecretStr("")])
    assert redact("a 401 from http://127.0.0.1:8001/v1") == "a 401 from http://127.0.0.1:8001/v1"


@pytest.mark.parametrize(
    "name", ["access_token", "sig", "X-Amz-Signature", "api_key", "key", "auth", "code", "client_secret"]
)
def test_secrets_in_the_query_of_a_url(name: str) -> None:
    """I4: nobody has said that they are secrets."""
    assert Redactor()(f"http://h/m?a=1&{name}=planted9&b=2") == f"http://h/m?a=1&{name}=***&b=2"


def test_redacting_twice_changes_nothing() -> None:
    redact = Redactor([SecretStr("Bearer planted-key")])
    once = redact("planted-key at http://u:planted@h/?sig=abc Bearer planted-key")
    assert redact(once) == once
    assert "planted" not in once


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert printable("a\x1b[2Jb\x07\r\n\tü日") == "a�[2Jb��\n\tü日"


def test_pages_that_differ_only_in_what_is_masked_have_names_of_their_own() -> None:
    """One name for two pages would add up the counters of one and lose the other's."""
    urls = ["http://h/m?key=first1", "http://h/m?key=second", "http://h/m", "http://h/m?key=first1", "http://h/m?key=3"]
    assert names_of(urls, Redactor()) == {
        "http://h/m?key=first1": "http://h/m?key=***",
        "http://h/m?key=second": "http://h/m?key=*** (2)",
        "http://h/m": "http://h/m",
        "http://h/m?key=3": "http://h/m?key=*** (3)",
    }
