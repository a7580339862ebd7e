"""``bronze/<source>_readings``: rows whose raw records were parsed again, under a later contract, with another result.

A row of Bronze never changes. Its new reading is a row of this table with the same id (ingestion_id, line_number). A reading
takes effect once the rebuild request with its id is recorded; rows of a reading that was stopped before that have no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.delta.columns import bronze_columns
from lakehouse.ledger import rebuild_requests

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.columns import Columns
    from lakehouse.settings import Settings

#: The columns that identify a row.
ROW_ID = ("ingestion_id", "line_number")
#: No field of a contract begins with an underscore.
READING_ID, NUMBER = "_reading_id", "_reading_number"
#: The arrival time of the row in Bronze: records without an arrival time of their own keep it.
RECEIVED = "_received_at"


def columns(contract: SourceContract) -> Columns:
    """The columns of Bronze and those of the reading: later readings have greater numbers."""
    return (*bronze_columns(contract), (RECEIVED, "timestamp"), (READING_ID, "string"), (NUMBER, "bigint"))


def requested(settings: Settings, source: str, ids: Collection[str] | None = None) -> list[str]:
    """The readings whose rebuild requests are recorded.

    :param ids: only readings among these inputs.
    """
    entries = rebuild_requests.all_of(settings, source)
    known = [entry.operation_id for entry in entries if entry.operation == rebuild_requests.REPARSE]
    return [reading_id for reading_id in known if ids is None or reading_id in ids]


def next_number(settings: Settings, source: str) -> int:
    """The number of the next reading."""
    numbers = table_io.distinct(locations.readings(settings, source), [NUMBER], None, settings.storage_options)
    return 1 + ((pc.max(numbers[NUMBER]).as_py() or 0) if numbers is not None else 0)
