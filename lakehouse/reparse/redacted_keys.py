"""Extends redactions to rows whose key a reading changes, and to fields in which a reading would show a hidden value again.

The redactions are recorded before the reading is in force, so that no state of silver shows a redacted value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions.readings import in_force
from lakehouse.dispositions.readings.table import ROW_ID
from lakehouse.errors import LakehouseError
from lakehouse.ledger import redactions
from lakehouse.reparse import changed_claims

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


class RedactedKeyError(LakehouseError):
    """A reading that would show a redacted value as a part of a key. The message says what to do."""


def follow(settings: Settings, contract: SourceContract, of: Settings, days: set[date]) -> None:
    """Record the redactions that rows of a reading need in addition to the existing ones.

    :param of: the settings of the folder that holds the reading.
    :param days: the event days that the reading affects.
    :raises RedactedKeyError: where a redacted field is part of the key under the contract.
    """
    source = contract.dataset
    known = redactions.all_of(settings, source)
    if not known:
        return
    fields = [spec.name for spec in contract.typed_fields]
    in_key = {*contract.primary_key, *(contract.synthetic_key.fields if contract.synthetic_key else ())}
    keys = pa.array(sorted({entry.record_key for entry in known}), pa.string())
    wanted = sorted({name for entry in known for name in entry.fields} - set(fields))
    claimed = [
        before.filter(pc.is_in(before["record_key"], keys)) for _, before, _ in changed_claims.pieces(settings, of, source)
    ]
    if not any(map(len, claimed)):
        return
    where = {name: pc.unique(pa.concat_tables(claimed)[name]) for name in ("arrival_date", "ingestion_id")}
    columns = [*ROW_ID, "record_key", *fields, *wanted]
    before = in_force.every_reading(settings, source, columns, {**where, "record_key": keys})
    of_row = {tuple(row[name] for name in ROW_ID): row for row in ([] if before is None else before.to_pylist())}
    path = locations.readings(of, source)
    read = table_io.read(path, [*ROW_ID, "record_key", *fields], where, of.storage_options) if of_row else None
    for row in [] if read is None else read.to_pylist():
        former = of_row.get(tuple(row[name] for name in ROW_ID))
        if former is None or row["record_key"] is None:
            continue
        for entry in known:
            if entry.record_key == former["record_key"]:
                _follow_row(settings, source, entry, former, row, in_key, days)


def _follow_row(
    settings: Settings,
    source: str,
    entry: redactions.Redaction,
    former: dict[str, Any],
    row: dict[str, Any],
    in_key: set[str],
    days: set[date],
) -> None:
    hidden = {str(former[name]) for name in entry.fields if former.get(name) is not None}
    # A field of another name that reads the same column of the file; one that was visible before stays visible.
    fields = (name for name in row if name not in {*ROW_ID, "record_key"} and former.get(name) is None)
    shown = {name for name in fields if str(row[name]) in hidden}
    needed = shown | set(entry.fields)
    exposed = sorted(needed & in_key)
    if exposed:
        msg = (
            f"{', '.join(exposed)} of {source} is redacted for the key {entry.record_key!r} and part of the key now: "
            "take it out of the key, or leave the arrival days of these rows out with --start-date and --end-date"
        )
        raise RedactedKeyError(msg)
    if row["record_key"] == entry.record_key and needed <= set(entry.fields):
        return
    also = replace(
        entry, record_key=row["record_key"], fields=sorted(needed), redacted_at=settings.clock(), touched_days=sorted(days)
    )
    redactions.record(settings, source, also)
