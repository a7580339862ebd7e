"""The rows in force as a DataFrame are those that ``in_force`` reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.delta import row_writer
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import readings as bronze_readings
from lakehouse.dispositions import row_frames
from lakehouse.ledger import ingestions, rebuild_requests
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.rebuild_requests import RebuildRequest
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY, AT = date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=timezone.utc)
COLUMNS = ["ingestion_id", "line_number", "record_key"]
FILES = ("one", "two")
#: Lines by file, with the key that a reading gives them.
LINES = st.dictionaries(st.tuples(st.sampled_from(FILES), st.integers(1, 2)), st.sampled_from("abc"), min_size=1)


def rows(keys: dict[tuple[str, int], str], schema: pa.Schema, **more: Any) -> pa.Table:
    plain = {"arrival_date": DAY, "arrival_ts": AT, **more}
    listed = [plain | {"ingestion_id": file, "line_number": line, "record_key": key} for (file, line), key in keys.items()]
    return pa.Table.from_pylist(listed, schema=schema)


@pytest.mark.merge
@law(50)
@example([], {}, True)  # nothing was read again
# A file is read again whole, one in part and twice; the ledger knows their rows.
@example([{("one", 1): "a", ("one", 2): "b", ("two", 1): "a"}, {("two", 1): "c"}], {}, True)
@example([{("one", 1): "a"}, {("one", 2): "b", ("two", 2): "c"}], {"ingestion_id": ["one"]}, False)
@given(st.lists(LINES, max_size=3), st.sampled_from([{}, {"ingestion_id": ["one"]}]), st.booleans())
def test_files_that_a_reading_has_whole_in_part_or_not_at_all(
    tmp_path_factory: Any, spark: SparkSession, readings: list[Any], where: Any, is_known: bool
) -> None:
    lake = lake_in(tmp_path_factory.mktemp("lake")).with_settings(local_rows=0)
    first = {(file, line): "first" for file in FILES for line in (1, 2)}
    row_writer.append(locations.bronze(lake, "events"), rows(first, arrow_schema(bronze_columns(contract()))))
    for file in FILES if is_known else ():
        ingestions.record(lake, Ingestion("events", file, file, DAY, f"{file}.csv", 2, None, "ingested", "run", AT))
    for number, keys in enumerate(readings, start=1):
        name, schema = f"operation:{number}", arrow_schema(bronze_readings.columns(contract()))
        read = rows(keys, schema, _reading_id=name, _reading_number=number)
        row_writer.append(locations.readings(lake, "events"), read, partition_by=["arrival_date"])
        versions = {"code_before": None, "code_after": "1", "contract_before": None, "contract_after": "2"}
        entry = RebuildRequest("events", rebuild_requests.REPARSE, DAY, DAY, "why", "anna", **versions, recorded_at=AT)
        rebuild_requests.record(lake, replace(entry, operation_id=name), name)
    assert (bronze_readings.readings_of(lake, "events") is not None) == bool(readings)
    expected = bronze_readings.read(lake, "events", COLUMNS, where)
    assert expected is not None
    frame = row_frames.rows(spark, lake, contract(), COLUMNS, where)
    assert Counter(map(tuple, frame.collect())) == Counter(tuple(row[name] for name in COLUMNS) for row in expected.to_pylist())
