"""A value that Spark cannot compute with holds the day of its metric, and a division by zero is NULL."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.calendar.periods import Kind
from lakehouse.contracts import Catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import failures
from lakehouse.operations.alerts import signals
from lakehouse_tests.support.lake import HEADER, SampleLake, contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark
DAYS = [date(2024, 5, number) for number in (6, 7, 8)]
TEXT = "if(amount > 1000, 'x', if(amount < 10, '2024', '2023'))"
BEFORE = date(2024, 4, 29)
#: Expressions over which the second day's row fails, and the others give values.
FAILING = {
    "a value that does not fit": ("sum(amount)", "decimal(4,0)"),
    "an overflow": ("sum(cast(amount as bigint) * 92233720368547758)", "bigint"),
    "a text that is no number": ("sum(cast(text as int))", "bigint"),
    "a text that is no day": ("max(to_date(text, 'yyyy'))", "date"),
    "a place that an array does not have": ("array(max(amount))[max(amount) div 1000]", "int"),
    "a sum beyond all doubles": ("sum(cast(amount as double) * 1e303)", "double"),
    "a sum beyond all doubles, as a decimal": ("sum(cast(amount as double)) * 1e303 / 1e303", "decimal(9,0)"),
    "the root of a negative number": ("sqrt(100 - sum(amount))", "double"),
    "the root of a negative number, as a decimal": ("sqrt(100 - sum(amount))", "decimal(12,2)"),
    "a sequence that never ends": ("max(size(sequence(0, 1000 - amount, 500)))", "int"),
}


def metric(name: str, *measures: dict[str, Any], **changes: Any) -> MetricContract:
    return MetricContract.model_validate({"metric": name, "source": "events", "measures": list(measures), **changes})


@pytest.fixture
def sample(lake: Lake, spark: SparkSession) -> SampleLake:
    return SampleLake(lake, contract(), spark)


def deliver(sample: SampleLake, arrival: int, *amounts: tuple[date, str, int]) -> None:
    """Take in rows, each with its day, its key and its amount, and bring silver up to date."""
    lines = [f"{key},{amount},{day}T12:00:00Z,2024-05-{arrival:02}T08:00:00Z,," for day, key, amount in amounts]
    sample.deliver(date(2024, 5, arrival), "\n".join((HEADER.removesuffix(",seq"), *lines)).encode())
    sample.ingest(date(2024, 5, arrival))
    sample.update()


def publish(sample: SampleLake, one: MetricContract) -> dict[date, Any]:
    """Follow silver, and give what readers see of the only measure."""
    series = Series(one)
    pending = find_pending(sample.lake, series)
    restatement_days.restate(sample.lake, sample.contract, series, lambda: sample.spark, pending.starts, Run("run"), pending)
    return seen(sample, series)


def seen(sample: SampleLake, series: Series) -> dict[date, Any]:
    name = series.metric.measures[0].name
    return {start: version.rows[0][name] for start, version in history.newest(sample.lake, series).items()}


def test_a_day_without_a_divisor_has_no_value_and_a_day_that_does_not_fit_is_held(sample: SampleLake) -> None:
    share = metric("share", {"name": "share", "sql": "sum(amount) / (sum(amount) - 10)", "type": "double"})
    total = metric("total", {"name": "total", "sql": "sum(amount)", "type": "decimal(4,0)"})
    deliver(sample, 9, (DAYS[0], "a", 20), (DAYS[1], "b", 10), (DAYS[2], "c", 5))
    assert publish(sample, share) == {DAYS[0]: 2.0, DAYS[1]: None, DAYS[2]: -1.0}
    assert publish(sample, total) == {DAYS[0]: 20, DAYS[1]: 10, DAYS[2]: 5}

    deliver(sample, 10, (DAYS[1], "d", 99_999), (DAYS[2], "e", 1))
    assert publish(sample, total) == {DAYS[0]: 20, DAYS[1]: 10, DAYS[2]: 6}
    assert publish(sample, share)[DAYS[1]] == pytest.approx(100009 / 99999)
    failed = failures.failing(sample.lake, "total")
    assert failed[DAYS[1]].explanation == (
        "total of 2024-05-07 cannot be computed (measure total: sum(amount) as decimal(4,0)): 100009 cannot be represented as "
        "Decimal(4, 0). Correct the rows, or the measure in the contract of total (a decimal may have more digits; another "
        "type needs a new dataset_version); the next run then publishes the number"
    )
    catalog = Catalog({"events": sample.contract}, {"total": total})
    assert [alert.kind.value for alert in signals.of_metric(sample.lake, catalog, total)] == ["held"]
    assert find_pending(sample.lake, Series(total)).starts == frozenset(), "the same rows under the same contract fail again"

    capped = metric("total", {"name": "total", "sql": "least(sum(amount), 9999)", "type": "decimal(4,0)"})
    assert publish(sample, capped) == {DAYS[0]: 20, DAYS[1]: 9_999, DAYS[2]: 6}
    assert failures.failing(sample.lake, "total") == {}
    assert [*signals.of_metric(sample.lake, catalog, total)] == []


@pytest.mark.merge
def test_whatever_fails_for_a_value_holds_its_day_and_the_measure_is_named(sample: SampleLake) -> None:
    deliver(sample, 9, (DAYS[0], "a", 20), (DAYS[1], "b", 5_000_000), (DAYS[2], "c", 5))
    good = {"name": "n", "sql": "count(*)", "type": "bigint"}
    for place, (what, (sql, kind)) in enumerate(FAILING.items()):
        one = metric(f"m{place}", good, {"name": "bad", "sql": sql.replace("text", TEXT), "type": kind})
        assert publish(sample, one) == {DAYS[0]: 1, DAYS[2]: 1}, what
        assert {start: one.measure for start, one in failures.failing(sample.lake, f"m{place}").items()} == {DAYS[1]: "bad"}


def test_a_sum_of_changes_that_does_not_fit_is_held_too_and_a_mended_row_ends_it(sample: SampleLake) -> None:
    patched = metric(
        "patched",
        {"name": "total", "sql": "coalesce(sum(amount), 0)", "type": "decimal(4,0)", "additive": True},
        publication={"patch_up_to": 10},
    )
    deliver(sample, 9, (DAYS[0], "a", 20), (DAYS[1], "b", 10))
    publish(sample, patched)
    deliver(sample, 10, (DAYS[0], "c", 1), (DAYS[1], "d", 9_999))
    assert publish(sample, patched) == {DAYS[0]: 21, DAYS[1]: 10}
    assert failures.failing(sample.lake, "patched").keys() == {DAYS[1]}
    deliver(sample, 11, (DAYS[1], "d", 3))
    assert publish(sample, patched) == {DAYS[0]: 21, DAYS[1]: 13}
    assert failures.failing(sample.lake, "patched") == {}


def test_a_longer_period_uses_the_published_number_of_a_held_day_and_may_be_held_itself(sample: SampleLake) -> None:
    weekly = metric(
        "w",
        {"name": "most", "sql": "max(amount)", "type": "decimal(4,0)"},
        {"name": "total", "sql": "sum(amount)", "type": "decimal(4,0)", "additive": True},
        publication={"rollups": ["week"]},
    )
    week = Series(weekly, Kind.WEEK)

    def roll_up() -> dict[date, Any]:
        pending = find_pending(sample.lake, week)
        rollups.restate(sample.lake, sample.contract, week, lambda: sample.spark, pending.starts, Run("roll"), pending)
        return {start: (one.rows[0]["most"], one.rows[0]["total"]) for start, one in history.newest(sample.lake, week).items()}

    deliver(sample, 9, (DAYS[0], "a", 20), (DAYS[1], "b", 10), (BEFORE, "z", 1))
    publish(sample, weekly)
    assert roll_up() == {DAYS[0]: (20, 30), BEFORE: (1, 1)}
    deliver(sample, 10, (DAYS[1], "d", 99_999), (DAYS[2], "e", 30), (BEFORE, "y", 1))
    assert publish(sample, weekly)[DAYS[1]] == 10
    assert roll_up() == {DAYS[0]: (30, 60), BEFORE: (1, 2)}
    deliver(sample, 11, (DAYS[0], "f", 9_000), (DAYS[2], "g", 9_000), (BEFORE, "x", 1))
    publish(sample, weekly)
    assert roll_up() == {DAYS[0]: (30, 60), BEFORE: (1, 3)}
    assert "cannot be computed" in failures.failing(sample.lake, "w_weekly")[DAYS[0]].explanation
