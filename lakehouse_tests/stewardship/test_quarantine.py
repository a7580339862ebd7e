"""Rows that the contract does not admit wait for a steward, whose decision holds: in silver, in the account, in any order."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions.row_rules import RuleError
from lakehouse.ledger import decisions
from lakehouse.ledger.row_states import Disposition
from lakehouse.silver import audit_log
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter, StewardError
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.lake import Lake, contract, csv_file
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
def test_a_row_beyond_the_watermark_waits_and_touches_nothing(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    assert silver_amounts(lake) == {("a", 1), ("d", 4)}, "a barred correction ends no other row"
    assert quarantine_statuses(lake) == {"b": "open", "c": "open"}
    assert dispositions_by_key(lake) == {
        "a": Disposition.APPLIED,
        "b": Disposition.QUARANTINED,
        "c": Disposition.QUARANTINED,
        "d": Disposition.APPLIED,
    }
    (entry,) = quarantine.entries(settings, lake.contract, QuarantineFilter(key="b"))
    assert entry["quarantine_reason"] == "beyond_watermark"
    assert entry["quarantine_detail"] == "19 d 6 h after the event; the cutoff is 7 d"
    assert entry["quarantine_review_by"] == datetime(2024, 3, 5, 12, tzinfo=timezone.utc)


@pytest.mark.merge
def test_accepting_restates_exactly_its_days_and_a_later_decision_takes_it_back(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    taken = decide(lake, "accept", "b", "c")
    assert (taken.rows, taken.days) == (2, [DAY])
    assert lake.pending() == [DAY]
    assert set(lake.update().changes) == {DAY}
    assert silver_amounts(lake) == {("b", 2), ("c", 3), ("d", 4)}, "the correction ended the row that it corrects"
    assert quarantine_statuses(lake) == {"b": "accepted", "c": "accepted"}
    assert dispositions_by_key(lake)["a"] is Disposition.SUPERSEDED

    decide(lake, "reject", "c", by="ben", reason="not theirs to correct")
    lake.update()
    assert silver_amounts(lake) == {("a", 1), ("b", 2), ("d", 4)}, "what a barred row had ended is back"
    assert quarantine_statuses(lake) == {"b": "accepted", "c": "rejected"}
    assert dispositions_by_key(lake)["c"] is Disposition.REJECTED
    decide(lake, "duplicate", "b")
    lake.update()
    assert silver_amounts(lake) == {("a", 1), ("d", 4)}
    assert dispositions_by_key(lake)["b"] is Disposition.DUPLICATE
    (row,) = dispositions_account.rows(settings, lake.contract, keys=["c"])
    assert row.decision == "rejected by ben on 2024-03-01: not theirs to correct"
    assert lake.rebuilt([DAY, LATE]) == lake.silver(), "a rebuild applies the decisions again (R3)"


@pytest.mark.merge
def test_the_same_decision_again_adds_nothing(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    decide(lake, "accept", "b")
    lake.update()
    version = lake.silver_version()
    again = decide(lake, "accept", "b")
    assert (again.rows, again.repeated, again.days) == (0, 1, [])
    assert lake.pending() == []
    assert lake.silver_version() == version


@pytest.mark.merge
def test_a_newer_row_of_an_accepted_key_counts_and_a_barred_one_does_not(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    decide(lake, "accept", "b")
    lake.update()
    later = [
        "b,9,2024-02-20T06:00:00Z,2024-02-21T12:00:00Z,correct,,0",
        "d,8,2024-02-01T06:00:00Z,2024-02-21T12:00:00Z,correct,,0",
    ]
    lake.deliver(date(2024, 2, 21), csv_file(later))
    lake.ingest(date(2024, 2, 21))
    lake.update()
    assert silver_amounts(lake) == {("a", 1), ("b", 9), ("d", 4)}
    assert lake.rebuilt([DAY, LATE]) == lake.silver()


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
def test_each_policy_makes_its_disposition(settings, spark, lateness: dict[str, Any], expected: dict[str, Disposition]) -> None:
    lake = lake_with(settings, spark, {"lateness": lateness}, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    found = dispositions_by_key(lake)
    assert {key: found[key] for key in expected} == expected
    assert lake.rebuilt([DAY, LATE]) == lake.silver()


@pytest.mark.merge
def test_row_rules_bar_or_count_as_severe_as_they_are(settings, spark) -> None:
    rules = [
        {"name": "small", "sql": "amount < 4", "severity": "reject"},
        {"name": "odd", "sql": "amount % 2 = 1"},
        {"name": "known", "sql": "id <> 'c'", "severity": "warn"},
    ]
    lake = lake_with(settings, spark, {"quality": {"row_rules": rules}}, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    assert dispositions_by_key(lake) == {
        "a": Disposition.SUPERSEDED,  # c, which is only counted, corrects it
        "b": Disposition.QUARANTINED,
        "c": Disposition.APPLIED,
        "d": Disposition.REJECTED,
    }
    (entry,) = quarantine.entries(settings, lake.contract, QuarantineFilter(cause="rule_failed"))
    assert (entry["record_key"], entry["quarantine_detail"]) == ("b", "fails odd")


def test_a_rule_that_is_no_condition_is_named(settings, spark) -> None:
    lake = Lake(settings, contract(quality={"row_rules": [{"name": "typo", "sql": "amont > 0"}]}), spark)
    lake.deliver(ON_TIME, csv_file(FIRST_FILE))
    with pytest.raises(RuleError, match="events: typo: 'amont > 0' is no condition"):
        lake.ingest(ON_TIME)
    lake.contract = contract(quality={"row_rules": [{"name": "typo", "sql": "amount > 0"}]})
    assert len(lake.ingest(ON_TIME).ingested) == 1, "mended, the file goes on where it stopped"


@pytest.mark.merge
def test_a_rule_that_cannot_be_worked_out_for_a_row_holds_nothing_up(settings, spark) -> None:
    rules = [{"name": "share", "sql": "10 / (amount - 1) > 4"}]  # a division by zero for the first row
    lake = lake_with(settings, spark, {"quality": {"row_rules": rules}}, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    assert quarantine_statuses(lake) == {"d": "open"}
    assert dispositions_by_key(lake)["a"] is Disposition.SUPERSEDED


def test_a_watermark_of_no_time_at_all_bars_every_late_row(settings, spark) -> None:
    lake = lake_with(settings, spark, {"lateness": {"watermark": "PT0S", "beyond": "quarantine"}}, (ON_TIME, FIRST_FILE))
    assert quarantine_statuses(lake) == {"a": "open"}


@pytest.mark.merge
def test_a_field_that_is_new_in_the_contract_stops_no_steward(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    fields = [{"name": name, "type": "string" if name != "amount" else "int"} for name in ("id", "amount", "colour")]
    lake.contract = contract(model={"fields": fields}, **WEEK_WATERMARK)
    decide(lake, "accept", "b")
    dispositions_by_key(lake)
    assert set(lake.update().changes) == {DAY}
    assert silver_amounts(lake) == {("a", 1), ("b", 2), ("d", 4)}


def test_rows_past_their_deadline_can_be_asked_for(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK_WATERMARK, (LATE, SECOND_FILE))
    assert quarantine_statuses(lake, status="open", overdue=True) == {}
    settings.now = datetime(2024, 2, 20, 12, tzinfo=timezone.utc) + timedelta(days=15)
    assert set(quarantine_statuses(lake, status="open", overdue=True)) == {"b", "c"}


@pytest.mark.merge
def test_a_decision_needs_a_row_a_name_and_a_reason(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK_WATERMARK, (LATE, SECOND_FILE))
    with pytest.raises(StewardError, match="needs a name"):
        decide(lake, "accept", "b", by=" ")
    with pytest.raises(StewardError, match="nowhere:7 is not a well-formed row"):
        quarantine.decide(settings, lake.contract, [("nowhere", 7)], "accept", by="anna", reason="because")


@pytest.mark.merge
def test_a_redacted_field_is_empty_everywhere_but_in_bronze(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))
    assert redact_fields(settings, lake.contract, "a", ["amount"], by="dora", reason="asked to") == [DAY]
    redact_fields(settings, lake.contract, "b", ["amount"], by="dora", reason="asked to")
    assert set(lake.update().changes) == {DAY}
    assert silver_amounts(lake) == {("a", None), ("d", 4)}
    assert lake.rebuilt([DAY, LATE]) == lake.silver()
    (entry,) = quarantine.entries(settings, lake.contract, QuarantineFilter(key="b"))
    assert (entry["amount"], entry["raw_payload"]) == (None, None)
    assert [row["amount"] for row in lake.bronze("amount")] == [1, 2, 3, 4]
    decide(lake, "accept", "b")
    lake.update()
    assert ("b", None) in silver_amounts(lake), "accepted, it stays hidden"
    version = lake.silver_version()
    assert redact_fields(settings, lake.contract, "a", ["amount"], by="dora", reason="asked to") == [DAY]
    assert lake.pending() == []
    assert lake.silver_version() == version


@pytest.mark.parametrize(
    ("key", "fields", "message"),
    [
        ("a", ["colour"], "colour: not among"),
        ("a", ["id"], "id is part of the key"),
        ("z", ["amount"], "no row of bronze/events"),
    ],
)
def test_fields_that_cannot_be_redacted_are_reported(settings, spark, key: str, fields: list[str], message: str) -> None:
    lake = lake_with(settings, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE))
    with pytest.raises(StewardError, match=message):
        redact_fields(settings, lake.contract, key, fields, by="dora", reason="asked to")


@pytest.mark.proof
def test_a_decision_stopped_after_any_commit_is_taken_once(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK_WATERMARK, (ON_TIME, FIRST_FILE), (LATE, SECOND_FILE))

    def accept() -> None:
        decide(lake, "accept", "b", "c")
        if lake.pending():
            lake.update()

    # The decision, both books, silver, the audit, the record of silver's run.
    assert stopped_after_each_commit(accept) >= 5
    assert len(decisions.all_of(settings, "events")) == 2
    assert silver_amounts(lake) == {("b", 2), ("c", 3), ("d", 4)}
    assert quarantine_statuses(lake) == {"b": "accepted", "c": "accepted"}
    dispositions_by_key(lake)
    told = audit_log.read(settings, "events").to_pylist()
    assert sorted((row["event_id"], row["action_type"], row["actor"]) for row in told) == [
        ("a", "steward", "anna"),
        ("b", "steward", "anna"),
        ("c", "steward", "anna"),
    ]
