"""A reading in force: silver, the account and every earlier state follow from it."""

from __future__ import annotations

from datetime import date
from itertools import count

import pytest

from lakehouse import locations
from lakehouse.delta import leases
from lakehouse.ledger import rebuild_requests
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.reparse.apply import APPLYING, ReadingError
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.lake import SampleLake, csv_file
from lakehouse_tests.support.quarantine_lake import decide, dispositions_by_key
from lakehouse_tests.support.reread_lake import NAIVE, folder, put, read, reread, source
from lakehouse_tests.support.stopped_commits import COMMITS, stopped_after_each_commit

pytestmark = pytest.mark.spark

#: The commits as they are, without a stop.
COMMITTING = {(module, name): getattr(module, name) for module, name in COMMITS}

FIRST, SECOND = date(2024, 2, 1), date(2024, 2, 2)
#: In New York the first record is of the day before; the third is malformed without its null word.
FILE = [
    "a,1,2024-02-01T02:00:00,2024-02-01T12:00:00Z,insert,,0",
    "b,2,2024-02-01T12:00:00,2024-02-01T12:00:00Z,insert,,0",
    "c,n/a,2024-02-01T12:00:00,2024-02-01T12:00:00Z,insert,,0",
]
CORRECTION = ["d,4,2024-02-01T11:00:00,2024-02-02T12:00:00Z,correct,a,0"]


def lake_with(lake, spark, zone: str = "UTC", **changes) -> SampleLake:
    sample = SampleLake(lake, source(zone, **changes), spark)
    for arrival, lines in ((FIRST, FILE), (SECOND, CORRECTION)):
        sample.deliver(arrival, csv_file(lines))
        sample.ingest(arrival)
        sample.update()
    return sample


@pytest.mark.merge
def test_a_reading_is_the_same_as_ingesting_under_the_new_contract(lake, spark) -> None:
    sample = lake_with(lake, spark)
    before, ids = sample.silver(), sample.inputs()
    sample.contract = source("Asia/Kolkata", source=sample.contract.source.model_dump() | {"null_values": ["n/a"]})
    summary = reread(sample)
    assert (summary.rows_read, summary.rows_otherwise, summary.malformed_before, summary.malformed_after) == (4, 4, 1, 0)
    assert {row[0] for row in sample.silver()} == {"b", "c", "d"}
    days = [date(2024, 1, 31), FIRST, SECOND]
    assert sample.rebuilt(days) == sample.silver()
    assert sample.rebuilt(days, ids) == before
    dispositions_by_key(sample)
    assert sample.pending() == []
    (entry,) = rebuild_requests.all_of(lake, "events")
    assert (entry.operation, entry.malformed_more, entry.runner_id) == ("reparse", -1, "anna")


@pytest.mark.proof
def test_many_rows_are_read_and_applied_by_spark_with_the_same_result(lake, spark) -> None:
    sample = lake_with(lake.with_settings(local_rows=0), spark)
    before, ids = sample.silver(), sample.inputs()
    sample.contract = source("Asia/Kolkata", source=sample.contract.source.model_dump() | {"null_values": ["n/a"]})
    summary = reread(sample)
    assert (summary.rows_otherwise, summary.malformed_before, summary.malformed_after) == (4, 1, 0)
    assert {(row[0], row[1]) for row in sample.silver()} == {("b", FIRST), ("c", FIRST), ("d", FIRST)}
    days = [date(2024, 1, 31), FIRST, SECOND]
    assert sample.rebuilt(days) == sample.silver()
    assert sample.rebuilt(days, ids) == before
    dispositions_by_key(sample)


@pytest.mark.proof
def test_each_reading_replaces_the_one_before_it_and_each_state_can_be_made_again(lake, spark) -> None:
    sample = lake_with(lake, spark)
    days = [date(2024, 1, 31), FIRST, SECOND]
    states = [(sample.contract, sample.inputs(), sample.silver())]
    for number, zone in enumerate(["Etc/GMT-14", "Asia/Kolkata", "UTC"]):
        sample.contract = source(zone)
        assert reread(sample, f"reading{number}").rows_otherwise == 3
        states.append((sample.contract, sample.inputs(), sample.silver()))
    assert states[0][2] == states[3][2]
    for its_contract, ids, silver in states:
        sample.contract = its_contract
        assert sample.rebuilt(days, ids) == silver
    dispositions_by_key(sample)


