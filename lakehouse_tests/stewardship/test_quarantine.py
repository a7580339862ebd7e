"""Rows that the contract bars wait for a steward, and what a steward says holds: in silver, in the books, in any order."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions.row_rules import RuleError
from lakehouse.dispositions.verdicts import Disposition
from lakehouse.ledger import decisions
from lakehouse.silver import audit_log
from lakehouse.stewardship import decide as stewardship_decide
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.decide import StewardError
from lakehouse.stewardship.quarantine import Wanted
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.silver.test_interruption import stopped_behind_each_commit
from lakehouse_tests.support.lake import Lake, contract, csv_file

if TYPE_CHECKING:
    from lakehouse.settings import Settings

pytestmark = pytest.mark.spark

ON_TIME, LATE = date(2024, 2, 1), date(2024, 2, 20)
DAY = date(2024, 2, 1)
#: b arrives 19 days late; c corrects a under another key, as late.
FIRST = ["a,1,2024-02-01T06:00:00Z,2024-02-01T12:00:00Z,insert,,0"]
SECOND = [
    "b,2,2024-02-01T06:00:00Z,2024-02-20T12:00:00Z,insert,,0",
    "c,3,2024-02-01T06:00:00Z,2024-02-20T12:00:00Z,correct,a,0",
    "d,4,2024-02-20T06:00:00Z,2024-02-20T12:00:00Z,insert,,0",
]
WEEK: dict[str, Any] = {"lateness": {"watermark": "P7D", "beyond": "quarantine"}}


def lake_with(settings: Settings, spark: Any, said: dict[str, Any], *files: tuple[date, list[str]]) -> Lake:
    lake = Lake(settings, contract(**said), spark)
    for arrival, lines in files:
        lake.deliver(arrival, csv_file(lines))
        lake.ingest(arrival)
        lake.update()
    return lake


def content(lake: Lake) -> set[tuple[str, int]]:
    return {(row[0], row[2]) for row in lake.silver()}


def waiting(lake: Lake, **wanted: Any) -> dict[str, str]:
    """Status by key."""
    found = quarantine.entries(lake.settings, lake.contract, Wanted(**{"status": None, **wanted}))
    return {entry["record_key"]: entry["quarantine_status"] for entry in found}


def became(lake: Lake) -> dict[str, Disposition]:
    """Disposition by key, from the account and, the same, from the table for SQL."""
    rows = dispositions_account.rows(lake.settings, lake.contract)
    table = table_io.read(locations.dispositions(lake.settings, "events"))
    assert table is not None
    said = ("because", "decided_by", "decision")
    written = {
        (row["ingestion_id"], row["line_number"]): (row["disposition"], *(row[name] for name in said))
        for row in table.to_pylist()
    }
    assert written == {
        (row.ingestion_id, row.line_number): (row.disposition.value, *(getattr(row, name) for name in said)) for row in rows
    }
    return {str(row.record_key): row.disposition for row in rows}


def decide(lake: Lake, verdict: Any, *keys: str, by: str = "anna", reason: str = "looked at it") -> stewardship_decide.Taken:
    entries = quarantine.entries(lake.settings, lake.contract, Wanted(status=None))
    rows = [quarantine.row_id(entry) for entry in entries if entry["record_key"] in keys]
    assert len(rows) == len(keys)
    return stewardship_decide.decide(lake.settings, lake.contract, rows, verdict, by=by, reason=reason)


def test_a_row_beyond_the_watermark_waits_and_touches_nothing(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST), (LATE, SECOND))
    assert content(lake) == {("a", 1), ("d", 4)}, "a barred correction ends no other row"
    assert waiting(lake) == {"b": "open", "c": "open"}
    assert became(lake) == {
        "a": Disposition.APPLIED,
        "b": Disposition.QUARANTINED,
        "c": Disposition.QUARANTINED,
        "d": Disposition.APPLIED,
    }
    (entry,) = quarantine.entries(settings, lake.contract, Wanted(key="b"))
    assert entry["quarantine_reason"] == "beyond_watermark"
    assert entry["quarantine_detail"] == "19 d 6 h after the event; the watermark is 7 d"
    assert entry["quarantine_review_by"] == datetime(2024, 3, 5, 12, tzinfo=timezone.utc)


def test_accepting_restates_exactly_its_days_and_a_later_word_takes_it_back(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST), (LATE, SECOND))
    taken = decide(lake, "accept", "b", "c")
    assert (taken.rows, taken.days) == (2, [DAY])
    assert lake.pending() == [DAY]
    assert set(lake.update().changes) == {DAY}
    assert content(lake) == {("b", 2), ("c", 3), ("d", 4)}, "the correction ended the row that it corrects"
    assert waiting(lake) == {"b": "accepted", "c": "accepted"}
    assert became(lake)["a"] is Disposition.SUPERSEDED

    decide(lake, "reject", "c", by="ben", reason="not theirs to correct")
    lake.update()
    assert content(lake) == {("a", 1), ("b", 2), ("d", 4)}, "what a barred row had ended is back"
    assert waiting(lake) == {"b": "accepted", "c": "rejected"}
    assert became(lake)["c"] is Disposition.REJECTED
    decide(lake, "duplicate", "b")
    lake.update()
    assert content(lake) == {("a", 1), ("d", 4)}
    assert became(lake)["b"] is Disposition.DUPLICATE
    (row,) = dispositions_account.rows(settings, lake.contract, keys=["c"])
    assert row.decision == "rejected by ben on 2024-03-01: not theirs to correct"
    assert lake.rebuilt([DAY, LATE]) == lake.silver(), "a rebuild applies the decisions again (R3)"


def test_the_same_decision_again_adds_nothing(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST), (LATE, SECOND))
    decide(lake, "accept", "b")
    lake.update()
    version = lake.silver_version()
    again = decide(lake, "accept", "b")
    assert (again.rows, again.repeated, again.days) == (0, 1, [])
    assert lake.pending() == []
    assert lake.silver_version() == version


def test_a_newer_row_of_an_accepted_key_counts_and_a_barred_one_does_not(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST), (LATE, SECOND))
    decide(lake, "accept", "b")
    lake.update()
    later = [
        "b,9,2024-02-20T06:00:00Z,2024-02-21T12:00:00Z,correct,,0",
        "d,8,2024-02-01T06:00:00Z,2024-02-21T12:00:00Z,correct,,0",
    ]
    lake.deliver(date(2024, 2, 21), csv_file(later))
    lake.ingest(date(2024, 2, 21))
    lake.update()
    assert content(lake) == {("a", 1), ("b", 9), ("d", 4)}
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
    lake = lake_with(settings, spark, {"lateness": lateness}, (ON_TIME, FIRST), (LATE, SECOND))
    found = became(lake)
    assert {key: found[key] for key in expected} == expected
    assert lake.rebuilt([DAY, LATE]) == lake.silver()


def test_row_rules_bar_or_count_as_severe_as_they_are(settings, spark) -> None:
    rules = [
        {"name": "small", "sql": "amount < 4", "severity": "reject"},
        {"name": "odd", "sql": "amount % 2 = 1"},
        {"name": "known", "sql": "id <> 'c'", "severity": "warn"},
    ]
    lake = lake_with(settings, spark, {"quality": {"row_rules": rules}}, (ON_TIME, FIRST), (LATE, SECOND))
    assert became(lake) == {
        "a": Disposition.SUPERSEDED,  # c, which is only counted, corrects it
        "b": Disposition.QUARANTINED,
        "c": Disposition.APPLIED,
        "d": Disposition.REJECTED,
    }
    (entry,) = quarantine.entries(settings, lake.contract, Wanted(cause="rule_failed"))
    assert (entry["record_key"], entry["quarantine_detail"]) == ("b", "fails odd")


def test_a_rule_that_is_no_condition_is_named(settings, spark) -> None:
    lake = Lake(settings, contract(quality={"row_rules": [{"name": "typo", "sql": "amont > 0"}]}), spark)
    lake.deliver(ON_TIME, csv_file(FIRST))
    with pytest.raises(RuleError, match="events: typo: 'amont > 0' is no condition"):
        lake.ingest(ON_TIME)
    lake.contract = contract(quality={"row_rules": [{"name": "typo", "sql": "amount > 0"}]})
    assert len(lake.ingest(ON_TIME).ingested) == 1, "mended, the file goes on where it stopped"


def test_a_rule_that_cannot_be_worked_out_for_a_row_holds_nothing_up(settings, spark) -> None:
    rules = [{"name": "share", "sql": "10 / (amount - 1) > 4"}]  # a division by zero for the first row
    lake = lake_with(settings, spark, {"quality": {"row_rules": rules}}, (ON_TIME, FIRST), (LATE, SECOND))
    assert waiting(lake) == {"d": "open"}
    assert became(lake)["a"] is Disposition.SUPERSEDED


def test_a_watermark_of_no_time_at_all_bars_every_late_row(settings, spark) -> None:
    lake = lake_with(settings, spark, {"lateness": {"watermark": "PT0S", "beyond": "quarantine"}}, (ON_TIME, FIRST))
    assert waiting(lake) == {"a": "open"}


def test_a_field_that_is_new_in_the_contract_stops_no_steward(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST), (LATE, SECOND))
    fields = [{"name": name, "type": "string" if name != "amount" else "int"} for name in ("id", "amount", "colour")]
    lake.contract = contract(model={"fields": fields}, **WEEK)
    decide(lake, "accept", "b")
    became(lake)
    assert set(lake.update().changes) == {DAY}
    assert content(lake) == {("a", 1), ("b", 2), ("d", 4)}


def test_rows_past_their_deadline_can_be_asked_for(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (LATE, SECOND))
    assert waiting(lake, status="open", overdue=True) == {}
    settings.now = datetime(2024, 2, 20, 12, tzinfo=timezone.utc) + timedelta(days=15)
    assert set(waiting(lake, status="open", overdue=True)) == {"b", "c"}


def test_a_decision_needs_a_row_a_name_and_a_reason(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (LATE, SECOND))
    with pytest.raises(StewardError, match="needs a name"):
        decide(lake, "accept", "b", by=" ")
    with pytest.raises(StewardError, match="nowhere:7 is no sound row"):
        stewardship_decide.decide(settings, lake.contract, [("nowhere", 7)], "accept", by="anna", reason="because")


def test_a_redacted_field_is_empty_everywhere_but_in_bronze(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST), (LATE, SECOND))
    assert redact_fields(settings, lake.contract, "a", ["amount"], by="dora", reason="asked to") == [DAY]
    redact_fields(settings, lake.contract, "b", ["amount"], by="dora", reason="asked to")
    assert set(lake.update().changes) == {DAY}
    assert content(lake) == {("a", None), ("d", 4)}
    assert lake.rebuilt([DAY, LATE]) == lake.silver()
    (entry,) = quarantine.entries(settings, lake.contract, Wanted(key="b"))
    assert (entry["amount"], entry["raw_payload"]) == (None, None)
    assert [row["amount"] for row in lake.bronze("amount")] == [1, 2, 3, 4]
    decide(lake, "accept", "b")
    lake.update()
    assert ("b", None) in content(lake), "accepted, it stays hidden"
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
def test_what_cannot_be_redacted_is_said(settings, spark, key: str, fields: list[str], message: str) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST))
    with pytest.raises(StewardError, match=message):
        redact_fields(settings, lake.contract, key, fields, by="dora", reason="asked to")


def test_a_decision_stopped_behind_any_commit_is_taken_once(settings, spark) -> None:
    lake = lake_with(settings, spark, WEEK, (ON_TIME, FIRST), (LATE, SECOND))

    def accept() -> None:
        decide(lake, "accept", "b", "c")
        if lake.pending():
            lake.update()

    # The decision, both books, silver, the audit, the record of silver's run.
    assert stopped_behind_each_commit(accept) >= 5
    assert len(decisions.all_of(settings, "events")) == 2
    assert content(lake) == {("b", 2), ("c", 3), ("d", 4)}
    assert waiting(lake) == {"b": "accepted", "c": "accepted"}
    became(lake)
    told = audit_log.read(settings, "events").to_pylist()
    assert sorted((row["event_id"], row["action_type"], row["actor"]) for row in told) == [
        ("a", "steward", "anna"),
        ("b", "steward", "anna"),
        ("c", "steward", "anna"),
    ]
