"""Numbers that are computed in this process are those of Spark, in value and type; what Spark alone decides is left to it."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.calendar.periods import Calendar, Kind
from lakehouse.contracts.metric import MetricContract
from lakehouse.delta import layout, partition_writer
from lakehouse.gold.numbers.history import EXACT
from lakehouse.gold.restatement import local_measures, metric_query
from lakehouse.spark import dataframes
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAY = date(2024, 2, 1)
#: By type of the measure, expressions over the columns of ``ROWS``.
MEASURES = {
    "long": [
        "count(*)",
        "count(1)",
        "count(amount)",
        "count(distinct name)",
        "count(distinct amount)",
        "sum(whole)",
        "max(whole)",
        "count(cast(text as decimal(6,2)))",
        "count(distinct event_date)",
    ],
    "int": ["count(*)", "min(small)", "coalesce(sum(small), 0)"],
    "decimal(6,2)": ["max(cast(text as decimal(6,2)))", "min(try_cast(text as decimal(6, 2)))"],
    "decimal(18,2)": [
        "sum(amount)",
        "coalesce(sum(amount), 0)",
        "min(amount)",
        "sum(whole)",
        "count(*)",
        "coalesce(sum(cast(text as decimal(6,2))), 0)",
        "sum(cast(amount as decimal(14,2)))",
        "sum(cast(small as decimal(18,2)))",
    ],
    "decimal(38,2)": ["sum(amount)", "sum(large)", "max(cast(amount as decimal(38, 2)))", "coalesce(sum(large), 3000000000)"],
    "decimal(38,28)": ["coalesce(max(fine), 0)", "min(cast(fine as decimal(38,28)))"],
    "double": ["sum(amount)", "max(large)", "sum(real)", "coalesce(sum(real), 0)", "count(*)", "sum(whole)"],
    "date": ["max(due)", "min(event_date)"],
}
ROWS = pa.schema(
    [
        ("event_date", pa.date32()),
        ("name", pa.string()),
        ("place", pa.int32()),
        ("is_open", pa.bool_()),
        ("amount", pa.decimal128(12, 2)),
        ("large", pa.decimal128(38, 2)),
        ("whole", pa.int64()),
        ("small", pa.int32()),
        ("real", pa.float64()),
        ("due", pa.date32()),
        ("text", pa.string()),
        ("fine", pa.decimal128(38, 28)),
        ("m0_count", pa.int32()),
        ("count_all", pa.int32()),
    ]
)
GRAINS = ["name", "place", "is_open", "m0_count", "count_all"]
ALL = [
    {"name": f"m{number}", "sql": text, "type": kind}
    for number, (kind, text) in enumerate((kind, text) for kind, texts in MEASURES.items() for text in texts)
]


def metric(measures: list[dict[str, Any]], grain: list[str]) -> MetricContract:
    return MetricContract.model_validate({"metric": "total", "source": "events", "grain": grain, "measures": measures})


def row(**values: Any) -> dict[str, Any]:
    return {"event_date": DAY, **values}


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=ROWS)


def decimals(digits: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda cents: Decimal(cents).scaleb(-2))


def or_none(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


ONE_ROW = st.fixed_dictionaries(
    {
        "event_date": st.sampled_from([DAY, DAY + timedelta(days=1)]),
        "name": or_none(st.sampled_from(["", "a", "A", "é", "e\u0301", "\U0001f600", " a"])),
        "place": or_none(st.sampled_from([0, -1, 2**31 - 1])),
        "is_open": or_none(st.booleans()),
        "amount": or_none(decimals(12)),
        "large": or_none(decimals(30)),
        "whole": or_none(st.integers(-(2**40), 2**40)),
        "small": or_none(st.integers(-1000, 1000)),
        "real": or_none(st.floats(-(2.0**80), 2.0**80, width=32).filter(lambda real: not 0 < abs(real) < 1e-12)),
        "due": or_none(st.dates(date(1900, 1, 1), date(2100, 1, 1))),
        "fine": or_none(st.integers(-(10**38) + 1, 10**38 - 1).map(lambda parts: Decimal(parts).scaleb(-28, EXACT))),
        "m0_count": st.sampled_from([None, 7]),
        "count_all": st.sampled_from([None, 7]),
        "text": or_none(st.from_regex(r"[+-]?0{0,2}[0-9]{1,4}(\.[0-9]{1,2})?", fullmatch=True)),
    }
)
CORNERS = [
    row(name="a", amount=Decimal("0.10"), real=0.1, whole=1, small=1),
    row(name="a", amount=Decimal("0.20"), real=0.2, whole=2, small=-1),
    row(),
    row(name="", place=0, is_open=False, amount=Decimal("9999999999.99"), large=Decimal("1e30"), real=1e25),
]


@pytest.mark.spark
@law(60)
@example(rows=CORNERS, grain=["name"])  # nulls, empty text, greatest values
@example(rows=CORNERS, grain=[])
@example(rows=[row()], grain=["place", "is_open"])  # a group without any value
@given(rows=st.lists(ONE_ROW, min_size=1, max_size=12), grain=st.lists(st.sampled_from(GRAINS), unique=True, max_size=3))
def test_they_are_those_of_spark(spark: SparkSession, rows: list[dict[str, Any]], grain: list[str]) -> None:
    of_all, arrow = metric(ALL, grain), table(rows)
    computed = local_measures.of_days(arrow, of_all)
    assert computed is not None
    by_spark = metric_query.of_days(dataframes.local(spark, arrow), of_all, [DAY, DAY + timedelta(days=1)])
    here = metric_query._by_day(computed)
    assert here.keys() == by_spark.keys()
    for day, numbers in by_spark.items():
        assert here[day].schema.equals(numbers.schema)
        assert here[day].to_pylist() == numbers.to_pylist()


@pytest.mark.spark
def test_measures_read_the_day_of_each_row_and_not_that_of_the_number(spark: SparkSession) -> None:
    """A number of a month, and of the week up to a day: their rows have days of their own."""
    days = [date(2024, 2, 1), date(2024, 2, 3), date(2024, 2, 3), date(2024, 2, 29), date(2024, 3, 1)]
    rows = table([row(event_date=day) for day in days])
    texts = {"days": "count(distinct event_date)", "first": "min(event_date)", "last": "max(event_date)", "n": "count(*)"}
    kinds = {"days": "long", "first": "date", "last": "date", "n": "long"}
    by_days = metric([{"name": name, "sql": text, "type": kinds[name]} for name, text in texts.items()], [])
    february = Calendar().containing(days[0], Kind.MONTH)
    of_february = {"days": 3, "first": days[0], "last": days[3], "n": 4, "row_count": 4}
    here = local_measures.of_periods(rows, by_days, [february])
    assert here is not None
    assert here.to_pylist() == [{"event_date": february.start, **of_february}]
    in_spark = metric_query.of_periods(dataframes.local(spark, rows), by_days, [february])
    assert {start: numbers.to_pylist() for start, numbers in in_spark.items()} == {february.start: [of_february]}
    of_week = MetricContract.model_validate(by_days.model_dump(exclude_unset=True, by_alias=True) | {"window": 7})
    day = date(2024, 2, 6)
    in_spark = metric_query.of_days(dataframes.local(spark, rows), of_week, [day])
    assert in_spark[day].to_pylist() == [{"days": 2, "first": days[0], "last": days[1], "n": 3, "row_count": 3}]


@pytest.mark.spark
def test_outside_of_aggregates_it_is_the_day_of_the_number(spark: SparkSession) -> None:
    """As in a measure of working days: Saturday, 2024-02-03, has none of the week up to it."""
    text = "if(weekday(event_date) < 5, sum(whole), 0)"
    plain = metric([{"name": "m", "sql": text, "type": "long"}], [])
    of_week = MetricContract.model_validate(plain.model_dump(exclude_unset=True, by_alias=True) | {"window": 7})
    rows = dataframes.local(spark, table([row(event_date=date(2024, 2, 1), whole=5)]))
    days = [date(2024, 2, 2), date(2024, 2, 3)]
    numbers = metric_query.of_days(rows, of_week, days)
    assert {day: number.to_pylist() for day, number in numbers.items()} == {
        days[0]: [{"m": 5, "row_count": 1}],
        days[1]: [{"m": 0, "row_count": 1}],
    }


@pytest.mark.spark
def test_a_day_without_rows_has_a_number_where_a_measure_names_the_grain(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"gold": "if(name = 'gold', sum(whole), 0)", "n": "count(distinct name)", "day": "max(event_date)"}
    kinds = {"gold": "long", "n": "long", "day": "date"}
    by_name = metric([{"name": name, "sql": text, "type": kinds[name]} for name, text in texts.items()], ["name"])
    monkeypatch.setattr(local_measures, "few_rows", lambda *_: None)
    monkeypatch.setattr(metric_query.rows_read, "silver_rows", lambda *_: dataframes.local(spark, table([])))
    none = metric_query.nothing(lambda: spark, None, by_name)
    assert none.to_pylist() == [{"name": None, "gold": 0, "n": 0, "day": None, "row_count": 0}]


@pytest.mark.spark
@pytest.mark.parametrize("grain", [[], ["name", "place"]])
def test_a_day_without_rows_has_the_number_of_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, grain: list[str]
) -> None:
    of_all, none = metric(ALL, grain), table([])
    computed = local_measures.nothing(none, of_all)
    assert computed is not None
    monkeypatch.setattr(local_measures, "few_rows", lambda *_: None)
    monkeypatch.setattr(metric_query.rows_read, "silver_rows", lambda *_: dataframes.local(spark, none))
    by_spark = metric_query.nothing(lambda: spark, None, of_all)
    assert computed.schema.equals(by_spark.schema)
    assert computed.to_pylist() == by_spark.to_pylist()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sum(amount) / count(*)", "decimal(18,2)"),
        ("avg(amount)", "decimal(18,2)"),
        ("sum(amount * 2)", "decimal(18,2)"),
        ("sum(distinct amount)", "decimal(18,2)"),
        ("sum(amount) filter (where is_open)", "decimal(18,2)"),
        ("count(distinct name, place)", "long"),
        ("count(amount, whole)", "long"),
        ("coalesce(sum(amount), 0.5)", "decimal(18,2)"),
        ("coalesce(sum(amount), max(amount), 0)", "decimal(18,2)"),
        ("sum(amount) + 0", "decimal(18,2)"),
        ("median(amount)", "decimal(18,2)"),
        ("sum(cast(text as double))", "double"),
        ("sum(cast(text as decimal))", "decimal(18,2)"),
        ("sum(cast(trim(text) as decimal(6,2)))", "decimal(18,2)"),
        ("sum(cast(text as decimal(2,6)))", "decimal(18,2)"),
        ("count(distinct cast(text as decimal(6,2)))", "long"),
        ("count(+text)", "long"),  # makes a number of the text
        (f"coalesce(sum(amount), {'9' * 39})", "decimal(38,2)"),
    ],
)
def test_other_expressions_are_left_to_spark(text: str, kind: str) -> None:
    assert not local_measures.is_local(metric([{"name": "m", "sql": text, "type": kind}], []))


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("sum(amount)", "decimal(12,2)", {"amount": [Decimal("9999999999.99")] * 2}),  # does not fit
        ("sum(amount)", "decimal(18,1)", {"amount": [Decimal("0.05")]}),  # is rounded
        ("sum(amount)", "long", {"amount": [Decimal("0.50")]}),  # is cut
        ("sum(large)", "decimal(38,2)", {"large": [Decimal("9e35")] * 2}),  # overflows on the way
        ("sum(whole)", "decimal(38,0)", {"whole": [2**63 - 1] * 2}),  # overflows Spark's bigint
        ("sum(whole)", "int", {"whole": [2**31]}),
        ("count(*)", "decimal(1,0)", {"whole": [1] * 10}),
        ("sum(real)", "decimal(18,2)", {"real": [0.5]}),
        ("sum(real)", "double", {"real": [1e308] * 10}),  # is infinite
        ("max(name)", "string", {"name": ["a"]}),
        ("max(real)", "double", {"real": [0.5]}),
        ("count(distinct real)", "long", {"real": [0.0, -0.0]}),  # are they one value?
        ("sum(name)", "long", {"name": ["1"]}),
        *(
            ("max(cast(text as decimal(6,2)))", "decimal(6,2)", {"text": ["1.25", text]})
            for text in (
                "1.255",
                "",
                " 1",
                "1e2",
                "12345",
                "NaN",
                "1,5",
                ".5",
                "5.",
                "1.2\n",
                "\u0661",
            )  # rounded, refused, trimmed
        ),
        ("max(cast(text as decimal(2,2)))", "decimal(2,2)", {"text": ["0.25"]}),
        ("max(cast(real as decimal(6,2)))", "decimal(6,2)", {"real": [0.5]}),
        ("max(cast(amount as decimal(6,2)))", "decimal(6,2)", {"amount": [Decimal("10000.00")]}),
        ("max(cast(amount as decimal(6,1)))", "decimal(6,1)", {"amount": [Decimal("0.05")]}),
        # Arrow's product wraps around:
        ("max(cast(large as decimal(38,6)))", "decimal(38,6)", {"large": [Decimal("95635803963210391633781903280000000.00")]}),
        # The common type of the two has fewer places:
        ("coalesce(max(fine), 3000000000)", "decimal(38,28)", {"fine": [Decimal("1.0000000000000000000000000005")]}),
        ("coalesce(max(amount), 99999999999999999999999999999999999999)", "decimal(12,2)", {"amount": [Decimal("1.25")]}),
        ("coalesce(max(due), 0)", "date", {"due": [DAY]}),
        ("sum(real)", "double", {"real": [1e-16, 1.0]}),  # Spark adds the parts below 2^-104 as they come
        ("sum(real)", "double", {"real": [1e50, 3e31, -1e50]}),
        ("sum(real)", "double", {"real": [float("nan")]}),
        ("sum(real)", "double", {"real": [float("inf"), 1.0]}),
        ("max(due)", "date", {"due": pa.array([3_000_000], pa.int32()).cast(pa.date32())}),  # a day of the year 10183
    ],
)
def test_values_that_spark_rounds_or_refuses_are_left_to_it(text: str, kind: str, values: dict[str, Any]) -> None:
    [(name, of_column)] = values.items()
    measured = metric([{"name": "m", "sql": text, "type": kind}], [])
    assert local_measures.is_local(measured)
    rows = table([row()] * len(of_column))
    given = of_column if isinstance(of_column, pa.Array) else pa.array(of_column, ROWS.field(name).type)
    assert local_measures.of_days(rows.set_column(rows.column_names.index(name), ROWS.field(name), given), measured) is None


def test_metrics_that_need_more_than_the_rows_of_the_day_are_left_to_spark() -> None:
    plain = {"metric": "total", "source": "events", "measures": [{"name": "m", "sql": "count(*)", "type": "long"}]}
    assert local_measures.is_local(MetricContract.model_validate(plain))
    for more in ({"window": 7}, {"window": {"size": "PT1H"}}, {"late_events": {"allowed_lateness": "PT1H"}}):
        assert not local_measures.is_local(MetricContract.model_validate(plain | more))


def test_groups_of_doubles_are_left_to_spark() -> None:
    of_doubles = metric([{"name": "m", "sql": "count(*)", "type": "long"}], ["real"])
    assert local_measures.of_days(table([row(real=0.5)]), of_doubles) is None


def test_many_rows_are_measured_some_days_at_a_time_where_spark_would_have_the_same_cores(tmp_path: Path) -> None:
    lake = lake_in(tmp_path).with_settings(local_rows=6, spark_remote=None)
    stored, new = locations.silver(lake, "events"), layout.of_silver(lake)
    days = [DAY + timedelta(days=number) for number in range(10)]
    written = partition_writer.create(stored, ROWS, new.partition_by, properties=new.properties)
    partition_writer.replace(written, table([row(event_date=day, whole=n) for day in days for n in range(3)]), days)
    counted = metric([{"name": "m", "sql": "sum(whole)", "type": "long"}], [])
    assert [len(group) for group in local_measures.measured_at_once(lake, counted, days)] == [2, 2, 2, 2, 2]
    numbers = metric_query.of_few_rows(lake, counted, days)
    assert numbers is not None, "one file holds all of these days"
    assert {day: rows.to_pylist() for day, rows in numbers.items()} == {day: [{"m": 3, "row_count": 3}] for day in days}
    for other in ({"spark_master": "spark://host:7077"}, {"local_rows": 1}, {"local_rows": 0}):
        assert metric_query.of_few_rows(lake.with_settings(**other), counted, days) is None
