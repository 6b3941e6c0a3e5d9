"""Events of an experiment: kept, masked, read in time order, torn ends named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from loadgen.record import Event, Manifest, RunWriter, open_run
from loadgen.redact import Redactor

MakeManifest = Callable[..., Manifest]


def test_events_come_back_in_time_order_without_secrets(tmp_path: Path, manifest: MakeManifest) -> None:
    writer = RunWriter(tmp_path, manifest(), Redactor([SecretStr("hunter22-key")]))
    writer.event(Event(20, "late", {"said": "key hunter22-key", "n": 3}))
    writer.event(Event(10, "early"))
    writer.finish("finished")
    run = open_run(writer.path)
    assert [(e.at_ns, e.name) for e in run.events] == [(10, "early"), (20, "late")]
    assert "hunter22" not in (writer.path / "events.jsonl").read_text()
    assert run.events[1].data["n"] == 3


def test_a_torn_line_is_named(tmp_path: Path, manifest: MakeManifest) -> None:
    writer = RunWriter(tmp_path, manifest())
    writer.event(Event(1, "whole"))
    writer.finish("finished")
    file = writer.path / "events.jsonl"
    file.write_bytes(file.read_bytes() + b'{"at_ns": 2, "na')
    run = open_run(writer.path)
    assert [e.name for e in run.events] == ["whole"]
    assert "events.jsonl: line 2 is torn and was left out" in run.problems


def test_a_run_without_events_has_none_and_no_problem(tmp_path: Path, manifest: MakeManifest) -> None:
    writer = RunWriter(tmp_path, manifest())
    writer.finish("finished")
    assert open_run(writer.path).events == ()
    assert not (writer.path / "events.jsonl").exists()
