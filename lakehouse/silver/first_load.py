"""The one audit row for each file and event day of history that it brought: a load corrects nothing.

Which rows came as history is defined in ``lateness.history``.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from datetime import date

#: The rows that a file brought to an event day as history; ``late`` of them came later than the contract expects.
LOADED = pa.schema(
    [
        ("event_date", pa.date32()),
        ("ingestion_id", pa.string()),
        ("source_file", pa.string()),
        ("rows", pa.int64()),
        ("late", pa.int64()),
        ("arrival_ts", pa.timestamp("us", "UTC")),
    ]
)
_FILE_AND_DAY = ("event_date", "ingestion_id", "source_file")


def loaded(rows: pa.Table) -> pa.Table:
    """The rows that each file brought to each event day, counted as :data:`LOADED`, in the order of days and files.

    :param rows: the rows that came as history, with ``event_date``, ``ingestion_id``, ``source_file``, ``arrival_ts``, and
        whether they are ``late``.
    """
    counted = rows.append_column("is_late", rows["late"].cast(pa.int64())).group_by(_FILE_AND_DAY)
    files = counted.aggregate([([], "count_all"), ("is_late", "sum"), ("arrival_ts", "max")])
    named = files.rename_columns({"count_all": "rows", "is_late_sum": "late", "arrival_ts_max": "arrival_ts"})
    return named.select(LOADED.names).cast(LOADED).sort_by([(name, "ascending") for name in _FILE_AND_DAY])


def value_of(file: str, rows: int, late: int) -> str:
    """The ``new_value`` of an audit row about a load: its file and counts, as JSON."""
    return json.dumps({"source_file": file, "rows": rows, "late": late}, ensure_ascii=False)


def reason_of(file: str, rows: int, backfill: str | None = None) -> str:
    """The ``reason`` of an audit row about a load, or about the rows in time that a backfill brought."""
    return f"{backfill or 'first load of the day'}: {rows:,} {'row' if rows == 1 else 'rows'} of {file}"


def id_of(source: str, version: int, ingestion_id: str, day: date) -> str:
    """The ``audit_id`` of an audit row about a load, distinct from those about keys."""
    return hashlib.sha256("\n".join(["first load", source, f"{version}", ingestion_id, f"{day}"]).encode()).hexdigest()[:32]
