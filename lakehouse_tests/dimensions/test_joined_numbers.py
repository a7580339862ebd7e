"""Every way to a number joins alike: roll-ups, reproduction, numbers as known then, stages, checks and other dataset versions."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from lakehouse import locations
from lakehouse.bronze.ingest import Ingest
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.dimensions import checks
from lakehouse.dispositions.living_rows import Slice
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import reproduce
from lakehouse.gold.restatement import lineage, reconciliation, rollups
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.silver import update as silver_update
from lakehouse.stages import side_tables
from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.joined_histories import BY_TIER, MAILS, RULES, Fact, JoinedHistory
from lakehouse_tests.support.joined_lake import TOTAL

pytestmark = pytest.mark.spark

ONE, TWO, THREE = (date(2024, 1, number) for number in (1, 2, 3))


def change(key: str, at: float, tier: str | None, email: str = "a", op: str = "") -> DimensionRecord:
    return DimensionRecord(key, day(at), op, tier, "north", email, None, day(10))


def fact(key: str, at: float, customer: str, amount: int = 1) -> Fact:
    return Fact(key, amount, day(at), customer, "insert")


def history(lake: Any, spark: Any, **changes: Any) -> JoinedHistory:
    metric = MetricContract.model_validate({"source": "events", **BY_TIER, **changes})
    sample = JoinedHistory(lake, spark, [metric])
    sample.apply(sample.land([fact("a", 0.5, "1"), fact("b", 1.5, "1", 2), fact("c", 1.5, "2", 4), fact("d", 2.5, "2", 8)]))
    sample.apply(sample.land([change("1", 0, "basic"), change("2", 0, "basic", "b")]))
    return sample


def roll_up(sample: JoinedHistory, metric: MetricContract) -> None:
    weekly = Series(metric, Kind.WEEK)
    pending = find_pending(sample.lake, weekly)
    source = sample.sources["events"]
    rollups.restate(sample.lake, source, weekly, sample.session, pending.starts, Run("roll"), pending)


def weekly(sample: JoinedHistory, metric: MetricContract) -> dict[str | None, tuple[int, int]]:
    rows = locations.gold(sample.lake, Series(metric, Kind.WEEK)).read().to_pylist()
    return {row["tier"]: (row["total"], row["mails"]) for row in rows if row["is_latest"]}


@pytest.mark.merge
def test_a_roll_up_of_a_measure_that_is_not_additive_joins_the_days_as_they_were_published(lake, spark) -> None:
    sample = history(lake, spark, publication={**RULES, "rollups": ["week"]}, measures=[TOTAL, MAILS])
    [metric] = sample.metrics
    roll_up(sample, metric)
    assert weekly(sample, metric) == {"basic": (15, 2)}
    sample.apply(sample.land([change("2", 2, "gold", "b")]))
    roll_up(sample, metric)
    assert weekly(sample, metric) == {"basic": (7, 2), "gold": (8, 1)}
    source = sample.land([change("2", 0, "gold", "b")])
    publish, sample.publish = sample.publish, list  # type: ignore[method-assign]
    sample.apply(source)
    made = rollup_numbers(sample, metric)
    assert made == {"basic": (7, 2), "gold": (8, 1)}, "the changed day is not published yet: its published attributes count"
    publish()
    roll_up(sample, metric)
    assert weekly(sample, metric) == {"basic": (3, 1), "gold": (12, 1)}
    for start, revision in revisions(sample, Series(metric, Kind.WEEK)):
        again = reproduce.reproduce(lake, sample.catalog, Series(metric, Kind.WEEK), start, revision, sample.session)
        assert again.equal, again.differences


def rollup_numbers(sample: JoinedHistory, metric: MetricContract) -> dict[str | None, tuple[int, int]]:
    week = Series(metric, Kind.WEEK)
    numbers = rollups.period_numbers(sample.lake, sample.sources["events"], week, sample.session, [week.period(ONE)])
    [rows] = numbers.values()
    return {row["tier"]: (row["total"], row["mails"]) for row in rows.to_pylist()}


def revisions(sample: JoinedHistory, series: Series) -> set[tuple[date, int]]:
    rows = locations.gold(sample.lake, series).read([series.by, "revision"]).to_pylist()
    return {(row[series.by], row["revision"]) for row in rows}


@pytest.mark.merge
def test_a_number_as_known_then_has_the_attributes_that_were_known_then(lake, spark) -> None:
    sample = history(lake, spark)
    [metric] = sample.metrics
    late = DimensionRecord("1", day(0.25), "", "gold", "north", "a", None, day(10) + timedelta(hours=2))
    sample.apply(sample.land([late]))
    known = reproduce.known_at(lake, sample.catalog, metric, [ONE], day(11.5), sample.session)
    assert known[ONE]["tier"].to_pylist() == ["gold"]
    assert reproduce.known_at(lake, sample.catalog, metric, [ONE], day(10), sample.session) == {}, "no fact had arrived"
    facts = Slice([ONE], lake_ids(sample))
    from_facts = [
        reproduce.from_inputs(lake, sample.catalog, metric, facts, sample.session, others_at=day(10) + timedelta(hours=hours))[
            ONE
        ]["tier"].to_pylist()
        for hours in (-1, 1, 2)
    ]
    assert from_facts == [["unknown"], ["basic"], ["gold"]]


def lake_ids(sample: JoinedHistory) -> set[str]:
    return set(lineage.of_silver(sample.lake, sample.sources["events"]).ids)


@pytest.mark.proof
def test_a_number_is_reproduced_after_its_dimension_has_changed_and_only_bronze_is_left(lake, spark) -> None:
    sample = history(lake, spark)
    sample.apply(sample.land([change("1", 1, "gold"), change("2", 1, None)]))
    sample.apply(sample.land([change("1", 1, "gold", op="retract"), change("2", 0, "gold", "c")]))
    assert len(sample.revisions(sample.metrics[0])) > 4
    assert sample.unlike_published() == []


@pytest.mark.proof
def test_a_dimension_that_has_taken_a_file_on_some_days_only_is_reproduced_so(lake, spark) -> None:
    sample = history(lake, spark)
    sample.land([change("1", 0.25, "gold"), change("1", 1.25, "silver")])
    customers = sample.sources["customers"]
    Ingest(lake, customers, sample.session, "run").day(date(2024, 1, 12))
    silver_update.update(lake, customers, sample.session, [TWO], "run")
    assert sample.publish() == [{TWO}]
    silver_update.update(lake, customers, sample.session, [ONE], "run")
    assert sample.publish() == [{ONE}]
    assert sample.unlike_published() == []


@pytest.mark.merge
def test_a_dimension_that_is_joined_twice_is_followed_by_both_keys(lake, spark) -> None:
    twice = [
        {"dimension": "customers", "on": "customer", "columns": [{"tier": "tier"}]},
        {"dimension": "customers", "on": "id", "columns": [{"tier": "other"}]},
    ]
    fields = {"metric": "pairs", "source": "events", "joins": twice, "grain": ["tier", "other"], "measures": [TOTAL]}
    sample = JoinedHistory(lake, spark, [MetricContract.model_validate(fields)])
    sample.apply(sample.land([fact("1", 0.5, "2"), fact("2", 1.5, "3"), fact("9", 2.5, "9")]))
    assert sample.apply(sample.land([change("2", 0, "gold"), change("1", 0, "basic")])) == [{ONE, TWO}]
    rows = locations.gold(lake, Series(sample.metrics[0])).read().to_pylist()
    shown = {row["event_date"]: (row["tier"], row["other"]) for row in rows if row["is_latest"]}
    assert shown == {ONE: ("gold", "basic"), TWO: ("unknown", "gold"), THREE: ("unknown", "unknown")}


@pytest.mark.proof
def test_a_stage_and_the_checks_of_numbers_join_as_a_publication_does(lake, spark) -> None:
    sample = history(lake, spark, window=2, publication=RULES)
    [metric] = sample.metrics
    silver = spark.read.format("delta").load(locations.silver(lake, "events").address).where(f"event_date = DATE'{TWO}'")
    stage, thresholds = lake.stage("s"), side_tables.Thresholds()
    changed = side_tables.changes(spark, lake, stage, Series(metric), side_tables.StagedRows("events", silver, [TWO]), thresholds)
    assert changed.days_changed == 0, "the same rows give the same numbers"
    days = [ONE, TWO, THREE]
    results = reconciliation.check_gold(lake, Series(metric), sample.session, days)
    results += reconciliation.check_published(lake, Series(metric), days)
    assert [result for result in results if not result.passed] == []


@pytest.mark.merge
def test_a_share_of_facts_without_a_match_beyond_the_tolerated_one_is_a_warning_until_their_keys_come(lake, spark) -> None:
    [join] = BY_TIER["joins"]
    sample = history(lake, spark, joins=[{**join, "max_unmatched": 0.25}])
    [metric] = sample.metrics
    sample.apply(sample.land([fact("e", 1.5, "9")]))

    def outcomes() -> dict[date, tuple[bool, int, int]]:
        results = reconciliation.check_published(sample.lake, Series(metric), [ONE, TWO, THREE])
        matched = [result for result in results if result.check == checks.FACTS_MATCHED]
        assert all(result.warns for result in matched)
        return {result.day: (result.passed, result.numbers["facts"], result.numbers["customers_unmatched"]) for result in matched}

    assert checks.FACTS_MATCHED in reconciliation.gold_check_names(Series(metric))
    assert outcomes() == {ONE: (True, 1, 0), TWO: (False, 3, 1), THREE: (True, 1, 0)}
    sample.apply(sample.land([change("9", 1, "gold")]))
    assert outcomes()[TWO] == (True, 3, 0)
    sample.apply(sample.land([change("9", 1, "", op="delete")]))
    assert outcomes()[TWO] == (False, 3, 1)


@pytest.mark.proof
def test_a_dimension_that_is_joined_twice_is_counted_for_each_join(lake, spark) -> None:
    [join] = BY_TIER["joins"]
    home = {"dimension": "customers", "on": "customer", "columns": [{"region": "home"}], "max_unmatched": 0.4}
    sample = history(lake, spark, joins=[{**join, "max_unmatched": 0.4}, home])
    [metric] = sample.metrics
    sample.apply(sample.land([fact("e", 1.5, "9")]))
    results = reconciliation.check_published(sample.lake, Series(metric), [TWO])
    [matched] = [result for result in results if result.check == checks.FACTS_MATCHED]
    assert (matched.passed, matched.numbers) == (True, {"facts": 3, "customers_unmatched": 1})
