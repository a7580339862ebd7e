"""Inputs that silver contains and that are recorded nowhere any more: a table was restored, or has lost its newest commit.

Without the record of a decision, a redaction or a reading, the next rebuild would take it back; without that of a file, numbers
would not name it among their inputs. What is lost before silver has applied it cannot be told from what never was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.dispositions.readings import READING_ID
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.ledger import applied_inputs, decisions, ingestions, rebuild_requests, redactions
from lakehouse.ledger.ids import InputKind, is_manual_input, is_redelivery
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.lake import Lake

_SHOWN = 3


class LostRecordsError(LakehouseError):
    """Silver contains inputs that are recorded nowhere any more. The message names the table and what to do."""


def lost_files(lake: Lake, source: str) -> dict[str, date]:
    """The files that silver contains and the ledger does not know, by name, with their arrival days."""
    known = ingestions.ingested(ingestions.all_of(lake, source))
    lost = {
        each
        for each in applied_inputs.every_input(lake, source)
        if not (is_manual_input(each) or is_redelivery(each) or each in known)
    }
    bronze = locations.bronze(lake, source).open() if lost else None
    if bronze is None:
        return {}
    rows = table_io.distinct_of_version(bronze, ["ingestion_id", "source_file", "arrival_date"], {"ingestion_id": lost})
    return {row["source_file"]: row["arrival_date"] for row in rows.to_pylist()}


def require_none(lake: Lake, source: str) -> None:
    """Refuse to compute silver while inputs that it contains are recorded nowhere.

    :raises LostRecordsError: naming the table.
    """
    if files := lost_files(lake, source):
        days = join_limited([f"{day}" for day in sorted({*files.values()})], _SHOWN)
        msg = (
            f"ops/ingestions has lost the entries of {len(files):,} files whose rows silver/{source} contains "
            f"({join_limited(sorted(files), _SHOWN)}): put them into landing as they were and run "
            f"'lakehouse replay {source}' (arrival days {days}), which records them again, or restore a newer copy of the table"
        )
        raise LostRecordsError(msg)
    manual = {each for each in applied_inputs.every_input(lake, source) if is_manual_input(each)}
    if not manual:
        return
    again = "give them again with the same words, or restore a newer copy of the table"
    for kind, known, table in (
        (InputKind.DECISION, decisions.touched(lake, source), f"bronze/{source}_decisions"),
        (InputKind.REDACTION, redactions.touched(lake, source), f"bronze/{source}_redactions"),
    ):
        if lost := {each for each in manual if kind.is_kind_of(each)} - known.keys():
            msg = f"{table} has lost {len(lost):,} {kind.value}s that silver/{source} contains: {again}"
            raise LostRecordsError(msg)
    requests = {each for each in manual if InputKind.REBUILD_REQUEST.is_kind_of(each)}
    unknown = requests - rebuild_requests.touched(lake, source).keys()
    if lost := unknown and unknown & _readings(lake, source):
        msg = (
            f"ops/operations has lost {len(lost):,} readings that silver/{source} contains: restore a newer copy, or "
            f"run 'lakehouse source reparse {source} --by NAME --reason WHY --now' again with the same words"
        )
        raise LostRecordsError(msg)


def _readings(lake: Lake, source: str) -> set[str]:
    """The readings whose rows were written, in force or not. A request that only rebuilds days may be lost: nothing follows."""
    rows = locations.readings(lake, source).distinct([READING_ID], None)
    return set() if rows is None else {*rows[READING_ID].to_pylist()}
