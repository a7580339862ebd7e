"""Rows that the contract does not admit wait for a steward, whose decision holds: in silver, in the account, in any order."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions.row_frames import RuleError
from lakehouse.ledger import decisions
from lakehouse.ledger.row_states import Disposition
from lakehouse.silver import audit_log
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter, StewardError
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.quarantine_lake import (
    DAY,
    FIRST_FILE,
    LATE,
    ON_TIME,
    SECOND_FILE,
    WEEK_WATERMARK,
    decide,
    dispositions_by_key,
    lake_with,
    quarantine_statuses,
    silver_amounts,
)
from lakehouse_tests.support.stopped_commits import stopped_after_each_commit

pytestmark = pytest.mark.spark


@pytest.mark.merge
def test_a_row_beyond_the_watermark_waits_and_touches_nothing(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    assert silver_amounts(sample) == {("a", 1), ("d", 4)}, "a barred correction ends no other row"
    assert quarantine_statuses(sample) == {"b": "open", "c": "open"}
    assert dispositions_by_key(sample) == {
        "a": Disposition.APPLIED,
        "b": Disposition.QUARANTINED,
        "c": Disposition.QUARANTINED,
        "d": Disposition.APPLIED,
    }
    (entry,) = quarantine.entries(lake, sample.contract, QuarantineFilter(key="b"))
    assert entry["quarantine_reason"] == "beyond_watermark"
    assert entry["quarantine_detail"] == "19 d 6 h after the event; the cutoff is 7 d"
    assert entry["quarantine_review_by"] == datetime(2024, 3, 5, 12, tzinfo=timezone.utc)


@pytest.mark.merge
def test_accepting_restates_exactly_its_days_and_a_later_decision_takes_it_back(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    taken = decide(sample, "accept", "b", "c")
    assert (taken.rows, taken.days) == (2, [DAY])
    assert sample.pending() == [DAY]
    assert set(sample.update().changes) == {DAY}
    assert silver_amounts(sample) == {("b", 2), ("c", 3), ("d", 4)}, "the correction ended the row that it corrects"
    assert quarantine_statuses(sample) == {"b": "accepted", "c": "accepted"}
    assert dispositions_by_key(sample)["a"] is Disposition.SUPERSEDED

    decide(sample, "reject", "c", by="ben", reason="not theirs to correct")
    sample.update()
    assert silver_amounts(sample) == {("a", 1), ("b", 2), ("d", 4)}, "what a barred row had ended is back"
    assert quarantine_statuses(sample) == {"b": "accepted", "c": "rejected"}
    assert dispositions_by_key(sample)["c"] is Disposition.REJECTED
    decide(sample, "duplicate", "b")
    sample.update()
    assert silver_amounts(sample) == {("a", 1), ("d", 4)}
    assert dispositions_by_key(sample)["b"] is Disposition.DUPLICATE
    (row,) = dispositions_account.rows(lake, sample.contract, keys=["c"])
    assert row.decision == "rejected by ben on 2024-03-01: not theirs to correct"
    assert sample.rebuilt([DAY, LATE]) == sample.silver(), "a rebuild applies the decisions again (R3)"


@pytest.mark.merge
def test_the_same_decision_again_adds_nothing(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    decide(sample, "accept", "b")
    sample.update()
    version = sample.silver_version()
    again = decide(sample, "accept", "b")
    assert (again.rows, again.repeated, again.days) == (0, 1, [])
    assert sample.pending() == []
    assert sample.silver_version() == version


@pytest.mark.merge
def test_a_newer_row_of_an_accepted_key_counts_and_a_barred_one_does_not(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    decide(sample, "accept", "b")
    sample.update()
    later = [
        "b,9,2024-02-20T06:00:00Z,2024-02-21T12:00:00Z,correct,,0",
        "d,8,2024-02-01T06:00:00Z,2024-02-21T12:00:00Z,correct,,0",
    ]
    sample.deliver(date(2024, 2, 21), csv_file(later))
    sample.ingest(date(2024, 2, 21))
    sample.update()
    assert silver_amounts(sample) == {("a", 1), ("b", 9), ("d", 4)}
    assert sample.rebuilt([DAY, LATE]) == sample.silver()


@pytest.mark.parametrize(
    ("lateness", "expected"),
    [
        ({"watermark": "P7D", "beyond": "restate"}, {"b": Disposition.APPLIED}),
        ({"watermark": "P7D", "beyond": "drop"}, {"b": Disposition.DROPPED}),
        ({"watermark": "P30D", "beyond": "drop"}, {"b": Disposition.APPLIED}),
        (
            {"watermark": "P7D", "beyond": "drop", "by": {"column": "change_op", "values": {"insert": {"beyond": "quarantine"}}}},
            {"b": Disposition.QUARANTINED, "c": Disposition.DROPPED},
        ),
    ],
)
def test_each_policy_makes_its_disposition(lake, spark, lateness: dict[str, Any], expected: dict[str, Disposition]) -> None:
    sample = lake_with(lake, spark, {"lateness": lateness}, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    found = dispositions_by_key(sample)
    assert {key: found[key] for key in expected} == expected
    assert sample.rebuilt([DAY, LATE]) == sample.silver()


@pytest.mark.merge
def test_row_rules_bar_or_count_as_severe_as_they_are(lake, spark) -> None:
    rules = [
        {"name": "small", "sql": "amount < 4", "severity": "reject"},
        {"name": "odd", "sql": "amount % 2 = 1"},
        {"name": "known", "sql": "id <> 'c'", "severity": "warn"},
    ]
    sample = lake_with(lake, spark, {"quality": {"row_rules": rules}}, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    assert dispositions_by_key(sample) == {
        "a": Disposition.SUPERSEDED,  # c, which is only counted, corrects it
        "b": Disposition.QUARANTINED,
        "c": Disposition.APPLIED,
        "d": Disposition.REJECTED,
    }
    (entry,) = quarantine.entries(lake, sample.contract, QuarantineFilter(cause="rule_failed"))
    assert (entry["record_key"], entry["quarantine_detail"]) == ("b", "fails odd")


def test_a_rule_that_is_no_condition_is_named(lake, spark) -> None:
    sample = SampleLake(lake, contract(quality={"row_rules": [{"name": "typo", "sql": "amont > 0"}]}), spark)
    sample.deliver(ON_TIME, csv_file(FIRST_FILE))
    with pytest.raises(RuleError, match="events: typo: 'amont > 0' is no condition"):
        sample.ingest(ON_TIME)
    sample.contract = contract(quality={"row_rules": [{"name": "typo", "sql": "amount > 0"}]})
    assert len(sample.ingest(ON_TIME).ingested) == 1, "mended, the file goes on where it stopped"


@pytest.mark.merge
def test_a_rule_that_cannot_be_worked_out_for_a_row_holds_nothing_up(lake, spark) -> None:
    rules = [{"name": "share", "sql": "10 / (amount - 1) > 4"}]  # a division by zero for the first row
    sample = lake_with(lake, spark, {"quality": {"row_rules": rules}}, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    assert quarantine_statuses(sample) == {"d": "open"}
    assert dispositions_by_key(sample)["a"] is Disposition.SUPERSEDED


def test_a_watermark_of_no_time_at_all_bars_every_late_row(lake, spark) -> None:
    sample = lake_with(lake, spark, {"lateness": {"watermark": "PT0S", "beyond": "quarantine"}}, (ON_TIME, FIRST_FILE))
    assert quarantine_statuses(sample) == {"a": "open"}


@pytest.mark.merge
def test_a_field_that_is_new_in_the_contract_stops_no_steward(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    fields = [{"name": name, "type": "string" if name != "amount" else "int"} for name in ("id", "amount", "colour")]
    sample.contract = contract(model={"fields": fields}, **WEEK_WATERMARK)
    decide(sample, "accept", "b")
    dispositions_by_key(sample)
    assert set(sample.update().changes) == {DAY}
    assert silver_amounts(sample) == {("a", 1), ("b", 2), ("d", 4)}


def test_rows_past_their_deadline_can_be_asked_for(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (LATE, SECOND_FILE))
    assert quarantine_statuses(sample, status="open", overdue=True) == {}
    lake.settings.now = datetime(2024, 2, 20, 12, tzinfo=timezone.utc) + timedelta(days=15)
    assert set(quarantine_statuses(sample, status="open", overdue=True)) == {"b", "c"}


@pytest.mark.merge
def test_a_decision_needs_a_row_a_name_and_a_reason(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (LATE, SECOND_FILE))
    with pytest.raises(StewardError, match="needs a name"):
        decide(sample, "accept", "b", by=" ")
    with pytest.raises(StewardError, match="nowhere:7 is not a well-formed row"):
        quarantine.decide(lake, sample.contract, [("nowhere", 7)], "accept", by="anna", reason="because")


@pytest.mark.merge
def test_a_redacted_field_is_empty_everywhere_but_in_bronze(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    assert redact_fields(lake, sample.contract, "a", ["amount"], by="dora", reason="asked to") == [DAY]
    redact_fields(lake, sample.contract, "b", ["amount"], by="dora", reason="asked to")
    assert set(sample.update().changes) == {DAY}
    assert silver_amounts(sample) == {("a", None), ("d", 4)}
    assert sample.rebuilt([DAY, LATE]) == sample.silver()
    (entry,) = quarantine.entries(lake, sample.contract, QuarantineFilter(key="b"))
    assert (entry["amount"], entry["raw_payload"]) == (None, None)
    assert [row["amount"] for row in sample.bronze("amount")] == [1, 2, 3, 4]
    decide(sample, "accept", "b")
    sample.update()
    assert ("b", None) in silver_amounts(sample), "accepted, it stays hidden"
    version = sample.silver_version()
    assert redact_fields(lake, sample.contract, "a", ["amount"], by="dora", reason="asked to") == [DAY]
    assert sample.pending() == []
    assert sample.silver_version() == version


@pytest.mark.parametrize(
    ("key", "fields", "message"),
    [
        ("a", ["colour"], "colour: not among"),
        ("a", ["id"], "id is part of the key"),
        ("z", ["amount"], "no row of bronze/events"),
    ],
)
def test_fields_that_cannot_be_redacted_are_reported(lake, spark, key: str, fields: list[str], message: str) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE))
    with pytest.raises(StewardError, match=message):
        redact_fields(lake, sample.contract, key, fields, by="dora", reason="asked to")


@pytest.mark.proof
def test_a_decision_stopped_after_any_commit_is_taken_once(lake, spark) -> None:
    sample = lake_with(lake, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))

    def accept() -> None:
        decide(sample, "accept", "b", "c")
        if sample.pending():
            sample.update()

    # The decision, both books, silver, the audit, the record of silver's run.
    assert stopped_after_each_commit(accept) >= 5
    assert len(decisions.all_of(lake, "events")) == 2
    assert silver_amounts(sample) == {("b", 2), ("c", 3), ("d", 4)}
    assert quarantine_statuses(sample) == {"b": "accepted", "c": "accepted"}
    dispositions_by_key(sample)
    told = audit_log.read(lake, "events").to_pylist()
    assert sorted((row["event_id"], row["action_type"], row["actor"]) for row in told) == [
        ("a", "steward", "anna"),
        ("b", "steward", "anna"),
        ("c", "steward", "anna"),
    ]
