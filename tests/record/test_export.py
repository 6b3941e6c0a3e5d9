"""Exports: the contract's columns in every format, and the schema that describes them."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pyarrow.parquet as pq
import pytest

from loadgen.drive import Attempt, Outcome
from loadgen.errors import StorageError
from loadgen.record import COLUMNS, RunData, export_table, open_run, record_schema, write_export
from server_adapters.base import SpecStats

MakeAttempt = Callable[..., Attempt]

#: The contract, written down a second time: a change here is a change of the contract.
NAMES = """
run_id arm replica phase repeat_idx seq case_id task_type request_id worker stream input_len input_len_requested
cached_tokens output_len output_len_requested output_len_source finish_reason temperature top_p top_k seed max_tokens
draft_len spec_method batch_size concurrency drafted_tokens accepted_tokens verify_rounds rollback_count rollback_low
rollback_high accepted_histogram spec_source due_ns sent_ns headers_ns first_byte_ns first_token_ns first_answer_ns
last_token_ns end_ns ttft_s ttft_from_due_s total_time_s tpot_s draft_time_s verify_time_s server_queue_s
server_prefill_s server_decode_s gpu_mem_peak_bytes outcome error_class error_status error_message timestamp_source
coalesced_chunks chunk_times_s chunk_tokens
"""
CONTRACT = NAMES.split()


@pytest.fixture
def run(write_run: Any, attempt: MakeAttempt) -> RunData:
    spec = SpecStats(2, 3, 8, 4, (0, 1, 1, 0, 0))
    failed = attempt([], index=1, outcome=Outcome.HTTP_ERROR, error_status=503, error_message='busy, "now"\nlater')
    return open_run(write_run([attempt(spec=spec), failed, attempt([], index=2, stream=False)]))


def test_the_contract(run: RunData) -> None:
    assert list(COLUMNS) == CONTRACT
    assert export_table(run).column_names == CONTRACT


def test_jsonl_is_the_table_row_by_row_and_fits_its_schema(run: RunData, tmp_path: Path) -> None:
    """F12: a strict parser reads every line; null, never NaN."""
    path = tmp_path / "out.jsonl"
    assert write_export(run, "jsonl", path) == 3
    rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert rows == export_table(run).to_pylist()
    schema = record_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for row in rows:
        jsonschema.validate(row, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**rows[0], "ttft_s": "0.1"}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({k: v for k, v in rows[0].items() if k != "outcome"}, schema)


def test_csv_has_all_columns_but_the_chunk_lists(run: RunData, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_export(run, "csv", path)
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert list(rows[0]) == CONTRACT[:-2]
    assert (rows[0]["ttft_s"], rows[0]["stream"], rows[0]["accepted_histogram"]) == ("0.1", "true", "[0,1,1,0,0]")
    assert (rows[1]["ttft_s"], rows[1]["error_message"]) == ("", 'busy, "now"\nlater')
    assert rows[2]["stream"] == "false"
    assert float(rows[0]["total_time_s"]) == export_table(run)["total_time_s"][0].as_py()


def test_parquet_is_the_table(run: RunData, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    write_export(run, "parquet", path)
    assert pq.read_table(str(path)).to_pylist() == export_table(run).to_pylist()


def test_an_export_that_cannot_be_written_leaves_nothing(run: RunData, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere/out\.csv: cannot be written"):
        write_export(run, "csv", tmp_path / "nowhere" / "out.csv")
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_run_exports_no_rows(write_run: Any, tmp_path: Path) -> None:
    empty = open_run(write_run([]))
    assert write_export(empty, "jsonl", tmp_path / "out.jsonl") == 0
    assert (tmp_path / "out.jsonl").read_bytes() == b""
