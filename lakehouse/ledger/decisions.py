"""``bronze/<source>_decisions``: what stewards decided about single rows of Bronze. The latest decision on a row holds.

Decisions are input, as files are: they stand beside Bronze, are only ever added to, and a rebuild applies them again.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    from lakehouse.ledger.row_ids import RowId
    from lakehouse.settings import Settings

Decided = Literal["accept", "reject", "duplicate"]
PREFIX = "decision:"
_SCHEMA = pa.schema(
    [
        ("decision_id", pa.string()),
        ("number", pa.int64()),
        ("ingestion_id", pa.string()),
        ("line_number", pa.int64()),
        ("record_key", pa.string()),
        ("verdict", pa.string()),
        ("by", pa.string()),
        ("reason", pa.string()),
        ("decided_at", pa.timestamp("us", "UTC")),
        ("about_file", pa.bool_()),
        ("touched_days", pa.list_(pa.date32())),
    ]
)


@dataclass(frozen=True)
class Decision:
    """What one steward said about one row. ``number`` counts the decisions on that row, from 1.

    ``about_file`` says that the row waited because its file would shrink its day, so that the word is about the file;
    ``decision_id`` is shared by the rows decided with one command; ``touched_days`` are the event days on which the row's
    key may live.
    """

    ingestion_id: str
    line_number: int
    record_key: str
    verdict: Decided
    by: str
    reason: str
    decided_at: datetime
    number: int = 1
    about_file: bool = False
    decision_id: str = ""
    touched_days: list[date] = field(default_factory=list)

    @property
    def row(self) -> RowId:
        """The row it is about."""
        return self.ingestion_id, self.line_number

    @property
    def admits(self) -> bool:
        """Whether the row may contend for its key."""
        return self.verdict == "accept"


def record(settings: Settings, source: str, decided: list[Decision]) -> str:
    """Append the decisions of one command, once.

    :returns: the id that they share.
    """
    text = "\n".join(sorted(f"{one.row}|{one.number}|{one.verdict}|{one.by!r}|{one.reason!r}" for one in decided))
    decision_id = PREFIX + hashlib.sha256(text.encode()).hexdigest()[:16]
    rows = [asdict(one) | {"decision_id": decision_id} for one in decided]
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    table_io.append(locations.decisions(settings, source), table, options=settings.storage_options, app_id=decision_id)
    return decision_id


def all_of(settings: Settings, source: str) -> list[Decision]:
    """Every decision, in the order in which they hold."""
    found = table_io.read(
        locations.decisions(settings, source), [item.name for item in fields(Decision)], None, settings.storage_options
    )
    decided = [] if found is None else [Decision(**row) for row in found.to_pylist()]
    return sorted(decided, key=lambda one: (one.number, one.decided_at, one.decision_id))


def newest(settings: Settings, source: str, ids: Collection[str] | None = None) -> dict[RowId, Decision]:
    """The decision that holds, per row that was decided on.

    :param ids: only what these said, so that any earlier state can be made again (R10).
    """
    return {one.row: one for one in all_of(settings, source) if ids is None or one.decision_id in ids}


def touched(settings: Settings, source: str) -> dict[str, set[date]]:
    """Per decision id the event days that it may change."""
    found = table_io.read(locations.decisions(settings, source), ["decision_id", "touched_days"], None, settings.storage_options)
    days: dict[str, set[date]] = {}
    for row in [] if found is None else found.to_pylist():
        days.setdefault(row["decision_id"], set()).update(row["touched_days"])
    return days
