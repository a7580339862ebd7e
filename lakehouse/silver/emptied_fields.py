"""Whether a correction empties fields that it does not name: a record that holds only what was corrected wipes the others.

A correction replaces the whole record. Where a source says which field was corrected (``changes.corrected_field``), fields that
are empty in the correction, that it does not name, and that had a value before, were most likely not sent. The check finds them
from what lives in silver and the earlier records in Bronze; nothing is filled in here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta import table_io
from lakehouse.dispositions.readings import in_force
from lakehouse.ledger import key_log
from lakehouse.quality.check_result import CheckResult
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

WHOLE_CORRECTION = "whole_correction"
DESCRIPTION = "No correction empties a field that it does not name in its column for corrected fields."
_SHOWN = 3
_ORDER = ("source_sequence", "arrival_ts", "arrival_date", "line_number")
_SEPARATORS = re.compile(r"[\s,;|]+")


class Emptied(NamedTuple):
    """A correction that lives, and the fields that it empties without naming them."""

    key: str
    day: date
    fields: tuple[str, ...]


def check(settings: Settings, contract: SourceContract, table: DeltaTable | None, days: Collection[date]) -> list[CheckResult]:
    """One outcome for each event day; none for a source whose corrections name no fields.

    :param table: silver.
    """
    if not contract.changes.corrected_field:
        return []
    by_day: dict[date, list[Emptied]] = defaultdict(list)
    for correction in [] if table is None else emptied(settings, contract, table, days):
        by_day[correction.day].append(correction)
    outcomes = []
    for day in sorted(days):
        here, why = by_day.get(day, []), None
        if here:
            named = join_limited([f"{correction.key}: {', '.join(correction.fields)}" for correction in here], _SHOWN)
            why = (
                f"corrections empty fields that they do not name ({named}), and a correction replaces the whole record: have the "
                f"sender send it whole, or do so by 'lakehouse correct {contract.dataset}'; "
                f"'quality.severity: {{{WHOLE_CORRECTION}: warn}}' lets them count as they are"
            )
        outcomes.append(CheckResult(WHOLE_CORRECTION, day, not here, {"corrections": len(here)}, why))
    return outcomes


def emptied(settings: Settings, contract: SourceContract, table: DeltaTable, days: Collection[date]) -> list[Emptied]:
    """The corrections that live on the days and empty fields that they do not name."""
    names = {spec.name: spec for spec in contract.model.fields if spec.name not in contract.primary_key}
    columns = ["event_date", "record_key", "corrects_key", "is_correction", "ingestion_id", "corrected_field", *_ORDER]
    living = table_io.read_version(table, list(dict.fromkeys([*columns, *names])), {"event_date": list(days)})
    living = living.filter(pc.and_(living["is_correction"], pc.is_valid(living["corrected_field"])))
    suspects = []
    for row in living.to_pylist():
        named = _named(contract, row["corrected_field"])
        empty = [name for name in names if row[name] is None and name not in named]
        if named and empty:
            suspects.append((row, empty))
    if not suspects:
        return []
    before = _records(settings, contract, {key for row, _ in suspects for key in _keys(row)}, names)
    result = []
    for row, empty in suspects:
        earlier = [record for key in _keys(row) for record in before[key] if _place(record) < _place(row)]
        earlier.sort(key=_place, reverse=True)
        had = tuple(name for name in empty if _had_value(contract, earlier, name))
        if had:
            result.append(Emptied(row["record_key"], row["event_date"], had))
    return result


def _records(
    settings: Settings, contract: SourceContract, keys: Collection[str], names: Collection[str]
) -> Mapping[str, list[dict[str, Any]]]:
    """The records of some keys in Bronze that give values, by key."""
    source, wanted = contract.dataset, pa.array(sorted(keys), pa.string())
    where = {"arrival_date": sorted(key_log.arrival_days_of(settings, source, wanted)), "record_key": wanted}
    columns = ["record_key", "change_op", "is_correction", "corrected_field", "malformed_reason", *_ORDER, *names]
    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    rows = in_force.read(settings, source, list(dict.fromkeys(columns)), where)
    for row in [] if rows is None else rows.to_pylist():
        if row["malformed_reason"] is None and row["change_op"] != "delete":
            records[row["record_key"]].append(row)
    return records


def _had_value(contract: SourceContract, earlier: list[dict[str, Any]], name: str) -> bool:
    """Whether a field had a value, by earlier records from the newest on; one that emptied it by name, or was whole, decides."""
    for record in earlier:
        if record[name] is not None:
            return True
        if not record["is_correction"] or name in _named(contract, record["corrected_field"]):
            return False
    return False


def _named(contract: SourceContract, text: str | None) -> set[str]:
    """The fields that a correction names, by the names of the contract or of the file; words that are no fields are left out."""
    words = {word.lower() for word in _SEPARATORS.split(text or "")} | {(text or "").strip().lower()}
    return {spec.name for spec in contract.model.fields if words & {spec.name.lower(), spec.in_file.lower()}}


def _keys(row: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(key for key in (row["record_key"], row["corrects_key"]) if key is not None))


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _ORDER)
