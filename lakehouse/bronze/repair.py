"""Repairs arrival days of Bronze with damaged data files: the missing rows are read again from landing.

A data file may hold a part of a landing file's rows. So the ledger's counts are compared with the remaining rows, and only
missing lines are appended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze.reader import delivery_rows
from lakehouse.delta import damaged_files
from lakehouse.lake import table_io
from lakehouse.ledger import ingestions, lost_rows
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.spark import commits as spark_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion


def repair(lake: Lake, contract: SourceContract, run_id: str) -> list[date]:
    """Drop damaged files from Bronze's log and append their rows again; repeat it if it was stopped.

    :returns: the arrival days.
    :raises LostRowsError: naming the files that landing no longer has with the same content.
    """
    stored = locations.bronze(lake, contract.dataset)
    table = stored.snapshot()
    if table is None:
        return []
    if files := damaged_files.of_table(table):
        damaged_files.set_aside(table, files)
        table.repair()
        table.update_incremental()
    lacking = _lacking(lake, contract.dataset, table)
    if not lacking:
        return []
    again, gone = _in_landing(lake, contract, lacking)

    def rows() -> Iterator[pa.Table]:
        for entry, lines, landing_path in again:
            delivered = DeliveredFile(
                entry.source_file, entry.ingestion_id, entry.arrival_date, entry.recorded_at, entry.delivery or ""
            )
            for batch in delivery_rows(lake, contract, delivery=delivered, file_path=landing_path):
                piece = pa.Table.from_batches([batch])
                yield piece.filter(pc.invert(pc.is_in(piece["line_number"], pa.array(lines, piece["line_number"].type))))

    if again:
        why = {"run_id": run_id, "method": "repair", "deliveries": [entry.ingestion_id for entry, _, _ in again]}
        spark_commits.append_rows_alone(rows(), stored, f"bronze:{contract.dataset}", table.version(), why)
    if gone:
        way_out = "put them back into landing as they were, and run 'lakehouse admin repair' again"
        raise lost_rows.refused(f"bronze/{contract.dataset}", gone, way_out)
    return sorted({entry.arrival_date for entry, _, _ in again})


def _in_landing(
    lake: Lake, contract: SourceContract, lacking: list[tuple[Ingestion, list[int]]]
) -> tuple[list[tuple[Ingestion, list[int], str]], list[Ingestion]]:
    """The files that landing still has with the same content, each with its full path, and the others."""
    listed = bronze_landing.listing_of_days(lake, contract, {entry.arrival_date for entry, _ in lacking}).files
    in_landing = {file.name: file for file in listed}
    again, gone = [], []
    for entry, lines in lacking:
        file = in_landing.get(entry.source_file)
        if file and bronze_landing.fingerprint(lake, contract, file).ingestion_id == entry.ingestion_id:
            again.append((entry, lines, file.path))
        else:
            gone.append(entry)
    return again, gone


def _lacking(lake: Lake, source: str, table: DeltaTable) -> list[tuple[Ingestion, list[int]]]:
    """The ingested files of which Bronze lacks rows, with the lines that it has; only days with missing rows are read."""
    expected: Mapping[date, list[Ingestion]] = defaultdict(list)
    for entry in ingestions.ingested(ingestions.all_of(lake, source)).values():
        expected[entry.arrival_date].append(entry)
    present = Counter[object]()
    files = table_io.files_with(table, {})
    for day, rows in zip(files["partition.arrival_date"].to_pylist(), files["num_records"].to_pylist()):
        present[day] += rows
    days = {day for day, entries in expected.items() if present[day] < sum(entry.rows for entry in entries)}
    if not days:
        return []
    kept = table_io.read_version(table, ["ingestion_id", "line_number"], {"arrival_date": days})
    lines: dict[str, list[int]] = defaultdict(list)
    for ingestion_id, line in zip(kept["ingestion_id"].to_pylist(), kept["line_number"].to_pylist()):
        lines[ingestion_id].append(line)
    entries = [entry for day in sorted(days) for entry in expected[day]]
    return [(entry, lines[entry.ingestion_id]) for entry in entries if len(lines[entry.ingestion_id]) < entry.rows]
