"""The SQL views of a dimension, as Spark executes them; those of numbers are tested with the pages that show them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import Catalog
from lakehouse.serving import sql_views
from lakehouse.serving.sql_views import Dialect
from lakehouse_tests.support.dimension_lake import deliver, dimension
from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings


@pytest.mark.merge
@pytest.mark.spark
def test_a_dimension_has_views_of_what_is_current_and_of_what_was_valid(settings: Settings, spark: SparkSession) -> None:
    catalog = Catalog({"customers": dimension()}, {})
    assert sql_views.statements(settings, catalog, Dialect.spark) == [], "there is no table yet"
    records = [DimensionRecord("17", day(at), "", tier, "n", "a", None, day(31)) for at, tier in ((0, "gold"), (4, "silver"))]
    deliver(Lake(settings, dimension(), spark), date(2024, 2, 1), records, "a")
    for statement in sql_views.statements(settings, catalog, Dialect.spark):
        spark.sql(statement.removesuffix(";"))
    assert [row.tier for row in spark.sql("SELECT tier FROM customers_current").collect()] == ["silver"]
    valid = "SELECT dimension_key, tier FROM customers_valid_at(TIMESTAMP '{}')"
    for moment, tiers in {"2024-01-04 23:59:59": ["gold"], "2024-01-05 00:00:00": ["silver"], "2023-12-31 00:00:00": []}.items():
        assert [row.tier for row in spark.sql(valid.format(moment)).collect()] == tiers
    duckdb = "\n".join(sql_views.statements(settings, catalog, Dialect.duckdb))
    assert "CREATE OR REPLACE MACRO customers_valid_at(happened_at) AS TABLE SELECT" in duckdb
