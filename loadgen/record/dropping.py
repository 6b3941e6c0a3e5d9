"""What was said is taken out of a run directory; every number stays."""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.errors import StorageError
from loadgen.record.compact import GROUP_ROWS, encoding
from loadgen.record.files import MANIFEST, replace_file
from loadgen.record.reader import read_manifest
from loadgen.record.schema import REQUESTS

#: Columns that hold what was asked and answered.
TEXTS = ("prompt", "text", "token_ids")
_WHY = "dropped at the end of the run"


def drop_texts(path: Path) -> None:
    """Prompts, answers and token ids of a finished run. Raises StorageError where they are not all gone."""
    target = path / "requests.parquet"
    if list(path.glob("requests*.arrow")) or not target.exists():
        raise StorageError(f"{path}: texts cannot be dropped: its records were not brought to their end")
    temporary = target.with_name(target.name + ".part")
    try:
        with (
            pq.ParquetFile(str(target)) as source,
            pq.ParquetWriter(str(temporary), REQUESTS, compression="zstd", **encoding(REQUESTS)) as writer,
        ):
            for batch in source.iter_batches(GROUP_ROWS):
                writer.write_table(_bare(pa.Table.from_batches([batch])))
        temporary.replace(target)
        manifest = read_manifest(path)
        manifest.experiment = {**manifest.experiment, "texts": "dropped"}
        for arm in manifest.arms.values():
            arm.absent_columns = {**arm.absent_columns, **dict.fromkeys(TEXTS, _WHY)}
        replace_file(path / MANIFEST, orjson.dumps(manifest.model_dump(mode="json"), option=orjson.OPT_INDENT_2))
    except (OSError, pa.ArrowException) as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(f"{target}: texts could not be dropped: {error}") from None


def _bare(table: pa.Table) -> pa.Table:
    for name in TEXTS:
        at = table.column_names.index(name)
        field = table.schema.field(at)
        table = table.set_column(at, field, pa.nulls(table.num_rows, type=field.type))
    return table
