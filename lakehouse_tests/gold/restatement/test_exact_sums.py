"""Sums of doubles are the double next to the exact sum, in any order and division of the rows."""

from __future__ import annotations

import math
import random
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import exact_sums
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.spark import dataframes
from lakehouse_tests.support.lake import SampleLake, contract

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.lake import Lake

GROUPS: dict[str, list[float | None]] = {
    "tenths": [0.1] * 10,
    "three tenths": [0.1, 0.2],
    "as they are written": [12.5, 9.9, 101.7],
    "a small one beside large ones": [1e12, 0.3, 124.1],
    "that cancel": [1e20, 1.0, -1e20, 1e-9],
    "below zero": [-0.1, -0.2, 0.05],
    "of all sizes": [random.Random(7).uniform(-1, 1) * 10 ** (place % 40 - 15) for place in range(400)],
    "nothing": [None, None],
    "not a number": [1.0, math.nan],
    "infinity": [1.0, math.inf],
    "beyond all parts": [1e300, 1.0, -1e300],
    "beside nothing": [None, 2.5],
    "tiny": [1e-40, 5e-32, 1.0000000000000002e-15],
}
MEASURES = {
    "total": "CAST(sum(value) AS double)",
    "doubled": "sum(value * 2 -- with a remark\n)",
    "some": "sum(value) FILTER (WHERE place % 2 = 0)",
    "mean": "avg(value)",
    "places": "sum(place)",
    "both": "coalesce(sum(value), 0D) + sum(place) + count(*)",
    "floats": "try_sum(cast(place as float))",
}


def exact(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    total = math.fsum(known) if known else None
    return total if total is None or not math.isfinite(total) else as_written(total)


def as_written(total: float) -> float:
    """The double with the fewest digits among a double and its two neighbours, if it has at most 15."""
    near = [total, math.nextafter(total, math.inf), math.nextafter(total, -math.inf)]
    short = [one for one in near if float(f"{one:.14e}") == one]
    return total if total in short or not short else min(short, key=lambda one: abs(one - total))


def expected(values: list[float | None]) -> dict[str, Any]:
    known, places = [value for value in values if value is not None], range(len(values))
    total = exact(values)
    return {
        "total": total,
        "doubled": exact([None if value is None else value * 2 for value in values]),
        "some": exact(values[::2]),
        "mean": None if total is None else total / len(known),
        "places": sum(places),
        "both": (total or 0.0) + sum(places) + len(values),
        "floats": float(sum(places)),
    }


def frame(spark: SparkSession, seed: int) -> DataFrame:
    rows = [(name, value, place) for name, values in GROUPS.items() for place, value in enumerate(values)]
    random.Random(seed).shuffle(rows)
    table = pa.Table.from_pylist([dict(zip(("name", "value", "place"), row)) for row in rows])
    return dataframes.local(spark, table).repartition(1 + seed * 3)


@pytest.mark.spark
def test_sums_are_exact_in_any_order_and_division_of_the_rows(spark: SparkSession) -> None:
    for seed in range(3):
        numbers = exact_sums.aggregated(frame(spark, seed), ["name"], MEASURES, "row_count").toArrow().to_pylist()
        for number in numbers:
            values = GROUPS[number.pop("name")]
            assert {name: repr(value) for name, value in number.items()} == {
                name: repr(value) for name, value in {**expected(values), "row_count": len(values)}.items()
            }
        assert len(numbers) == len(GROUPS)


def test_a_sum_is_what_its_parts_as_they_are_written_make() -> None:
    assert [exact_sums.added(pa.array(values)) for values in ([12.5, 9.9, 101.7], [0.1, 0.2], [1e15, 0.25])] == [
        124.1,
        0.3,
        1e15 + 0.25,
    ]


@pytest.mark.spark
def test_the_sum_of_no_rows_is_none(spark: SparkSession) -> None:
    [nothing] = exact_sums.aggregated(frame(spark, 0).where("false"), [], {"total": "sum(value)"}, "row_count").collect()
    assert nothing.asDict() == {"total": None, "row_count": 0}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), max_size=30), st.randoms(use_true_random=False))
def test_the_sum_of_published_days_does_not_depend_on_their_order(values: list[float | None], chance: random.Random) -> None:
    shuffled = chance.sample(values, len(values))
    one, other = (exact_sums.added(pa.array(order, pa.float64())) for order in (values, shuffled))
    assert repr(one) == repr(other) or math.isinf(math.fsum(map(abs, filter(None, values))) if one is not None else 0)


