"""The ids of a row of Bronze and of the delivered file that contained it, and of silver's other inputs.

Every module that refers to rows uses these ids: the key log, the decisions, the dispositions and Bronze itself. Inputs of silver
other than files are decisions, redactions, rebuild requests, and files that were delivered again.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from lakehouse.calendar.days import latest_arrival_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime, timedelta
    from zoneinfo import ZoneInfo


_REDELIVERY = "redelivery:"
#: The name of a file with a correction that a person entered, see ``ingestions.hand_file_name``.
BY_HAND = re.compile(r"(?:^|[./])correction-[0-9a-f]{12}[.]")


class InputKind(str, Enum):
    """The kinds of inputs that a person adds to a source; the values are part of stored ids."""

    DECISION = "decision"
    REDACTION = "redaction"
    REBUILD_REQUEST = "operation"
    LATE_DECISION = "late"

    @property
    def prefix(self) -> str:
        """The prefix of the ids of this kind."""
        return f"{self.value}:"

    def id_of(self, content: str) -> str:
        """The id of an input of this kind.

        :param content: a text that is equal for two inputs only if they are the same input.
        """
        return self.prefix + hashlib.sha256(content.encode()).hexdigest()[:16]

    def is_kind_of(self, input_id: str) -> bool:
        """Whether ``input_id`` is an id of this kind."""
        return input_id.startswith(self.prefix)


def of_content(content_hash: str) -> str:
    """The id of a file's content in the tables: 64 bits of its hash."""
    return content_hash[:16]


def is_manual_input(input_id: str) -> bool:
    """Whether ``input_id`` belongs to a decision, a redaction or a rebuild request, and not to a delivered file."""
    return any(kind.is_kind_of(input_id) for kind in InputKind)


def is_redelivery(input_id: str) -> bool:
    """Whether ``input_id`` belongs to a file that was delivered again."""
    return input_id.startswith(_REDELIVERY)


def of_redelivery(content: str) -> str:
    """The id of a file that was delivered again and counts again, see ``ingestions.inputs``."""
    return f"{_REDELIVERY}{hashlib.sha256(content.encode()).hexdigest()[:16]}"


#: A row of Bronze: the id of its ingestion, and its line number there.
RowId = tuple[str, int]


@dataclass(frozen=True)
class DeliveredFile:
    """One file as it was delivered.

    ``ingestion_id`` is derived from the hash of the content; ``received_at`` is the arrival time of records that do not carry
    their own; ``delivery`` names the manifest that lists it, empty for none; ``ingested_at`` is the time of ingestion, if it
    differs from ``received_at``.
    """

    #: A column of every correction's file, which makes the contents of two corrections differ.
    CORRECTION: ClassVar[str] = "lakehouse_correction"

    path: str
    ingestion_id: str
    arrival_date: date
    received_at: datetime
    delivery: str = ""
    ingested_at: datetime | None = None

    @property
    def is_by_hand(self) -> bool:
        """Whether it contains a correction that a person entered."""
        return BY_HAND.search(self.path) is not None

    def latest_arrival_time(self, max_ahead: timedelta, zone: ZoneInfo) -> datetime:
        """The latest arrival time that a record of the file can carry."""
        return latest_arrival_time(self.arrival_date, self.ingested_at or self.received_at, max_ahead, zone)

    @property
    def delivered_with(self) -> str:
        """The name of the delivery to which the file belongs."""
        return delivery_name(self.delivery, self.arrival_date)


def delivery_name(manifest: str | None, arrival_date: date) -> str:
    """The name of a delivery: the manifest that lists its files, else their arrival day.

    Files of one delivery count together, and a later delivery replaces them.
    """
    return manifest or arrival_date.isoformat()


def row_id_of(row: Mapping[str, Any]) -> RowId:
    """The id of a row, given by its columns."""
    return row["ingestion_id"], row["line_number"]


def format_row_id(row: RowId) -> str:
    """A row's id as commands and pages write it: ``<ingestion>:<line>``."""
    return f"{row[0]}:{row[1]}"


def parse_row_id(text: str) -> RowId:
    """Parse an id that :func:`format_row_id` has written.

    :raises ValueError: for any other text.
    """
    ingestion_id, _, line = text.strip().partition(":")
    if not ingestion_id or not line.isascii() or not line.isdigit():
        msg = f"{text.strip()!r} is no row; write it as 'lakehouse quarantine list' shows it, <ingestion>:<line>"
        raise ValueError(msg)
    return ingestion_id, int(line)
