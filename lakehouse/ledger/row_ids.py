"""What identifies a row of Bronze, and the delivery that it came with.

Stands below everything that refers to rows: the key log, the decisions, the dispositions and Bronze itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date, datetime

#: A row of Bronze: the id of its ingestion, and its line number there.
RowId = tuple[str, int]


@dataclass(frozen=True)
class Delivery:
    """One file as it was delivered.

    ``ingestion_id`` is derived from the hash of the content; ``received_at`` is the arrival time of records that do not
    carry their own.
    """

    path: str
    ingestion_id: str
    arrival_date: date
    received_at: datetime
