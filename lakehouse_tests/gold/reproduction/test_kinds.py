"""Numbers of every kind are reproduced: under another contract, adjusted, of longer periods, and as known at a time."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path

import pytest

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import reproduce
from lakehouse.gold.reproduction.recompute import ForgottenContractError
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import ingestions
from lakehouse.stewardship import quarantine as quarantine_decisions
from lakehouse_tests.support.lake import csv_file
from lakehouse_tests.support.quarantine_lake import decide
from lakehouse_tests.support.reproducible_lake import (
    BIGGEST,
    METRICS,
    TOTAL,
    WEEK_WATERMARK,
    metric,
    reproducible_lake,
    source_with_colour,
)

pytestmark = pytest.mark.spark


@pytest.mark.merge
def test_a_revision_is_made_under_the_contracts_of_then(lake, spark) -> None:
    reproducible = reproducible_lake(
        lake, spark, [metric("total", TOTAL)], materialization={"reprocess_policy": "append"}, changes={}
    )
    reproducible.deliver(1, "a,1,1,,,red", "a,2,1,,,red")
    reproducible.publish()
    reproducible.at(2)
    doubled = metric("total", TOTAL | {"sql": "2 * sum(amount)"})
    reproducible.metrics = [doubled]
    reproducible.rebuild(source_with_colour(changes={}))
    reproducible.publish()
    numbers = locations.gold(lake, Series(doubled)).read(["total"])["total"].to_pylist()
    assert sorted(numbers) == [3, 4], "both rows, then the newest one twice"
    assert [(one.equal, one.contract_then == one.contract_now, one.certain) for one in reproducible.reproduce_all()] == [
        (True, False, True),
        (True, True, True),
    ]
    for gone in (locations.contract_archive(lake), locations.journal(lake)):
        Path(gone.address).rename(f"{gone}_gone")
    with pytest.raises(ForgottenContractError, match="published under the contract"):
        reproducible.reproduce(doubled, date(2024, 2, 1), 1)
    assert not reproducible.reproduce(doubled, date(2024, 2, 1), 2).certain


@pytest.mark.merge
def test_a_number_of_silver_that_was_not_built_since_its_contract_changed_is_made_again(lake, spark) -> None:
    reproducible = reproducible_lake(lake, spark, METRICS[:1], materialization={"reprocess_policy": "append"}, changes={})
    reproducible.deliver(1, "a,1,1,,,red", "a,2,1,,,red")
    reproducible.publish()
    reproducible.sample.contract = source_with_colour(changes={})
    reproducible.at(2)
    reproducible.publish()
    made = reproducible.reproduce_all()
    assert [(one.name, one.differences) for one in made if not one.equal] == []
    assert [one.rows["total"].to_pylist() for one in made] == [[3], [3]], "preliminary now, and as it was"


@pytest.mark.merge
def test_adjustments_of_a_closed_number_add_up_to_the_reproduced_number(lake, spark) -> None:
    closes = {"publication": {"after_close": "adjust", "final_after": 2}}
    reproducible = reproducible_lake(
        lake, spark, [metric("total", TOTAL, **closes), metric("coloured", TOTAL, grain=["colour"], **closes)]
    )
    reproducible.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    reproducible.publish()
    for day, line in [(5, "c,3,1,insert,,blue"), (6, "d,4,1,insert,,green"), (7, "a,,,delete,,")]:
        reproducible.deliver(day, line)
        reproducible.publish()
    reproducible.vacuum()
    assert {adjustment for one in reproducible.metrics for _, _, adjustment in reproducible.revisions(one)} == {None, 1, 2}
    assert [one.differences for one in reproducible.reproduce_all() if not one.equal] == []
    found = [reproducible.reproduce(reproducible.metrics[0], date(2024, 2, 1), 2, adjustment) for adjustment in (None, 1, 2)]
    assert [one.rows["total"].to_pylist() for one in found] == [[6], [10], [9]]


@pytest.mark.merge
def test_a_longer_period_is_made_again_from_the_days_that_it_names(lake, spark) -> None:
    terms_ = {"publication": {"rollups": ["week"], "after_close": "adjust", "final_after": 20}}
    reproducible = reproducible_lake(
        lake, spark, [metric("sums", TOTAL, **terms_), metric("mixed", TOTAL, BIGGEST, grain=["colour"], **terms_)]
    )

    def follow() -> None:
        for one in reproducible.metrics:
            daily = Series(one)
            pending = find_pending(lake, daily.rollups[0])
            contract_, session = reproducible.sample.contract, lambda: spark
            rollups.restate(lake, contract_, daily.rollups[0], session, pending.starts, Run("run"), pending)

    reproducible.deliver(5, "a,1,5,insert,,red", "b,2,6,insert,,blue")
    reproducible.publish()
    follow()
    for day, line in [(7, "c,3,5,insert,,blue"), (8, "a,,,delete,,"), (26, "d,4,5,insert,,red")]:
        reproducible.deliver(day, line)
        reproducible.publish()
        follow()
    reproducible.vacuum()
    for one in reproducible.metrics:
        weekly = Series(one).rollups[0]
        found = locations.gold(lake, weekly).read([weekly.by, "revision", "adjustment"])
        assert found is not None
        for start, revision, adjustment in sorted({tuple(row.values()) for row in found.to_pylist()}, key=str):
            again = reproduce.reproduce(lake, reproducible.catalog, weekly, start, revision, lambda: spark, adjustment)
            assert (again.name, again.differences) == (again.name, [])


@pytest.mark.merge
def test_what_was_known_at_a_time_is_reproduced_whether_or_not_it_was_published(lake, spark) -> None:
    reproducible = reproducible_lake(lake, spark, METRICS[:1], **WEEK_WATERMARK)
    reproducible.deliver(1, "a,1,1,insert,,red")
    lines = [
        "b,2,2024-02-01T06:00:00Z,2024-02-02T12:00:00Z,insert,,red",
        "a,9,2024-02-01T06:00:00Z,2024-02-03T12:00:00Z,correct,,red",  # of the same file, a day later
        "c,4,2024-02-01T06:00:00Z,2024-02-20T12:00:00Z,insert,,red",  # waits
    ]
    reproducible.at(20)  # the file of an earlier day is read when its last record has arrived
    reproducible.sample.deliver(date(2024, 2, 2), csv_file(lines))
    reproducible.sample.ingest(date(2024, 2, 2))
    reproducible.at(21)
    decide(reproducible.sample, "accept", "c")
    reproducible.at(25)
    row = next(
        (row["ingestion_id"], row["line_number"]) for row in reproducible.sample.bronze("ingestion_id", "id") if row["id"] == "b"
    )
    quarantine_decisions.decide(lake, reproducible.sample.contract, [row], "reject", by="ben", reason="no")

    def at(day: int) -> list[int]:
        when = datetime(2024, 2, day, 23, 30, tzinfo=timezone.utc)
        first = date(2024, 2, 1)
        found = reproduce.known_at(lake, reproducible.catalog, METRICS[0], [first], when, lambda: spark)
        return found[first]["total"].to_pylist() if first in found else []

    assert [at(day) for day in (1, 2, 3, 20, 21, 25)] == [[1], [3], [11], [11], [15], [13]]
    before = datetime(2024, 1, 1, tzinfo=timezone.utc)
    assert reproduce.known_at(lake, reproducible.catalog, METRICS[0], [date(2024, 2, 1)], before, lambda: spark) == {}


class Stopped(BaseException):
    """As little is caught of it as of a SIGKILL."""


@pytest.mark.proof
def test_a_file_whose_run_was_stopped_before_it_was_recorded_counts_in_no_number(lake, spark, monkeypatch) -> None:
    def stop(*_: object) -> None:
        raise Stopped

    reproducible = reproducible_lake(lake, spark, METRICS[:1])
    reproducible.deliver(1, "a,1,1,insert,,red", "b,1,1,insert,,red")
    reproducible.publish()
    with monkeypatch.context() as patched:
        patched.setattr(ingestions, "record", stop)
        with pytest.raises(Stopped):
            reproducible.deliver(2, "a,,,delete,,red")
    (file,) = Path(str(lake.settings.landing)).glob("arrival_date=2024-02-02*")
    elsewhere = file.rename(file.with_name("elsewhere"))
    reproducible.deliver(2, "a,5,1,insert,,red", "c,1,1,insert,,red")  # speaks of the same key
    reproducible.publish()
    assert [reproduction.rows["total"].to_pylist() for reproduction in reproducible.reproduce_all()][1] == [7], (
        "the delete is not known yet"
    )
    assert [reproduction.differences for reproduction in reproducible.reproduce_all() if not reproduction.equal] == []

    elsewhere.rename(file)
    reproducible.sample.ingest(date(2024, 2, 2))
    reproducible.publish()
    assert reproducible.reproduce_all()[-1].rows["total"].to_pylist() in ([2], [7]), (
        "which of the two came last, the hash decides"
    )
    assert [reproduction.differences for reproduction in reproducible.reproduce_all() if not reproduction.equal] == []
