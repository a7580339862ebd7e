"""The SQL views of a dimension, as Spark executes them; those of numbers are tested with the pages that show them."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import duckdb_extension_delta
import pytest

from lakehouse.contracts import Catalog
from lakehouse.serving import sql_views
from lakehouse.serving.sql_views import Dialect
from lakehouse_tests.support.dimension_lake import deliver, dimension
from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.lake import SampleLake, contract, csv_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake


@pytest.mark.merge
@pytest.mark.spark
def test_silver_has_a_view_with_when_each_row_was_processed_and_its_version(lake: Lake, spark: SparkSession) -> None:
    """The row of a key that came three times has version 3, also after a rebuild."""
    sample = SampleLake(lake, contract(), spark)
    came = [datetime(2024, 2, number, 6, tzinfo=timezone.utc) for number in (1, 2, 3)]
    for number, moment in enumerate(came, start=1):
        sample.lake.settings.now = moment
        lines = [f"a,{number},2024-01-02T12:00:00Z,2024-02-0{number}T05:00:00Z,{'correct' if number > 1 else 'insert'},,{number}"]
        lines += ["b,7,2024-01-02T12:00:00Z,2024-02-01T05:00:00Z,insert,,1"] if number == 1 else []
        sample.deliver(moment.date(), csv_file(lines))
        sample.ingest(moment.date())
        sample.update()
    catalog = Catalog({"events": sample.contract}, {})
    created = [line for line in sql_views.statements(lake, catalog, Dialect.duckdb) if "events_versioned" in line]
    with duckdb.connect(":memory:", config={"allow_unsigned_extensions": "true"}) as database:
        extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))
        database.execute(f"LOAD '{extension}'")
        database.execute("SET TimeZone = 'UTC'")
        database.execute(created[0])
        query = "SELECT record_key, amount, record_version, processing_ts FROM events_versioned ORDER BY record_key"
        expected = [("a", 3, 3, came[2]), ("b", 7, 1, came[0])]
        assert database.execute(query).fetchall() == expected
        sample.lake.settings.now = datetime(2024, 3, 1, tzinfo=timezone.utc)
        sample.update([date(2024, 1, 2)])
        assert database.execute(query).fetchall() == expected
    of_spark = [line for line in sql_views.statements(lake, catalog, Dialect.spark) if "events_versioned" in line]
    spark.sql(of_spark[0].removesuffix(";"))
    assert [row.record_version for row in spark.sql("SELECT * FROM events_versioned ORDER BY record_key").collect()] == [3, 1]


@pytest.mark.spark
def test_a_dimension_has_views_of_what_is_current_and_of_what_was_valid(lake: Lake, spark: SparkSession) -> None:
    catalog = Catalog({"customers": dimension()}, {})
    assert sql_views.statements(lake, catalog, Dialect.spark) == [], "there is no table yet"
    records = [DimensionRecord("17", day(at), "", tier, "n", "a", None, day(31)) for at, tier in ((0, "gold"), (4, "silver"))]
    deliver(SampleLake(lake, dimension(), spark), date(2024, 2, 1), records, "a")
    for statement in sql_views.statements(lake, catalog, Dialect.spark):
        spark.sql(statement.removesuffix(";"))
    assert [row.tier for row in spark.sql("SELECT tier FROM customers_current").collect()] == ["silver"]
    valid = "SELECT dimension_key, tier FROM customers_valid_at(TIMESTAMP '{}')"
    for moment, tiers in {"2024-01-04 23:59:59": ["gold"], "2024-01-05 00:00:00": ["silver"], "2023-12-31 00:00:00": []}.items():
        assert [row.tier for row in spark.sql(valid.format(moment)).collect()] == tiers
    duckdb = "\n".join(sql_views.statements(lake, catalog, Dialect.duckdb))
    assert "CREATE OR REPLACE MACRO customers_valid_at(happened_at) AS TABLE SELECT" in duckdb
