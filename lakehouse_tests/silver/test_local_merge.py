"""Silver in this process: which rebuilt days differ is decided as by a plain count of rows; how first rows are taken."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.delta import layout
from lakehouse.delta.columns import silver_columns
from lakehouse.dispositions import living_rows
from lakehouse.lake import Lake, table_io
from lakehouse.lake.table_cache import look_again
from lakehouse.silver import local_merge
from lakehouse.spark import commits as spark_commits
from lakehouse_tests.support.lake import SampleLake, contract, csv_file

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import SparkSession

FIRST = date(2024, 2, 1)
AT = datetime(2024, 2, 1, tzinfo=timezone.utc)
SCHEMA = pa.schema(
    [
        ("event_date", pa.date32()),
        ("id", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("share", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("is_open", pa.bool_()),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "event_date": st.integers(0, 2).map(lambda number: FIRST + timedelta(days=number)),
        "id": st.none() | st.sampled_from(["a", "b", ""]),
        "amount": st.none() | st.sampled_from([Decimal("0.00"), Decimal("-1.50")]),
        "share": st.none() | st.sampled_from([0.1, 0.30000000000000004]),
        "at": st.none() | st.sampled_from([AT, AT + timedelta(microseconds=1)]),
        "is_open": st.none() | st.booleans(),
    }
)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@given(before=st.lists(ROWS, max_size=6), kept=st.lists(st.integers(0, 5)), new=st.lists(ROWS, max_size=2))
def test_a_day_differs_if_the_number_of_any_of_its_rows_does(
    before: list[dict[str, Any]], kept: list[int], new: list[dict[str, Any]]
) -> None:
    after = [before[place] for place in kept if place < len(before)] + new
    counts = [Counter(tuple(row[name] for name in SCHEMA.names) for row in rows) for rows in (before, after)]
    expected = {row[0] for row in counts[0] | counts[1] if counts[0][row] != counts[1][row]}
    assert local_merge.changed_days(table(before), table(after)) == expected


@pytest.mark.merge
@pytest.mark.parametrize(
    ("local_rows", "master"), [(4, "spark://host:7077"), (2, "local[2]"), (2, "spark://host:7077"), (0, "local[2]")]
)
def test_many_first_rows_of_days_are_taken_in_pieces_where_spark_would_have_the_same_cores(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, local_rows: int, master: str
) -> None:
    monkeypatch.setattr(table_io, "PIECE_ROWS", 2)
    monkeypatch.setattr(local_merge, "_HELD_BYTES", 1)
    lake.settings.local_rows, lake.settings.spark_master, lake.settings.spark_remote = local_rows, master, None
    sample = SampleLake(lake, contract(), spark)
    lines = [("a", 1, "01T12", "06"), ("b", 2, "02T12", "06"), ("b", 3, "03T12", "07"), ("c", 4, "01T13", "06")]
    sample.deliver(
        FIRST,
        csv_file(f"{key},{amount},2024-01-{event}:00:00Z,2024-02-01T{at}:00:00Z,insert,,0" for key, amount, event, at in lines),
    )
    sample.ingest(FIRST)
    sample.update()
    stored = locations.silver(lake, "events")
    rows = stored.read(["record_key", "amount", "event_date"])
    assert rows is not None
    assert sorted((row["record_key"], row["amount"], row["event_date"].day) for row in rows.to_pylist()) == [
        ("a", 1, 1),
        ("b", 3, 3),
        ("c", 4, 1),
    ]
    table = stored.open()
    assert table is not None
    by_spark = {"Spark" in commit.get("engineInfo", "") for commit in table.history() if commit["operation"] == "WRITE"}
    assert by_spark == {not local_rows or (local_rows == 2 and master != "local[2]")}


@pytest.mark.merge
@pytest.mark.parametrize(
    ("place", "name"),
    [(spark_commits, "append_days_alone"), (living_rows, "sound_rows"), (spark_commits, "append_alone")],
    ids=["before it is opened", "while rows are put in order", "by Spark"],
)
def test_rows_that_another_run_brings_to_the_same_days_meanwhile_stand_once(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, place: ModuleType, name: str
) -> None:
    sample = SampleLake(lake, contract(), spark)
    lines = [f"{key},1,2024-01-0{day}T12:00:00Z,2024-02-01T06:00:00Z,insert,,0" for key, day in (("a", 1), ("b", 1), ("c", 2))]
    sample.deliver(FIRST, csv_file(lines))
    sample.ingest(FIRST)
    spark_commits.table_of(locations.silver(lake, "events"), silver_columns(sample.contract), *layout.of_silver(lake))
    others, original = [Lake(lake.settings.model_copy())], getattr(place, name)

    def beside_another(*arguments: Any, **named: Any) -> Any:
        while others:
            days = {date(2024, 1, 1), date(2024, 1, 2)}
            assert local_merge.rebuild(others.pop(), sample.contract, days, {"method": "rebuild"})
            look_again()
        return original(*arguments, **named)

    monkeypatch.setattr(place, name, beside_another)
    lake.settings.local_rows = 0 if name == "append_alone" else 100
    sample.update()
    assert not others
    assert {row[0] for row in sample.silver()} == {"a", "b", "c"}, "each stands there once"
