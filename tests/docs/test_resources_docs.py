"""docs/resources.md and the code hold each other: names of samples, numbers of the summary, sources, limits."""

import re
from pathlib import Path

from loadgen.analyze import ArmResources, ResourceDelta, ResourceUse
from loadgen.observe.tracks import LONGEST_GAP_S
from loadgen.scenario import Telemetry
from server_adapters.gpu_exporters import EXPORTERS
from server_adapters.telemetry import TELEMETRY

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "resources.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    part = TEXT.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:2] == "| "][1:]


def test_every_name_of_a_sample_is_documented_in_order() -> None:
    assert rows("Names of the samples") == [[f"`{n}`", q.kind, q.level, q.meaning] for n, q in TELEMETRY.items()]


def test_every_number_is_defined() -> None:
    labels = {
        "stage", "segment", "repeat_idx", "window_s", "sources", "devices", "notes", "overall", "stages", "windows",
        "candidate", "baseline", "sentence",
    }  # fmt: skip
    numbers = {n for model in (ResourceUse, ArmResources, ResourceDelta) for n in model.model_fields} - labels
    named = set(re.findall(r"`([a-z_]+)`", TEXT))
    assert sorted(numbers - named) == []


def test_every_source_is_named_with_its_key() -> None:
    table = rows("Where numbers come from")
    assert {exporter.name for exporter in EXPORTERS} == {row[0] for row in table} - {"NVML on this machine", "psutil"}
    keys = {key for row in table for key in re.findall(r"`([a-z_]+)`", row[1])}
    assert keys - {"start"} <= set(Telemetry.model_fields)


def test_limits_are_those_of_the_code() -> None:
    assert f"at most {LONGEST_GAP_S:g} s" in TEXT
