"""Whether a source still sends and its stewards meet their deadlines: from the ledger and the quarantine, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse import locations
from lakehouse.bronze import checks as bronze_checks
from lakehouse.bronze.checks import FRESH, REVIEWED
from lakehouse.delta import row_writer
from lakehouse.dispositions import account_tables
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.quality.check_rules import CheckResult

NOON = datetime(2024, 3, 5, 12, tzinfo=timezone.utc)
FILE = Ingestion(
    "events", "a1", "a1b2", date(2024, 3, 5), "arrival_date=2024-03-05.csv", 9, None, "ingested", "run", NOON, rows=4
)


def outcome(lake: Lake, check: str, **changes: Any) -> CheckResult:
    [found] = [one for one in bronze_checks.check_source(lake, contract(**changes)) if one.check == check]
    assert found.day == lake.now().date()
    assert found.passed == (found.explanation is None)
    return found


def fresh(lake: Lake, **changes: Any) -> CheckResult:
    return outcome(lake, FRESH, freshness={"max_age": "PT26H", **changes})


def test_a_source_is_fresh_until_its_age_is_reached(lake: Lake) -> None:
    ingestions.record(lake, FILE)
    for age, passed in ((timedelta(hours=26), True), (timedelta(hours=26, microseconds=1), False)):
        lake.settings.now = NOON + age
        found = fresh(lake)
        assert (found.passed, found.warns) == (passed, True)
        assert found.numbers == {
            "files": 1,
            "files_held": 0,
            "max_age_hours": 26.0,
            "age_hours": 26.0,
            "newest_arrival": "2024-03-05 12:00+0000",
        }
    assert not fresh(lake, severity="error").warns
    assert fresh(lake).explanation == (
        "the newest file, arrival_date=2024-03-05.csv, arrived 1 d 2 h ago, and 1 d 2 h are tolerated: check whether events is "
        "still being sent"
    )


def test_an_old_day_that_is_caught_up_and_a_file_that_cannot_be_read_make_nothing_fresh(lake: Lake) -> None:
    lake.settings.now = NOON
    ingestions.record(lake, replace(FILE, arrival_date=date(2024, 2, 1), source_file="old"))
    ingestions.record(lake, replace(FILE, ingestion_id="b", content_hash="b", status="held", message="broken", source_file="b"))
    found = fresh(lake)
    assert (found.numbers["age_hours"], found.numbers["files_held"]) == (33 * 24 - 12, 1)
    assert "; 1 files are held, see the check no_file_held:" in str(found.explanation)
    ingestions.record(lake, replace(FILE, ingestion_id="c", content_hash="c", source_file="c"))
    assert fresh(lake).passed


def test_what_is_delivered_again_brings_nothing_new(lake: Lake) -> None:
    ingestions.record(lake, replace(FILE, arrival_date=date(2024, 3, 1), recorded_at=NOON - timedelta(days=4)))
    ingestions.record(lake, replace(FILE, status="redelivered", source_file="arrival_date=2024-03-05.again.csv"))
    lake.settings.now = NOON
    assert fresh(lake).numbers["age_hours"] == 96


def test_a_source_that_never_sent_is_not_fresh(lake: Lake) -> None:
    found = fresh(lake)
    assert not found.passed
    assert found.explanation == "no file has ever arrived: check whether events is still being sent"
    assert "age_hours" not in found.numbers


def wait(lake: Lake, *rows: tuple[datetime, str], within: timedelta = timedelta(days=14)) -> None:
    """Rows of the quarantine: since when, and what became of them."""
    waiting_rows = [
        {
            "arrival_date": since.date(),
            "ingestion_id": "a",
            "line_number": number,
            "quarantine_since": since,
            "quarantine_review_by": since + within,
            "quarantine_status": status,
        }
        for number, (since, status) in enumerate(rows)
    ]
    whole = account_tables.quarantine_schema(contract())
    table = pa.Table.from_pylist([dict.fromkeys(whole.names) | row for row in waiting_rows], schema=whole)
    row_writer.append(locations.quarantine(lake, "events"), table, partition_by=["arrival_date"])


def test_reviews_are_counted_and_the_oldest_is_named(lake: Lake) -> None:
    lake.settings.now = NOON
    assert outcome(lake, REVIEWED).numbers == {"waiting": 0, "overdue": 0, "oldest_hours": 0.0}
    wait(
        lake,
        (NOON - timedelta(days=14), "open"),  # due at this moment, and not overdue
        (NOON - timedelta(days=3), "open"),
        (NOON - timedelta(days=90), "accepted"),
    )
    assert outcome(lake, REVIEWED).numbers == {"waiting": 2, "overdue": 0, "oldest_hours": 14 * 24.0}
    lake.settings.now = NOON + timedelta(days=2, hours=3)
    late = outcome(lake, REVIEWED)
    assert (late.passed, late.warns, late.numbers["overdue"]) == (False, True, 1)
    assert late.explanation == (
        "1 rows are past their review deadline, the oldest of them by 2 d 3 h: decide with 'lakehouse quarantine list events "
        "--overdue'"
    )
    assert not outcome(lake, REVIEWED, quality={"severity": {REVIEWED: "error"}}).warns


@pytest.mark.parametrize("configured", [False, True])
def test_a_schedule_has_something_to_do_only_where_waiting_can_change_something(lake: Lake, configured: bool) -> None:
    source = contract(**({"freshness": {"max_age": "P1D"}} if configured else {}))
    fresh_ = [FRESH] if configured else []
    assert bronze_checks.time_dependent_checks(lake, source) == fresh_
    wait(lake, (NOON, "accepted"))
    assert bronze_checks.time_dependent_checks(lake, source) == [*fresh_, REVIEWED], "it may have failed before"
    assert list(bronze_checks.source_check_names(source)) == [*fresh_, REVIEWED]
