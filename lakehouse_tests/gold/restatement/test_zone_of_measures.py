"""Measures see hours and days in the zone of their event days, also in the hour that comes twice; instants stay what they are."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.source import SourceContract
from lakehouse.delta import provenance
from lakehouse.gold.restatement import metric_query
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = timezone.utc
MEASURES = {
    "first_hour": ("min(hour(event_ts))", "int"),
    "evening": ("count(*) filter (where hour(event_ts) >= 18)", "long"),
    "days": ("count(distinct date(event_ts))", "long"),
    "other_days": ("count_if(cast(event_ts as date) <> event_date)", "long"),
    "hours": ("count(distinct date_trunc('hour', event_ts))", "long"),
    "clock_hours": ("count(distinct date_format(event_ts, 'yyyy-MM-dd HH'))", "long"),
    "text": ("min(cast(event_ts as string))", "string"),
    "since_midnight": ("max(unix_seconds(event_ts) - unix_seconds(cast(event_date as timestamp)))", "long"),
    "last": ("max(event_ts)", "timestamp"),
    "parsed": ("max(to_timestamp(note))", "timestamp"),
}


def _source(zone: str) -> SourceContract:
    fields = [{"name": "id", "type": "string"}, {"name": "note", "type": "string"}]
    return SourceContract.model_validate(
        {"dataset": "s", "primary_key": ["id"], "clocks": {"event": "at", "timezone": zone}, "model": {"fields": fields}}
    )


def _metric(zone: str, sql: dict[str, tuple[str, str]], **more: Any) -> MetricContract:
    measures = [{"name": name, "sql": text, "type": kind} for name, (text, kind) in sql.items()]
    metric = MetricContract.model_validate({"metric": "m", "source": "s", "measures": measures, **more})
    return metric.with_contracts({"s": _source(zone)})


def _model(moments: list[datetime], zone: ZoneInfo) -> dict[date, dict[str, Any]]:
    by_day = defaultdict(list)
    for moment in moments:
        by_day[moment.astimezone(zone).date()].append(moment)
    numbers = {}
    for day, of_day in by_day.items():
        local = [moment.astimezone(zone) for moment in of_day]
        midnight = datetime.combine(day, datetime.min.time(), zone).astimezone(UTC)
        numbers[day] = {
            "first_hour": min(moment.hour for moment in local),
            "evening": sum(moment.hour >= 18 for moment in local),
            "days": 1,
            "other_days": 0,
            "hours": len({(moment.date(), moment.hour, moment.utcoffset()) for moment in local}),
            "clock_hours": len({(moment.date(), moment.hour) for moment in local}),
            "text": min(f"{moment:%Y-%m-%d %H:%M:%S}" for moment in local),
            "since_midnight": max(int((moment - midnight).total_seconds()) for moment in of_day),
            "last": max(of_day),
        }
    return numbers


@pytest.mark.parametrize(
    ("zone", "day"), [("Europe/Berlin", "2024-10-26"), ("America/New_York", "2024-03-09"), ("Asia/Kolkata", "2024-05-01")]
)
def test_measures_see_the_zone_of_their_days(spark: SparkSession, zone: str, day: str) -> None:
    start = datetime.fromisoformat(f"{day}T00:30:00").replace(tzinfo=UTC)
    moments = [start + timedelta(minutes=30 * step) for step in range(110)]
    local = ZoneInfo(zone)
    days = [moment.astimezone(local).date() for moment in moments]
    rows = pa.table(
        {
            "event_date": pa.array(days, pa.date32()),
            "event_ts": pa.array(moments, pa.timestamp("us", "UTC")),
            "note": pa.array([f"{on} 12:00:00" for on in days]),
        }
    )
    expected = _model(moments, local)
    for on, number in expected.items():
        number["parsed"] = datetime(on.year, on.month, on.day, 12, tzinfo=local).astimezone(UTC)
    metric = _metric(zone, MEASURES)
    numbers = metric_query.of_days(dataframes.local(spark, rows), metric, expected)
    assert {on: table.drop_columns(["row_count"]).to_pylist() for on, table in numbers.items()} == {
        on: [number] for on, number in expected.items()
    }
    assert numbers[days[0]].schema.field("last").type == pa.timestamp("us", "UTC")
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_windows_are_the_same_in_the_session_of_a_zone(spark: SparkSession) -> None:
    start = datetime(2024, 10, 26, 20, 15, tzinfo=UTC)
    moments = [start + timedelta(minutes=60 * step) for step in range(12)]
    days = [moment.astimezone(ZoneInfo("Europe/Berlin")).date() for moment in moments]
    rows = pa.table({"event_date": pa.array(days, pa.date32()), "event_ts": pa.array(moments, pa.timestamp("us", "UTC"))})
    for window in ({"size": "PT1H"}, {"size": "PT2H", "every": "PT1H"}):
        metric = _metric("Europe/Berlin", {"hour": ("min(hour(event_ts))", "int")}, window=window | {"timezone": "Europe/Berlin"})
        numbers = metric_query.of_days(dataframes.local(spark, rows), metric, sorted(set(days)))
        in_utc = metric_query.of_days(dataframes.local(spark, rows), metric.as_in_utc, sorted(set(days)))
        for day, table in numbers.items():
            assert table["window_start"] == in_utc[day]["window_start"]
            assert table.schema == in_utc[day].schema
            if len(window) == 1:
                assert table["hour"].to_pylist() == [
                    moment.astimezone(ZoneInfo("Europe/Berlin")).hour for moment in table["window_start"].to_pylist()
                ]


def test_the_version_of_a_metric_names_the_zone_only_where_it_changes_a_number() -> None:
    def version(zone: str, sql: str) -> str:
        return provenance.of_contract(_metric(zone, {"n": (sql, "double")}))

    for sql in ("sum(amount)", "count(distinct id)", "max(cast(note as double))"):
        assert version("Europe/Berlin", sql) == version("UTC", sql)
    for sql in ("min(hour(event_ts))", "count(distinct date(arrival_ts))", "max(unix_timestamp(note))"):
        assert version("Europe/Berlin", sql) != version("UTC", sql)
        assert provenance.of_contract(_metric("Europe/Berlin", {"n": (sql, "double")}).as_in_utc) == version("UTC", sql)
