"""Checks for corrections that empty fields which they do not name: a record with only the corrected field would erase the others.

A correction replaces the whole record. Where a source says which field was corrected (``changes.corrected_field``), fields that
are empty in the correction, that it does not name, and that had a value before, were most likely not sent. The check finds them
from what lives in silver and the earlier records in Bronze; nothing is filled in here. Under ``changes.corrections: partial``
they are filled (``dispositions.readings``), and nothing is checked.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta.columns import ORDER
from lakehouse.dispositions import deliveries, readings
from lakehouse.dispositions.readings import named
from lakehouse.dispositions.winners import sortable
from lakehouse.lake import table_io
from lakehouse.ledger import key_log, redactions
from lakehouse.ledger.ids import row_id_of
from lakehouse.quality.check_result import CheckResult
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

WHOLE_CORRECTION = "whole_correction"
DESCRIPTION = "No correction empties a field that it does not name in its column for corrected fields."
_SHOWN = 3
#: The columns for the order of a record among those of its key, and its id in Bronze; see ``deliveries.ordered``.
_PLACED_BY = ["source_sequence", "source_order", "arrival_ts", "ingestion_id", "line_number"]


class Emptied(NamedTuple):
    """A living correction, and the fields that it empties without naming them."""

    key: str
    day: date
    fields: tuple[str, ...]


def check(lake: Lake, contract: SourceContract, table: DeltaTable | None, days: Collection[date]) -> list[CheckResult]:
    """One outcome for each event day; none for a source whose corrections name no fields.

    :param table: silver.
    """
    if not contract.changes.corrected_field or contract.has_partial_corrections:
        return []
    by_day: dict[date, list[Emptied]] = defaultdict(list)
    for correction in [] if table is None else emptied(lake, contract, table, days):
        by_day[correction.day].append(correction)
    outcomes = []
    for day in sorted(days):
        here, why = by_day.get(day, []), None
        if here:
            listed = join_limited([f"{correction.key}: {', '.join(correction.fields)}" for correction in here], _SHOWN)
            why = (
                f"corrections empty fields that they do not name ({listed}), and a correction replaces the whole record: have "
                f"the sender send it whole, or do so by 'lakehouse correct {contract.dataset}'; 'changes.corrections: partial' "
                "keeps the other fields where corrections carry only what they change; "
                f"'quality.severity: {{{WHOLE_CORRECTION}: warn}}' lets them count as they are"
            )
        outcomes.append(CheckResult(WHOLE_CORRECTION, day, not here, {"corrections": len(here)}, why))
    return outcomes


def emptied(lake: Lake, contract: SourceContract, table: DeltaTable, days: Collection[date]) -> list[Emptied]:
    """The corrections that live on ``days`` and empty fields that they do not name."""
    names = [spec.name for spec in contract.model.fields if spec.name not in contract.primary_key]
    columns = ["event_date", "record_key", "corrects_key", "ingestion_id", "line_number", "corrected_field", *names]
    living = table_io.read_version(table, columns, {"event_date": list(days), "is_correction": [True]})
    hidden = redactions.keys_by_field(lake, contract.dataset)
    suspects = []
    for row in living.filter(pc.is_valid(living["corrected_field"])).to_pylist():
        by_name = named(contract, row["corrected_field"])
        shown = [name for name in names if row["record_key"] not in hidden.get(name, ())]
        empty = [name for name in shown if row[name] is None and name not in by_name]
        if by_name and empty:
            suspects.append((row, empty))
    if not suspects:
        return []
    records = _records(lake, contract, {key for row, _ in suspects for key in _keys(row)}, names)
    place_of = {row_id_of(record): place for place, record in enumerate(records)}
    places: dict[str, list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        places[record["record_key"]].append(place)
    result = []
    for row, empty in suspects:
        before = (place for key in _keys(row) for place in places[key] if place < place_of[row_id_of(row)])
        earlier = [records[place] for place in sorted(before, reverse=True)]
        had = tuple(name for name in empty if _had_value(contract, earlier, name))
        if had:
            result.append(Emptied(row["record_key"], row["event_date"], had))
    return result


def _records(lake: Lake, contract: SourceContract, keys: Collection[str], names: Collection[str]) -> list[dict[str, Any]]:
    """The records of ``keys`` in Bronze that have content, in the total order of R2."""
    source, wanted = contract.dataset, pa.array(sorted(keys), pa.string())
    where = {"arrival_date": sorted(key_log.arrival_days_of(lake, source, wanted)), "record_key": wanted}
    columns = ["record_key", "change_op", "is_correction", "corrected_field", "malformed_reason", *_PLACED_BY, *names]
    rows = readings.read(lake, source, columns, where)
    if rows is None:
        return []
    rows = rows.filter(pc.and_(pc.is_null(rows["malformed_reason"]), pc.not_equal(rows["change_op"], "delete")))
    rows = deliveries.ordered(rows, deliveries.of(lake, contract))
    in_order: pa.Table = rows.take(pa.array(np.lexsort([sortable(rows[name]) for name in reversed(ORDER)])))
    return list(in_order.to_pylist())


def _had_value(contract: SourceContract, earlier: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Whether a field had a value in ``earlier`` records, newest first, up to a record that emptied it by name or was no
    correction.
    """
    for record in earlier:
        if record[name] is not None:
            return True
        if not record["is_correction"] or name in named(contract, record["corrected_field"]):
            return False
    return False


def _keys(row: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(key for key in (row["record_key"], row["corrects_key"]) if key is not None))
