"""A lake with rows beyond the watermark that wait in quarantine, and decisions about them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.dispositions import account as dispositions_account
from lakehouse.ledger.ids import row_id_of
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter
from lakehouse_tests.support.lake import SampleLake, contract, csv_file

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.ledger.row_states import Disposition


ON_TIME, LATE = date(2024, 2, 1), date(2024, 2, 20)
DAY = date(2024, 2, 1)
#: b arrives 19 days late; c corrects a under another key, as late.
FIRST_FILE = ["a,1,2024-02-01T06:00:00Z,2024-02-01T12:00:00Z,insert,,0"]
SECOND_FILE = [
    "b,2,2024-02-01T06:00:00Z,2024-02-20T12:00:00Z,insert,,0",
    "c,3,2024-02-01T06:00:00Z,2024-02-20T12:00:00Z,correct,a,0",
    "d,4,2024-02-20T06:00:00Z,2024-02-20T12:00:00Z,insert,,0",
]
WEEK_WATERMARK: dict[str, Any] = {"lateness": {"watermark": "P7D", "beyond": "quarantine"}}


def lake_with(lake: Lake, spark: Any, changes: dict[str, Any], *files: tuple[date, list[str]]) -> SampleLake:
    sample = SampleLake(lake, contract(**changes), spark)
    for arrival, lines in files:
        sample.deliver(arrival, csv_file(lines))
        sample.ingest(arrival)
        sample.update()
    return sample


def silver_amounts(sample: SampleLake) -> set[tuple[str, int]]:
    return {(row[0], row[2]) for row in sample.silver()}


def quarantine_statuses(sample: SampleLake, **wanted: Any) -> dict[str, str]:
    """Status by key."""
    found = quarantine.entries(sample.lake, sample.contract, QuarantineFilter(**{"status": None, **wanted}))
    return {entry["record_key"]: entry["quarantine_status"] for entry in found}


def dispositions_by_key(sample: SampleLake) -> dict[str, Disposition]:
    """Disposition by key; the account and the dispositions table must agree."""
    rows = dispositions_account.rows(sample.lake, sample.contract)
    table = locations.dispositions(sample.lake, "events").read()
    assert table is not None
    decided = ("because", "decided_by", "decision")
    written = {
        (row["ingestion_id"], row["line_number"]): (row["disposition"], *(row[name] for name in decided))
        for row in table.to_pylist()
    }
    assert written == {
        (row.ingestion_id, row.line_number): (row.disposition.value, *(getattr(row, name) for name in decided)) for row in rows
    }
    return {str(row.record_key): row.disposition for row in rows}


def decide(
    sample: SampleLake, verdict: Any, *keys: str, by: str = "anna", reason: str = "looked at it"
) -> quarantine.DecisionResult:
    entries = quarantine.entries(sample.lake, sample.contract, QuarantineFilter(status=None))
    rows = [row_id_of(entry) for entry in entries if entry["record_key"] in keys]
    assert len(rows) == len(keys)
    return quarantine.decide(sample.lake, sample.contract, rows, verdict, by=by, reason=reason)