def test_columns_are_summed_under_their_own_names_whatever_these_are() -> None:
    rows = pa.table(
        {
            "v_sum": pa.array([1, 1, None], pa.int32()),
            "x_list": ["a", "a", "a"],
            "v": pa.array([2, None, 3], pa.int64()),
            "x": [0.1, 0.2, None],
            "_all": pa.array([1, 2, 4], pa.int64()),
        }
    )
    by_both = exact_sums.summed(rows, ["v_sum", "x_list"], ["v", "x", "_all"])
    assert by_both.schema == rows.schema
    assert by_both.to_pylist() == [
        {"v_sum": 1, "x_list": "a", "v": 2, "x": 0.3, "_all": 3},
        {"v_sum": None, "x_list": "a", "v": 3, "x": None, "_all": 4},
    ]
    assert exact_sums.summed(rows, [], ["v", "_all"]).to_pylist() == [{"v": 5, "_all": 7}]


@pytest.mark.parametrize(
    ("kind", "most"), [(pa.int64(), 2**63 - 1), (pa.int32(), 2**31 - 1), (pa.decimal128(38, 2), Decimal("9e35"))]
)
def test_a_sum_that_does_not_fit_its_type_is_an_error_and_not_another_number(kind: pa.DataType, most: Any) -> None:
    with pytest.raises(pa.ArrowInvalid):
        exact_sums.summed(pa.table({"v": pa.array([most, most], kind)}), [], ["v"])
    fits = pa.array([most, most, -most], kind)
    assert exact_sums.summed(pa.table({"v": fits}), [], ["v"])["v"].to_pylist() == [most]


def test_aggregates_that_depend_on_the_order_keep_the_digits_that_are_certain() -> None:
    numbers = pa.table({"spread": [1.2345678901234567, None], "total": [0.30000000000000004, 1.0], "n": [1, 2]})
    sql = {"spread": "round(stddev_samp(value), 20)", "total": "sum(value)", "n": "count(distinct value)"}
    rounded = exact_sums.rounded(numbers, sql)
    assert rounded.to_pydict() == {"spread": [1.23456789012, None], "total": [0.30000000000000004, 1.0], "n": [1, 2]}
    assert exact_sums.rounded(numbers, {**sql, "total": "sum( DISTINCT value)"})["total"].to_pylist() == [0.3, 1.0]


@pytest.mark.spark
def test_a_small_correction_is_published_and_the_account_beside_it_stays_as_it_was(lake: Lake, spark: SparkSession) -> None:
    fields = [{"name": name, "type": kind} for name, kind in (("id", "string"), ("account", "string"), ("amount", "double"))]
    sample = SampleLake(lake, contract(model={"fields": fields}), spark)
    total = {"name": "total", "sql": "sum(amount)", "type": "double"}
    series = Series(MetricContract.model_validate({"metric": "m", "source": "events", "grain": ["account"], "measures": [total]}))
    untouched = [0.1 * place for place in range(1, 40)]

    def publish(arrival: int, *rows: tuple[str, str, float]) -> dict[str, float]:
        lines = [
            f"{key},{account},{amount!r},2024-05-06T12:00:00Z,2024-05-{arrival:02}T08:00:00Z,," for key, account, amount in rows
        ]
        sample.deliver(
            date(2024, 5, arrival), "\n".join(("id,account,amount,event_time,arrived_at,op,corrects", *lines)).encode()
        )
        sample.ingest(date(2024, 5, arrival))
        sample.update()
        pending = find_pending(lake, series)
        restatement_days.restate(lake, sample.contract, series, lambda: spark, pending.starts, Run("run"), pending)
        newest = history.newest(lake, series)[date(2024, 5, 6)]
        return {row["account"]: row["total"] for row in newest.rows} | {"revision": newest.row["revision"]}

    of_small = [(f"s{place}", "small", amount) for place, amount in enumerate(untouched)]
    first = publish(7, ("a", "large", 1e12), ("b", "large", 0.3), *of_small)
    assert first == {"large": 1_000_000_000_000.3, "small": exact(untouched), "revision": 1}
    corrected = publish(8, ("b", "large", 0.6))
    assert corrected == {"large": 1_000_000_000_000.6, "small": exact(untouched), "revision": 2}
