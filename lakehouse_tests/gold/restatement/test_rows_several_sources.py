"""Every path that computes a metric from rows has those of all its sources: joins, times, stages, redactions, checks, causes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.dispositions.living_rows import Slice
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import reproduce
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import lineage, metric_query, reconciliation
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.impact import analysis
from lakehouse.ledger import publications
from lakehouse.stages import side_tables
from lakehouse.stages.side_tables import StagedRows, Thresholds
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support import interval_tables
from lakehouse_tests.support.joined_lake import CUSTOMERS
from lakehouse_tests.support.united_lake import COLUMNS, FIRST, SOURCES, TOTAL, TWO_DAYS, Order, UnitedLake, metric, source

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

WEB = [Order("web", "a", "1", 1, "north", 0), Order("web", "b", "2", 2, "south", 3)]
MOBILE = [Order("mobile", "a", "1", 10, "north", 0), Order("mobile", "c", "3", 20, "north", 3)]
PARTNER = [Order("partner", "a", "", 100, "north", 5)]


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


def united_lake(lake: Lake, spark: Any, *metrics: MetricContract) -> UnitedLake:
    return UnitedLake(lake, spark, [*metrics] or [metric()])


def revenue_of(sample: UnitedLake) -> Series:
    return Series(sample.metrics[0])


@pytest.mark.proof
def test_a_metric_begins_with_the_source_that_delivers_first_and_its_first_one_comes_later(lake, spark) -> None:
    sample = united_lake(lake, spark)
    assert sample.deliver(*MOBILE) == [{day(0), day(3)}]
    assert sample.publish() == [set()]
    assert sample.deliver(*WEB) == [{day(0), day(3)}]
    assert sample.deliver(*PARTNER) == [{day(5)}]
    assert sample.published(revenue_of(sample)) == {
        day(0): {"north": (1, 1, 1)},
        day(3): {"north": (20, 1, 1), "south": (2, 1, 1)},
        day(5): {"north": (100, 0, 1)},
    }
    assert find_pending(lake, revenue_of(sample)).starts == set()
    assert sample.unlike_published() == []


@pytest.mark.merge
def test_a_change_of_a_duplicate_restates_nothing(lake, spark) -> None:
    sample = united_lake(lake, spark)
    sample.deliver(*WEB)
    sample.deliver(*MOBILE)
    assert sample.deliver(Order("mobile", "a", "1", 11, "south", 0)) == [set()]
    assert sample.deliver(Order("web", "a", "1", 1, "north", 0, "delete")) == [{day(0)}], "now the other source's row counts"
    assert sample.published(revenue_of(sample))[day(0)] == {"south": (11, 1, 1)}


@pytest.mark.merge
def test_a_publication_names_the_tables_and_files_of_all_sources(lake, spark) -> None:
    sample = united_lake(lake, spark)
    sample.deliver(*WEB)
    sample.land(MOBILE)
    sample.update("mobile")
    sample.land(PARTNER)
    sample.update("partner")
    assert sample.publish() == [{day(3), day(5)}]
    entry = publications.of(lake, "revenue")[-1]
    assert entry.input_versions.keys() == {"silver/web", "silver/mobile", "silver/partner_newest"}
    assert [name.partition(".")[0] for name in entry.trigger["files"]] == ["mobile", "partner"]
    assert entry.keys[f"{day(3)}"]["changed"] == 1
    told = locations.gold(lake, revenue_of(sample)).read(["event_date", "reason", "known_through"], {"is_latest": [True]})
    assert {row["event_date"]: row["reason"] for row in told.to_pylist()}[day(3)] == "late_data"


@pytest.mark.merge
def test_the_checks_count_the_rows_of_all_sources_without_duplicates(lake, spark) -> None:
    sample = united_lake(lake, spark, metric(), metric(TWO_DAYS))
    for delivery in (WEB, MOBILE, PARTNER):
        sample.deliver(*delivery)
    for definition in sample.metrics:
        series, days = Series(definition), [day(number) for number in range(8)]
        assert all(result.passed for result in reconciliation.check_published(lake, series, days)), definition.name
        found = reconciliation.check_gold(lake, series, sample.session, days)
        counted = [result for result in found if result.check == "totals_equal_silver"]
        assert counted, definition.name
        assert all(result.passed for result in counted), definition.name
    sample.land([Order("mobile", "d", "4", 1, "north", 0)])
    sample.update("mobile")
    [differing] = [
        result for result in reconciliation.check_published(lake, revenue_of(sample), [day(0)]) if result.numbers["difference"]
    ]
    assert differing.explanation is not None
    assert differing.explanation.endswith("silver has changed since, and a restatement is pending")


@pytest.mark.proof
def test_a_number_as_known_at_a_time_has_what_each_source_had_delivered(lake, spark) -> None:
    sample = united_lake(lake, spark)
    for delivery in (WEB, MOBILE, PARTNER):
        sample.deliver(*delivery)
    begins, [definition] = datetime(2024, 1, 12, tzinfo=timezone.utc), sample.metrics

    def known(minute: int, first: int | None = None) -> dict[str, int]:
        moment = begins + timedelta(minutes=minute, seconds=1)
        if first is None:
            found = reproduce.known_at(lake, sample.catalog, definition, [day(3)], moment, sample.session)
        else:
            wanted = Slice([day(3)], lineage.of_silver(lake, sample.sources["web"]).ids)
            found = reproduce.from_inputs(lake, sample.catalog, definition, wanted, sample.session, others_at=moment)
        return {} if day(3) not in found else dict(zip(found[day(3)]["store"].to_pylist(), found[day(3)]["total"].to_pylist()))

    assert [known(minute) for minute in range(3)] == [{}, {"south": 2}, {"north": 20, "south": 2}]
    assert [known(minute, 0) for minute in (1, 2)] == [{"south": 2}, {"north": 20, "south": 2}]


JOINED = {
    "metric": "by_tier",
    "sources": SOURCES,
    "joins": [{"dimension": "customers", "on": "store", "columns": ["tier"]}],
    "grain": ["tier"],
    "measures": [TOTAL],
    "publication": {"final_after": 90},
}


@pytest.mark.proof
def test_a_change_of_a_dimension_restates_the_days_of_the_facts_of_every_source(lake, spark) -> None:
    sample = UnitedLake(lake, spark, [])
    sample.sources["customers"] = CUSTOMERS
    sample.metrics = [metric(JOINED)]
    sample.__post_init__()

    def store(*tiers: tuple[int, str]) -> None:
        ends = [datetime.combine(day(number), datetime.min.time(), timezone.utc) for number, _ in tiers]
        rows = [
            {"customer_id": "north", "tier": tier, "valid_from": start, "valid_to": end}
            for (_, tier), start, end in zip(tiers, ends, [*ends[1:], None])
        ]
        interval_tables.write(lake, CUSTOMERS, "north", rows)

    store((0, "basic"))
    for delivery in (WEB, MOBILE, PARTNER):
        sample.deliver(*delivery)
    assert sample.published(revenue_of(sample)) == {
        day(0): {"basic": (11, 2)},
        day(3): {"basic": (20, 1), "unknown": (2, 1)},
        day(5): {"basic": (100, 1)},
    }
    store((0, "basic"), (2, "gold"))
    assert sample.publish() == [{day(3), day(5)}], "facts of the second and of the third source, under other names"
    assert sample.published(revenue_of(sample))[day(3)] == {"gold": (20, 1), "unknown": (2, 1)}
    explained = publications.of(lake, "by_tier")[-1]
    assert {start: what["changed"] for start, what in explained.keys.items()} == {f"{day(3)}": 1, f"{day(5)}": 1}
    assert sample.publish() == [set()]


@pytest.mark.proof
def test_a_redacted_value_is_masked_where_the_metric_shows_it_under_another_name(lake, spark) -> None:
    sample = united_lake(lake, spark)
    sample.deliver(*WEB)
    sample.deliver(*MOBILE, Order("mobile", "e", "5", 5, "secret", 0), Order("mobile", "f", "6", 6, "south", 0))
    sample.deliver(Order("partner", "e", "7", 7, "west", 0))
    series = revenue_of(sample)
    [weekly] = series.rollups
    read = sample.catalog.metrics_of("mobile")
    for key in ("e", "f"):
        redact_fields(lake, sample.sources["mobile"], key, ["shop"], by="dora", reason="asked to", metrics=read)
    for published in (series, weekly):
        stores = locations.gold(lake, published).read(["store"])["store"].to_pylist()
        assert "secret" not in stores
        assert {"north", "west", None} <= set(stores), "the same key in another source is another row"
    assert "south" in locations.gold(lake, weekly).read(["store"])["store"].to_pylist(), "the web has it in that week"
    sample.lake.settings.now = sample.lake.now() + timedelta(hours=1)
    sample.update("mobile")
    sample.publish()
    assert sample.published(series)[day(0)] == {"north": (1, 1, 1), None: (11, 2, 2), "west": (7, 1, 1)}
    made = reproduce.reproduce(lake, sample.catalog, series, day(0), 1, sample.session)
    assert made.equal


@pytest.mark.proof
def test_a_redacted_column_by_which_duplicates_are_told_leaves_nothing_to_compare(lake, spark) -> None:
    sample = united_lake(lake, spark)
    sample.update(sample.land(WEB))
    sample.deliver(*MOBILE)
    redact_fields(lake, sample.sources["mobile"], "a", ["order_id"], by="dora", reason="asked to", metrics=sample.metrics)
    sample.lake.settings.now = sample.lake.now() + timedelta(hours=1)
    sample.update("mobile")
    assert sample.publish() == [{day(0)}], "it equals no other order any more"
    newest = max(number for start, number in sample.revisions(revenue_of(sample)) if start == day(0))
    for revision in (1, newest):
        made = reproduce.reproduce(lake, sample.catalog, revenue_of(sample), day(0), revision, sample.session)
        assert made.equal
        assert ("row_count" in made.compared) == (revision == newest)


@pytest.mark.proof
def test_a_staged_source_is_computed_beside_the_live_rows_of_the_others(lake, spark) -> None:
    sample = united_lake(lake, spark)
    for delivery in (WEB, MOBILE, PARTNER):
        sample.deliver(*delivery)
    staged = sample.spark.read.format("delta").load(locations.silver(lake, "mobile").address)
    staged = staged.where(staged.event_date == day(3)).withColumn("total", staged.total + 5)
    stage, series = lake.stage("fix"), revenue_of(sample)
    found = side_tables.changes(sample.spark, lake, stage, series, StagedRows("mobile", staged, [day(3)]), Thresholds())
    assert [(one.day, one.measures["total"]) for one in found.days] == [(day(3), (22, 27))]
    unchanged = sample.spark.read.format("delta").load(locations.silver(lake, "mobile").address)
    same = StagedRows("mobile", unchanged, [day(0), day(3)])
    assert side_tables.changes(sample.spark, lake, stage, series, same, Thresholds()).days == []


@pytest.mark.proof
def test_the_impact_of_a_key_of_a_further_source_names_the_number_that_it_was_published_with(lake, spark) -> None:
    sample = united_lake(lake, spark)
    for delivery in (WEB, MOBILE):
        sample.deliver(*delivery)
    sample.deliver(Order("mobile", "c", "3", 21, "north", 3))
    impact = analysis.of_key(lake, sample.catalog, "mobile", "c")
    moved = [(one.series, one.version) for one in impact.moved if one.series == "revenue"]
    assert moved == [("revenue", "revenue_v2024-01-04.r2"), ("revenue", "revenue_v2024-01-04.r3")]
    assert [one.period for one in impact.periods] == ["2024-01-04", "2024-W01"]


@pytest.mark.proof
def test_a_source_that_is_added_makes_the_days_pending_that_it_has_rows_of(lake, spark) -> None:
    sample = united_lake(lake, spark, metric(sources=SOURCES[:2]))
    for delivery in (WEB, MOBILE, PARTNER):
        sample.deliver(*delivery)
    sample.metrics = [metric()]
    sample.__post_init__()
    assert sample.publish() == [{day(5)}]
    assert sample.unlike_published() == []


@pytest.mark.merge
def test_sources_in_place_of_one_and_another_first_one_make_all_days_pending(lake, spark) -> None:
    sample = united_lake(lake, spark, metric(sources=[], source="web", deduplicate_by=[]))
    sample.deliver(*WEB)
    mobile = source("mobile", model={"fields": [{"name": name, "type": kind} for name, kind in COLUMNS["web"].items()]})
    sample.sources = {**sample.sources, "mobile": mobile}
    for sources in (["web", "mobile"], ["mobile", "web"]):
        lake.settings.now = lake.now() + timedelta(hours=1)
        sample.metrics = [metric(sources=sources)]
        sample.__post_init__()
        assert find_pending(lake, revenue_of(sample)).starts == {day(0), day(3)}, "versions of other tables cannot be compared"
        assert sample.publish() == [set()]
        assert find_pending(lake, revenue_of(sample)).starts == set()


@pytest.mark.merge
def test_silver_of_a_further_source_that_moves_while_numbers_are_computed_makes_them_anew(lake, spark, monkeypatch) -> None:
    sample = united_lake(lake, spark)
    sample.deliver(*WEB)
    sample.land(MOBILE)
    sample.update("mobile")
    computed, [definition] = metric_query.numbers, sample.metrics
    meanwhile = [[Order("mobile", "c", "3", 30, "north", 3)]]

    def numbers(*arguments: Any) -> Any:
        found = computed(*arguments)
        if meanwhile:
            sample.update(sample.land(meanwhile.pop()))
        return found

    monkeypatch.setattr(metric_query, "numbers", numbers)
    pending = find_pending(lake, Series(definition))
    contract = sample.sources["web"]
    restatement_days.restate(lake, contract, Series(definition), sample.session, pending.starts, Run("run"), pending)
    assert sample.published(Series(definition))[day(3)]["north"] == (30, 1, 1)
    assert pending.further.keys() == {"mobile", "partner_newest"}