@pytest.mark.merge
def test_a_row_may_become_malformed_and_change_its_key_its_kind_and_its_order(lake, spark) -> None:
    sample = lake_with(lake, spark)
    before, ids = sample.silver(), sample.inputs()
    days = [date(2024, 1, 31), FIRST, SECOND]
    fields = [{"name": "id", "type": "string", "column": "amount"}, {"name": "amount", "type": "int"}]
    sample.contract = source(
        model={"fields": fields},
        changes={"op": "op", "insert_words": ["correct"], "correct_words": ["insert"]},
        order={"sequence": "amount"},
    )
    summary = reread(sample)
    assert (summary.rows_otherwise, summary.malformed_after) == (4, 1), "a malformed row keeps what can be read of its key"
    assert {row[0] for row in sample.silver()} == {"1", "2", "4"}
    assert sample.rebuilt(days) == sample.silver()
    dispositions_by_key(sample)
    sample.contract = source(clocks={**NAIVE, "timezone": "Etc/GMT+12", "max_ahead": "PT1H"})
    summary = reread(sample, "second")
    assert summary.malformed_after > 0
    dispositions_by_key(sample)
    sample.contract = source()
    assert sample.rebuilt(days, ids) == before


def test_where_nothing_differs_nothing_is_recorded(lake, spark) -> None:
    sample = lake_with(lake, spark)
    summary = reread(sample)
    assert (summary.rows_read, summary.rows_otherwise, summary.days) == (4, 0, [])
    assert rebuild_requests.all_of(lake, "events") == []
    assert locations.readings(lake, "events").version() == -1


def test_only_the_arrival_days_of_the_range_are_read(lake, spark) -> None:
    sample = lake_with(lake, spark)
    sample.contract = source("Asia/Kolkata")
    summary = read(sample, folder(lake, "reading"), SECOND, SECOND)
    assert (summary.rows_read, summary.rows_otherwise) == (1, 1)
    assert [after["record_key"] for _, after in summary.samples] == ["d"]


@pytest.mark.proof
def test_stopped_after_any_commit_and_started_again(lake, spark) -> None:
    sample = lake_with(lake, spark)
    before, ids = sample.silver(), sample.inputs()
    sample.contract = source("Asia/Kolkata", source=sample.contract.source.model_dump() | {"null_values": ["n/a"]})
    attempts = count()

    def reparse() -> None:
        with pytest.MonkeyPatch.context() as unpatched:
            for module, name in COMMITS:
                unpatched.setattr(module, name, COMMITTING[module, name])
            into = folder(lake, f"reading{next(attempts)}")
            read(sample, into)
        put(sample, into)

    assert stopped_after_each_commit(reparse) >= 6
    assert stopped_after_each_commit(sample.update) >= 2
    assert {row[0] for row in sample.silver()} == {"b", "c", "d"}
    days = [date(2024, 1, 31), FIRST, SECOND]
    assert sample.rebuilt(days) == sample.silver()
    assert sample.rebuilt(days, ids) == before
    dispositions_by_key(sample)
    (entry,) = rebuild_requests.all_of(lake, "events")
    assert (entry.rows_judged_otherwise, entry.malformed_more) == (4, -1)
    assert sample.pending() == []


@pytest.mark.merge
def test_a_reading_that_is_no_longer_current_is_refused(lake, spark) -> None:
    sample = lake_with(lake, spark)
    sample.contract = source("Asia/Kolkata")
    first, second = folder(lake, "first"), folder(lake, "second")
    read(sample, first)
    read(sample, second, FIRST, FIRST)
    with leases.held(locations.readings(lake, "events"), APPLYING), pytest.raises(ReadingError, match="another process"):
        put(sample, first)
    put(sample, first)
    with pytest.raises(ReadingError, match="before another reading was put into force: read the records again"):
        put(sample, second)
    assert put(sample, first).days == sample.pending(), "the same one again is no other"
    sample.contract = source("America/New_York")
    third = folder(lake, "third")
    read(sample, third)
    sample.contract = source("Asia/Kolkata")
    with pytest.raises(ReadingError, match="was made under contract"):
        put(sample, third)


