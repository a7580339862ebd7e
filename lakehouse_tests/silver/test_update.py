"""What an update of silver decides before it writes: whether the key log covers Bronze, and which days are rebuilt. No Spark."""

from __future__ import annotations

import shutil
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.key_log import IncompleteKeyLogError
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.api_client import write_source_rows
from lakehouse_tests.support.lake import appended, contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake

DAYS = [date(2024, 2, day) for day in (1, 2, 3, 4)]
NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)


def record(lake: Lake, name: str, rows_by_day: dict[date, int], **fields: Any) -> None:
    """A file that was ingested, as the ledger has it."""
    days, rows = sorted(rows_by_day), [rows_by_day[day] for day in sorted(rows_by_day)]
    entry = Ingestion(
        *("events", name, f"hash of {name}", DAYS[0], f"{name}.csv", 1, None, "ingested", "run", NOON),
        touched_days=days,
        touched_rows=rows,
        rows=sum(rows),
        **fields,
    )
    ingestions.record(lake, entry)


def test_a_key_log_that_lost_its_rows_does_not_cover_bronze(lake: Lake) -> None:
    write_source_rows(lake, contract(), [(key, NOON, NOON + timedelta(hours=1), "insert", "admitted") for key in "ab"], file="f1")
    record(lake, "f1", {DAYS[0]: 2})
    check = silver_update._check_key_log.retry_with(reraise=True, stop=lambda _: True)  # type: ignore[attr-defined]
    check(lake, "events")
    shutil.rmtree(locations.key_log(lake, "events").address)
    with pytest.raises(IncompleteKeyLogError, match=r"do not cover Bronze \(arrival days 2024-02-01 to 2024-02-01\)"):
        check(lake, "events")


def test_days_that_wait_only_for_files_without_a_row_on_them_are_not_rebuilt(lake: Lake) -> None:
    record(lake, "first", {DAYS[0]: 2})
    record(lake, "second", {DAYS[1]: 1})
    waiting = {DAYS[0]: {"first", "second"}, DAYS[1]: {"first"}, DAYS[2]: {"decided by a person"}}
    assert silver_update._with_rows(lake, appended(), DAYS, waiting) == {DAYS[0], DAYS[2], DAYS[3]}
    assert silver_update._with_rows(lake, contract(), DAYS, waiting) == {*DAYS}, "a key may contend with a row of another day"
