"""The keys of an arm's telemetry: what fits together and what does not."""

from typing import Any

import pytest
from pydantic import ValidationError

from loadgen.scenario import Arm, Telemetry

URL = "http://127.0.0.1:9400/metrics"


def arm(**telemetry: Any) -> Telemetry:
    return Arm.model_validate({"url": "http://127.0.0.1:8000", "telemetry": telemetry}).telemetry


def test_nothing_is_asked_and_no_price_is_guessed_by_default() -> None:
    found = Arm(url="http://127.0.0.1:8000").telemetry
    assert found == Telemetry()
    assert (found.nvml, found.gpu_metrics_urls, found.pid, found.price_per_gpu_hour) == ([], [], None, None)


def test_gpus_by_index_and_uuid() -> None:
    assert arm(nvml=[0, "GPU-604ac76c"]).nvml == [0, "GPU-604ac76c"]
    assert arm(gpu_metrics_urls=[URL], devices=["0/7", 1]).devices == ["0/7", 1]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"devices": [0]}, "needs gpu_metrics_urls"),
        ({"nvml": [0, 0]}, "is in the list twice"),
        ({"gpu_metrics_urls": [URL, URL]}, "is in the list twice"),
        ({"nvml": [-1]}, "greater than or equal to 0"),
        ({"nvml": [True]}, "valid"),
        ({"pid": 0}, "greater than or equal to 1"),
        ({"interval_s": 0.01}, "greater than or equal to 0.1"),
        ({"price_per_gpu_hour": 0}, "greater than 0"),
        ({"gpu_metrics_urls": ["http://user:pw@host/metrics"]}, "must hold no user or password"),
        ({"gpu_metrics_url": URL}, "Extra inputs are not permitted"),
    ],
)
def test_what_does_not_fit_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        arm(**keys)
