"""Bronze: every record of every delivery, once, by arrival day (rule R1).

Deliveries are appended in one commit: by this process through delta-rs, or large ones by one job of Spark. The table is
append-only for every writer. A file is read in ``reader``; the steps before and after the append are in ``ingest``.

A repair drops damaged data files and reads their rows again from landing. A data file may hold a part of a landing file's rows.
So the ledger's counts are compared with the remaining rows, and only missing lines are appended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import landing, reader
from lakehouse.delta import data_files, layout
from lakehouse.delta.columns import bronze_columns, ddl
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io, table_parts
from lakehouse.ledger import ingestions
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.pieces import counted
from lakehouse.spark import commits as spark_commits
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import date

    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.bronze.csv_columns import Part
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion

#: Files of up to this size are read whole, and parsed in this process on a cluster, too.
_SMALL_BYTES = 2**23
#: So many rows, or bytes of rows, are in memory at a time.
_SORTED_ROWS, _HELD_BYTES = 2**20, 2**27
#: What a row is expected to take in a file.
_BYTES_PER_ROW = 128
#: A task parses files up to this total size, so that many small files do not become many tasks and many files of the table.
_TASK_BYTES = 2**24
#: A larger file is cut into parts of about this size, one for each task.
_PART_BYTES = 2**26

#: The files to append, each with the identity of its delivery.
Deliveries = Sequence[tuple[DeliveredFile, landing.LandingFile]]


class _Piece(NamedTuple):
    """The part of a file that a task reads, or all of it."""

    delivery: DeliveredFile
    file: landing.LandingFile
    part: Part | None


@spark_commits.recomputed_on_conflict
def append(
    session: Callable[[], SparkSession], lake: Lake, contract: SourceContract, deliveries: Deliveries, run_id: str
) -> None:
    """Append deliveries in one commit, except those whose rows are already in the table.

    This makes it safe to repeat a run that was stopped after its commit. Of two concurrent writers one conflicts, and determines
    again which deliveries are missing.

    :raises ChangedFilesError: naming the files that were replaced or removed since they were hashed; nothing was appended.
    :raises FileProblem: when a file as a whole cannot be read.
    """
    source, stored = contract.dataset, locations.bronze(lake, contract.dataset)
    table = spark_commits.table_of(stored, bronze_columns(contract), *layout.of_bronze(lake))
    version = table.version()
    missing = _missing(table, deliveries)
    if not missing:
        return
    named = [{"source_file": one.path, "ingestion_id": one.ingestion_id} for one, _ in missing]
    why = {"run_id": run_id, **(named[0] if len(named) == 1 else {"deliveries": named})}
    with _changes_named(lake, contract, missing):
        if _are_parsed_here(lake, contract, missing):
            rows = counted(f"rows of {source} parsed", _rows(lake, contract, missing))
            spark_commits.append_rows_alone(rows, stored, f"bronze:{source}", version, why)
        else:
            with sized_for(session(), lake, many=True):
                frame = _frame(session(), lake, contract, missing)
                spark_commits.append_alone(frame, stored, f"bronze:{source}", version, why)


class ChangedFilesError(LakehouseError):
    """Files that were replaced or removed between their hash and the reading of their rows.

    :param names: the names of the files.
    """

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(f"{', '.join(sorted(names))}: replaced or removed while they were read; run it again")
        self.names = frozenset(names)


@contextmanager
def _changes_named(lake: Lake, contract: SourceContract, deliveries: Deliveries) -> Iterator[None]:
    """Name the files that have changed, whichever error they have led to, here or in a task of Spark."""
    try:
        yield
    except spark_commits.CONFLICTS:
        raise
    except Exception:
        changed = {
            file.name for delivery, file in deliveries if not landing.has_content(lake, contract, file, delivery.ingestion_id)
        }
        if changed:
            raise ChangedFilesError(changed) from None
        raise


def _are_parsed_here(lake: Lake, contract: SourceContract, deliveries: Deliveries) -> bool:
    """Whether this process parses the files: small ones, and those that tasks of Spark would parse on the same cores."""
    size = sum(file.size for _, file in deliveries)
    at_most = lake.settings.rows_in_pieces * _BYTES_PER_ROW
    is_quick = lake.settings.has_spark_here and reader.is_read_by_columns(contract)
    return size <= (at_most if is_quick else min(at_most, _SMALL_BYTES))


def _rows(lake: Lake, contract: SourceContract, deliveries: Deliveries) -> Iterator[pa.Table]:
    """The rows of deliveries in pieces, as they are parsed."""
    held, rows, held_bytes = list[pa.RecordBatch](), 0, 0
    for delivery, file in deliveries:
        for batch in _parsed(lake, contract, delivery, file):
            held.append(batch)
            rows, held_bytes = rows + len(batch), held_bytes + batch.nbytes
            if rows >= _SORTED_ROWS or held_bytes >= _HELD_BYTES:
                yield _by_event_day(held)
                held, rows, held_bytes = [], 0, 0
    if held:
        yield _by_event_day(held)


def _parsed(lake: Lake, contract: SourceContract, delivery: DeliveredFile, file: landing.LandingFile) -> Iterator[pa.RecordBatch]:
    if file.size <= _SMALL_BYTES:
        yield from reader.rows_by_columns(
            contract, delivery, BytesIO(landing.read_whole(lake, contract, file, delivery.ingestion_id))
        )
    else:
        yield from reader.delivery_rows(lake, contract, delivery, file.path)
        landing.require_unchanged(lake, contract, file)  # before the commit: its last rows were read


def _by_event_day(batches: list[pa.RecordBatch]) -> pa.Table:
    """Rows in the order of their event days if they are many: readers of some days skip row groups then."""
    rows = pa.Table.from_batches(batches)
    return data_files.sorted_by_day(rows, layout.ARRIVALS) if len(rows) > table_io.PIECE_ROWS else rows


def _missing(table: DeltaTable, deliveries: Deliveries) -> Deliveries:
    """The deliveries of which the table has no row."""
    where = {
        "arrival_date": {delivery.arrival_date for delivery, _ in deliveries},
        "ingestion_id": {delivery.ingestion_id for delivery, _ in deliveries},
    }
    present = set(table_io.distinct_of_version(table, ["ingestion_id"], where)["ingestion_id"].to_pylist())
    return [(delivery, file) for delivery, file in deliveries if delivery.ingestion_id not in present]


def _frame(spark: SparkSession, lake: Lake, contract: SourceContract, deliveries: Deliveries) -> DataFrame:
    """The rows of deliveries, parsed by tasks of Spark."""
    tasks = _tasks(lake, contract, deliveries)

    def parse(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in numbers for number in batch.column(0).to_pylist()):
            for delivery, file, part in tasks[number]:
                yield from reader.delivery_rows(lake, contract, delivery, file.path, part)
                landing.require_unchanged(lake, contract, file)  # before the commit: its last rows were read

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(parse, ddl(bronze_columns(contract)))


def _tasks(lake: Lake, contract: SourceContract, deliveries: Deliveries) -> list[list[_Piece]]:
    """The files, and parts of large ones, that each task reads, in their order."""
    tasks: list[list[_Piece]] = [[]]
    held = 0
    for delivery, file in deliveries:
        if file.size > _PART_BYTES:
            parts = reader.delivery_parts(lake, contract, file.path, _PART_BYTES)
            tasks += [[_Piece(delivery, file, part)] for part in parts] + [[]]
            held = 0
            continue
        tasks[-1].append(_Piece(delivery, file, None))
        held += file.size
        if held >= _TASK_BYTES:
            tasks.append([])
            held = 0
    return [task for task in tasks if task]


def repair(lake: Lake, contract: SourceContract, run_id: str) -> list[date]:
    """Drop damaged files from Bronze's log and append their rows again; repeat it if it was stopped.

    :returns: the arrival days.
    :raises LostRowsError: naming the files that landing no longer has with the same content.
    """
    stored = locations.bronze(lake, contract.dataset)
    table = stored.snapshot()
    if table is None:
        return []
    if files := data_files.damaged_files_of_table(table):
        data_files.set_aside(table, files)
        table.repair()
        stored.committed()
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
            for batch in reader.delivery_rows(lake, contract, delivery=delivered, file_path=landing_path):
                piece = pa.Table.from_batches([batch])
                yield piece.filter(pc.invert(pc.is_in(piece["line_number"], pa.array(lines, piece["line_number"].type))))

    if again:
        why = {"run_id": run_id, "method": "repair", "deliveries": [entry.ingestion_id for entry, _, _ in again]}
        spark_commits.append_rows_alone(rows(), stored, f"bronze:{contract.dataset}", table.version(), why)
    if gone:
        way_out = "put them back into landing as they were, and run 'lakehouse admin repair' again"
        raise ingestions.lost_rows_error(f"bronze/{contract.dataset}", gone, way_out)
    return sorted({entry.arrival_date for entry, _, _ in again})


def _in_landing(
    lake: Lake, contract: SourceContract, lacking: list[tuple[Ingestion, list[int]]]
) -> tuple[list[tuple[Ingestion, list[int], str]], list[Ingestion]]:
    """The files that landing still has with the same content, each with its full path, and the others."""
    listed = landing.listing_of_days(lake, contract, {entry.arrival_date for entry, _ in lacking}).files
    in_landing = {file.name: file for file in listed}
    again, gone = [], []
    for entry, lines in lacking:
        file = in_landing.get(entry.source_file)
        if file and landing.fingerprint(lake, contract, file).ingestion_id == entry.ingestion_id:
            again.append((entry, lines, file.path))
        else:
            gone.append(entry)
    return again, gone


def _lacking(lake: Lake, source: str, table: DeltaTable) -> list[tuple[Ingestion, list[int]]]:
    """The ingested files of which Bronze lacks rows, with the lines that it has; only days with missing rows are read."""
    expected: Mapping[date, list[Ingestion]] = defaultdict(list)
    for entry in ingestions.ingested(ingestions.all_of(lake, source)).values():
        expected[entry.arrival_date].append(entry)
    present = table_parts.rows(table)
    days = {day for day, entries in expected.items() if present.get(day, 0) < sum(entry.rows for entry in entries)}
    if not days:
        return []
    kept = table_io.read_version(table, ["ingestion_id", "line_number"], {"arrival_date": days})
    lines: dict[str, list[int]] = defaultdict(list)
    for ingestion_id, line in zip(kept["ingestion_id"].to_pylist(), kept["line_number"].to_pylist()):
        lines[ingestion_id].append(line)
    entries = [entry for day in sorted(days) for entry in expected[day]]
    return [(entry, lines[entry.ingestion_id]) for entry in entries if len(lines[entry.ingestion_id]) < entry.rows]
