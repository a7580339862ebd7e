"""Files that the ledger records as ingested, but of which Bronze or the key log has no row.

The cause is a table that was restored from a copy, or a damaged log. ``bronze.ingest`` restores both: rows of Bronze are read
again from landing, and claims are derived again from Bronze; ``streams.lost_messages`` does so for messages, from their topic.
Until then silver computes nothing: a row of another file would take the place of a missing one.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.ledger import ingestions, key_log
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable

    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion

_SHOWN = 3
#: The number of files, recorded last, that are looked up in the key log.
_LOOKED_AT = 8


class LostRowsError(LakehouseError):
    """Bronze lacks rows of files that were ingested. The message names the files, and how to read them again."""


def lost_deliveries(lake: Lake, source: str) -> list[Ingestion]:
    """The ingested files of which Bronze has no row, by arrival day and file.

    They are determined from the row counts in Bronze's log; only days with too few rows are read.
    """
    known = [entry for entry in _ingested(lake, source) if entry.rows]
    table = locations.bronze(lake, source).open() if known else None
    if table is None:
        return known
    lacking = Counter[date]()
    for entry in known:
        lacking[entry.arrival_date] += entry.rows
    files = table_io.files_with(table, {})
    for day, rows in zip(files["partition.arrival_date"].to_pylist(), files["num_records"].to_pylist()):
        lacking[day] -= rows
    days = {day for day, rows in lacking.items() if rows > 0}
    return _absent(table, [entry for entry in known if entry.arrival_date in days])


def lost_claims(lake: Lake, source: str) -> list[Ingestion]:
    """The ingested files with well-formed rows of which the key log has no claim.

    Only the files recorded last are checked first: a log that has lost commits has lost its newest ones.
    """
    known = [entry for entry in _ingested(lake, source) if entry.rows > entry.malformed]
    table = locations.key_log(lake, source).open() if known else None
    if table is None:
        return known
    newest = sorted(known, key=lambda entry: (entry.recorded_at, entry.arrival_date))[-_LOOKED_AT:]
    unmarked = [entry for entry in newest if table.transaction_version(key_log.app_id(entry.ingestion_id)) is None]
    return _absent(table, known) if _absent(table, unmarked) else []


def _ingested(lake: Lake, source: str) -> list[Ingestion]:
    return list(ingestions.ingested(ingestions.all_of(lake, source)).values())


def _absent(table: DeltaTable, entries: list[Ingestion]) -> list[Ingestion]:
    """Those ``entries`` of which the table has no row."""
    if not entries:
        return []
    days = {entry.arrival_date for entry in entries}
    present = set(table_io.distinct_of_version(table, ["ingestion_id"], {"arrival_date": days})["ingestion_id"].to_pylist())
    return [entry for entry in entries if entry.ingestion_id not in present]


def require_none(lake: Lake, source: str) -> None:
    """Refuse to compute silver from a Bronze or a key log that lacks rows.

    :raises LostRowsError: with the files.
    """
    if lost := lost_deliveries(lake, source):
        raise refused(f"bronze/{source}", lost, f"materialize bronze/{source}: they are read again from landing")
    if lost := lost_claims(lake, source):
        raise refused(f"the key log of {source}", lost, f"materialize bronze/{source}: it is derived again")


def refused(table: str, lost: Sequence[Ingestion], way_out: str) -> LostRowsError:
    """The error about ``lost`` files."""
    names = join_limited([entry.source_file for entry in lost], _SHOWN)
    rows = sum(entry.rows for entry in lost)
    return LostRowsError(f"{table} has lost the {rows:,} rows of {len(lost):,} ingested files ({names}): {way_out}")
