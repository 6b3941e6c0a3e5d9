"""What the whole table tells: batch sizes, columns that stayed null, totals of the human log."""

from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
import pytest

from loadgen.drive import Attempt, Outcome
from loadgen.observe import Scrape, Scraped
from loadgen.record import REQUESTS, ArmFacts, Manifest
from loadgen.record.anomalies import Totals
from loadgen.record.batch import RequestBatches
from loadgen.record.complete import BatchSizes, NullColumns
from loadgen.redact import Redactor
from server_adapters.base import MetricKind, MetricsPage, Series

MS = 1_000_000
S = 1_000_000_000
NO_SAMPLE = "no scrape of every metrics page fell between sent and last token"


@pytest.fixture
def arms(manifest: Callable[..., Manifest]) -> dict[str, ArmFacts]:
    facts = manifest().arms["baseline"]
    return {"baseline": facts, "candidate": facts.model_copy(update={"absent_columns": {"batch_size": "no page"}})}


@pytest.fixture
def table(attempt: Callable[..., Attempt]) -> pa.Table:
    """Two batches of three rows; sent at 1 s, last token at 1.26 s, end of body at 1.3 s."""
    attempts = [
        attempt(warnings=("no_done", "truncated", "no_done"), outcome=Outcome.TRUNCATED),
        attempt(arm="candidate", absent={"spec": "none"}),
        attempt([], stream=False, warnings=("no_done",)),
        attempt([], sent_ns=None, outcome=Outcome.REFUSED),
        attempt(arm="ghost", end_ns=S + 900 * MS),
        attempt([], stream=False, end_ns=S + 900 * MS, outcome=Outcome.TRUNCATED),
    ]
    made = RequestBatches("r", {}, {}, (), False, Redactor())
    return pa.Table.from_batches([made.batch(attempts[:3]), made.batch(attempts[3:])])


def running(at_ms: int, value: float) -> Scrape:
    page = MetricsPage((Series("running", MetricKind.GAUGE, value, "0", model="m"),), ("m",), ("0",), 1.0)
    return Scrape("baseline", "u", at_ms * MS, (at_ms + 1) * MS, Scraped.OK, None, page)


def test_batch_sizes_of_every_row_and_why_one_has_none(table: pa.Table, arms: dict[str, ArmFacts]) -> None:
    """Between sent and last token, or the body's end where not streamed; by arm; other reasons stay."""
    scrapes = [running(1100, 2.0), running(1200, 4.0), running(1280, 9.0), running(1800, 1.0)]
    filled = BatchSizes(scrapes, arms).fill(table)
    assert filled["batch_size"].to_pylist() == [3.0, None, 5.0, None, None, 4.0]
    before = [orjson.loads(text) for text in table["absent"].to_pylist()]
    after = [orjson.loads(text) for text in filled["absent"].to_pylist()]
    unknown = {"batch_size": NO_SAMPLE}
    assert after == [before[0], before[1] | unknown, before[2], before[3] | unknown, before[4] | unknown, before[5]]
    assert filled.schema == REQUESTS


def test_without_a_scrape_no_row_has_a_batch_size(table: pa.Table, arms: dict[str, ArmFacts]) -> None:
    filled = BatchSizes([], arms).fill(table)
    assert filled["batch_size"].to_pylist() == [None] * 6
    assert all(orjson.loads(text)["batch_size"] == NO_SAMPLE for text in filled["absent"].to_pylist())


def test_null_columns_are_by_arm_over_all_tables(table: pa.Table, arms: dict[str, ArmFacts]) -> None:
    """A column with one value anywhere is not null; reasons: known before, told by the first row, of the column."""
    found = NullColumns()
    for part in (table.slice(0, 4), table.slice(4)):
        found.add(part)
    told = {name: facts.absent_columns for name, facts in found.complete(arms).items()}
    assert told["candidate"]["batch_size"] == "no page"
    assert told["candidate"]["spec_source"] == "the answer carried no speculation statistics"
    assert "connect_s" in told["candidate"]
    assert not {"ttft_s", "chunk_times_s", "sent_ns", "coalesced_chunks"} & (
        told["baseline"].keys() | told["candidate"]
    )
    rows = table.filter(pa.compute.equal(table["arm"], "baseline"))
    assert told["baseline"].keys() == {name for name in REQUESTS.names if rows[name].null_count == 4}


def test_totals_count_a_kind_once_a_row_and_an_outcome_as_a_kind(table: pa.Table) -> None:
    totals = Totals()
    totals.add(table)
    totals.add(table.slice(0, 1))
    assert totals.lines() == [
        "total no_done: 3 requests",
        "total refused: 1 requests",
        "total truncated: 3 requests",
    ]


def test_an_empty_table_is_nothing(arms: dict[str, ArmFacts]) -> None:
    empty: Any = REQUESTS.empty_table()
    assert BatchSizes([running(1100, 2.0)], arms).fill(empty).num_rows == 0
    found, totals = NullColumns(), Totals()
    found.add(empty)
    totals.add(empty)
    assert found.complete(arms) == arms
    assert totals.lines() == []