@pytest.mark.merge
def test_decisions_about_rows_hold_for_their_new_reading(lake, spark) -> None:
    sample = lake_with(lake, spark, quality={"row_rules": [{"sql": "amount < 4", "severity": "quarantine"}]})
    decide(sample, StewardVerdict.ACCEPT, "d")
    sample.update()
    before, ids = sample.silver(), sample.inputs()
    assert {row[0] for row in before} == {"b", "d"}
    assert len(sample.rebuilt([FIRST], ids)) == 2
    fields = [{"name": "id", "type": "string", "column": "amount"}, {"name": "amount", "type": "int"}]
    sample.contract = source(
        quality={"row_rules": [{"sql": "amount < 4", "severity": "quarantine"}]},
        model={"fields": fields},
        changes={"op": "op"},
    )
    reread(sample)
    assert {row[0] for row in sample.silver()} == {"1", "2", "4"}
    dispositions_by_key(sample)
    days = [date(2024, 1, 31), FIRST, SECOND]
    sample.contract = source(quality={"row_rules": [{"sql": "amount < 4", "severity": "quarantine"}]})
    assert sample.rebuilt(days, ids) == before


@pytest.mark.proof
def test_a_redaction_follows_a_row_to_its_new_key(lake, spark) -> None:
    sample = lake_with(lake, spark)
    redact_fields(lake, sample.contract, "b", ["amount"], by="ben", reason="asked to")
    sample.update()
    fields = [{"name": "key", "type": "string", "column": "event_time"}, {"name": "total", "type": "int", "column": "amount"}]
    sample.contract = source(model={"fields": fields}, primary_key=["key"], changes={"op": "op"})
    reread(sample)
    rows = locations.silver(lake, "events").read(["record_key", "total"])
    assert rows is not None
    assert dict(zip(rows["record_key"].to_pylist(), rows["total"].to_pylist())) == {
        "2024-02-01T02:00:00": 1,
        "2024-02-01T12:00:00": None,
        "2024-02-01T11:00:00": 4,
    }


@pytest.mark.proof
def test_a_later_redaction_hides_what_earlier_states_show_under_another_key(lake, spark) -> None:
    sample = lake_with(lake, spark)
    ids, former = sample.inputs(), sample.contract
    fields = [{"name": "key", "type": "string", "column": "event_time"}, {"name": "amount", "type": "int"}]
    sample.contract = source(model={"fields": fields}, primary_key=["key"], changes={"op": "op"})
    reread(sample)
    redact_fields(lake, sample.contract, "2024-02-01T12:00:00", ["amount"], by="ben", reason="asked to")
    sample.update()
    assert {(row[0], row[2]) for row in sample.silver()} == {
        ("2024-02-01T02:00:00", 1),
        ("2024-02-01T12:00:00", None),
        ("2024-02-01T11:00:00", 4),
    }
    sample.contract = former
    assert {(row[0], row[2]) for row in sample.rebuilt([date(2024, 1, 31), FIRST, SECOND], ids)} == {("b", None), ("d", 4)}


@pytest.mark.proof
def test_rows_under_a_policy_that_replaces_days_are_read_again(lake, spark) -> None:
    policy = {"changes": {}, "materialization": {"reprocess_policy": "overwrite_partition_safe"}}
    sample = lake_with(lake, spark, **policy)
    before, ids = sample.silver(), sample.inputs()
    days = [date(2024, 1, 31), FIRST, SECOND]
    sample.contract = source("Asia/Kolkata", source=sample.contract.source.model_dump() | {"null_values": ["n/a"]}, **policy)
    reread(sample)
    assert sample.rebuilt(days) == sample.silver()
    assert sample.rebuilt(days, ids) == before
    dispositions_by_key(sample)
