"""Intervals beside those of two usual ways to keep them: a dbt snapshot (check strategy), and a MERGE written by hand.

On a feed in the order of event time all three agree. On a late change the other two are wrong. See docs/dimensions.md.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse_tests.support import dimension_model as model
from lakehouse_tests.support.dimension_lake import deliver, dimension, held_intervals
from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.proof]
#: Each delivery has at most one change per key: (key, day of the change, tier).
IN_ORDER = [[("17", 0, "bronze"), ("18", 0, "gold")], [("17", 4, "silver")], [("17", 8, "gold"), ("18", 8, "gold")]]
#: The change of the fourth day comes last.
LATE = [IN_ORDER[0], IN_ORDER[2], IN_ORDER[1]]
Row = tuple[str, str, int, int | None]


def delivery(spark: SparkSession, changes: list[tuple[str, int, str]]) -> None:
    rows = [(key, day(at), tier) for key, at, tier in changes]
    spark.createDataFrame(rows, "key string, changed_at timestamp, tier string").createOrReplaceTempView("delivered")


def dbt_snapshot(spark: SparkSession, path: Path, feed: list[list[tuple[str, int, str]]]) -> list[Row]:
    """A snapshot with ``strategy: check`` and ``updated_at: changed_at``, by the statements that dbt generates."""
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id string, key string, tier string, valid_from timestamp, valid_to timestamp) USING delta"
    )
    for changes in feed:
        delivery(spark, changes)
        spark.sql(f"""
            CREATE OR REPLACE TEMP VIEW staged AS
            WITH kept AS (SELECT * FROM delta.`{path}` WHERE valid_to IS NULL),
                 named AS (SELECT md5(concat_ws('|', key, changed_at)) AS id, * FROM delivered)
            SELECT 'insert' AS change, n.id, n.key, n.tier, n.changed_at AS valid_from, CAST(NULL AS timestamp) AS valid_to
            FROM named n LEFT JOIN kept k ON k.key = n.key WHERE k.key IS NULL OR k.tier <> n.tier
            UNION ALL
            SELECT 'update', k.id, k.key, k.tier, k.valid_from, n.changed_at
            FROM named n JOIN kept k ON k.key = n.key WHERE k.tier <> n.tier
        """)
        spark.sql(f"""
            MERGE INTO delta.`{path}` d USING staged s ON s.id = d.id
            WHEN MATCHED AND d.valid_to IS NULL AND s.change = 'update' THEN UPDATE SET valid_to = s.valid_to
            WHEN NOT MATCHED AND s.change = 'insert'
            THEN INSERT (id, key, tier, valid_from, valid_to) VALUES (s.id, s.key, s.tier, s.valid_from, s.valid_to)
        """)
    return rows_of(spark.sql(f"SELECT key, tier, valid_from, valid_to FROM delta.`{path}`").collect())


def merge_by_hand(spark: SparkSession, path: Path, feed: list[list[tuple[str, int, str]]]) -> list[Row]:
    """The MERGE of many tutorials: the current row of a changed key is closed, and a new current row is inserted."""
    columns = "key string, tier string, valid_from timestamp, valid_to timestamp, is_current boolean"
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta")
    for changes in feed:
        delivery(spark, changes)
        spark.sql(f"""
            MERGE INTO delta.`{path}` t
            USING (
                SELECT key AS merge_key, * FROM delivered
                UNION ALL
                SELECT NULL, d.* FROM delivered d JOIN delta.`{path}` c ON c.key = d.key AND c.is_current AND c.tier <> d.tier
            ) s
            ON t.key = s.merge_key AND t.is_current
            WHEN MATCHED AND t.tier <> s.tier THEN UPDATE SET valid_to = s.changed_at, is_current = false
            WHEN NOT MATCHED THEN INSERT (key, tier, valid_from, valid_to, is_current)
                VALUES (s.key, s.tier, s.changed_at, NULL, true)
        """)
    return rows_of(spark.sql(f"SELECT key, tier, valid_from, valid_to FROM delta.`{path}`").collect())


def rows_of(collected: list[Any]) -> list[Row]:
    """Rows with their times as days since the first one."""

    def number(moment: datetime | None) -> int | None:
        return None if moment is None else (moment.astimezone(timezone.utc) - model.START).days

    return sorted(((row[0], row[1], number(row[2]), number(row[3])) for row in collected), key=str)


def ours(lake: Lake, spark: SparkSession, feed: list[list[tuple[str, int, str]]]) -> tuple[list[Row], list[Row]]:
    """The intervals of the product, and those of the model."""
    sample, known = SampleLake(lake, dimension(), spark), list[DimensionRecord]()
    for number, changes in enumerate(feed):
        arrival = date(2024, 2, 1) + timedelta(days=number)
        at = datetime(2024, 2, 1 + number, 6, tzinfo=timezone.utc)
        known += deliver(
            sample, arrival, [DimensionRecord(key, day(on), "", tier, "n", "a", None, at) for key, on, tier in changes], "a"
        )
    both = (held_intervals(lake), model.intervals(known))
    found, expected = ([(one.key, one.tier, one.valid_from, one.valid_to) for one in rows] for rows in both)
    return rows_of(found), rows_of(expected)


def test_a_feed_in_order_gives_the_same_everywhere(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    held, expected = ours(lake, spark, IN_ORDER)
    assert (
        held == expected == dbt_snapshot(spark, tmp_path / "dbt", IN_ORDER) == merge_by_hand(spark, tmp_path / "merge", IN_ORDER)
    )
    assert held == [("17", "bronze", 0, 4), ("17", "gold", 8, None), ("17", "silver", 4, 8), ("18", "gold", 0, None)]


def test_a_late_change_is_right_here_only(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    held, expected = ours(lake, spark, LATE)
    assert held == expected == ours(lake_in(_folder(tmp_path)), spark, IN_ORDER)[0]
    wrong = [("17", "bronze", 0, 8), ("17", "gold", 8, 4), ("17", "silver", 4, None), ("18", "gold", 0, None)]
    assert dbt_snapshot(spark, tmp_path / "dbt", LATE) == merge_by_hand(spark, tmp_path / "merge", LATE) == wrong


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in_order"
    folder.mkdir()
    return folder
