"""schemathesis over the OpenAPI description: whatever is sent, no 5xx, and answers are what the description says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import CHECKS, load_all_checks

from tests.service.conftest import TOKENS, Served, begin, end, plain_config

#: Bounded: each kind of request gets so many tries.
EXAMPLES = 8
load_all_checks()
CHOSEN = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "content_type_conformance",
        "response_schema_conformance",
        "status_code_conformance",
    )
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("openapi")
    found = begin(folder, plain_config(folder))
    try:
        yield found
    finally:
        assert end(found) == 0


def test_no_request_ends_in_a_5xx(service: Served) -> None:
    headers = {"Authorization": f"Bearer {TOKENS['ops']}"}
    base = str(service.client.base_url).rstrip("/")
    schema = schemathesis.openapi.from_url(f"{base}/api/v1/openapi.json", headers=headers)
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @seed(9)
        @settings(
            max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            nonlocal tried
            tried += 1
            response = case.call(headers=headers, timeout=30, allow_redirects=False)
            case.validate_response(response, checks=CHOSEN)

        ask()
    assert tried > 150
    log = service.log()
    assert "Traceback" not in log
    assert service.ask("GET", "/api/v1/audit").json()["broken_at"] is None
