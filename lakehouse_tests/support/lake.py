"""A small lake of one source, driven as the assets drive it; for tests of the tables."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts.source import SourceContract
from lakehouse.dispositions.living_rows import Slice
from lakehouse.gold.restatement import lineage
from lakehouse.ledger import applied_inputs
from lakehouse.silver import merge as silver_merge
from lakehouse.silver import update as silver_update

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql import SparkSession

    from lakehouse.bronze.ingest import DayReport
    from lakehouse.lake import Lake
    from lakehouse.silver.update import SilverUpdate
    from lakehouse_tests.support.reference_model import Record

HEADER = "id,amount,event_time,arrived_at,op,corrects,seq"
ROW = ("record_key", "event_date", "amount", "arrival_ts", "ingestion_id", "line_number")
Row = tuple[Any, ...]


def contract(**changes: Any) -> SourceContract:
    """A source with all kinds of changes; :data:`HEADER` are its columns."""
    fields: dict[str, Any] = {
        "dataset": "events",
        "primary_key": ["id"],
        "model": {
            "fields": [
                {"name": "id", "type": "string"},
                {"name": "amount", "type": "int"},
            ]
        },
        "source": {"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01"},
        "clocks": {"event": "event_time", "arrival": "arrived_at"},
        "changes": {"op": "op", "corrects_event_id": "corrects"},
    }
    return SourceContract.model_validate({**fields, **changes})


def appended(**changes: Any) -> SourceContract:
    """The same under ``append``. A contract file under it cannot name columns of changes; Bronze may hold some from before."""
    one = contract(**changes)
    return one.model_copy(update={"materialization": one.materialization.model_copy(update={"reprocess_policy": "append"})})


def csv_line(record: Record) -> str:
    """The line of a file for a record."""
    day = f"{record.day}T12:00:00Z" if record.day else ""
    arrival = record.arrival.isoformat()
    return f"{record.key},{record.amount},{day},{arrival},{record.op},{record.corrects or ''},{record.sequence}"


def csv_file(lines: Iterable[str]) -> bytes:
    """A whole file of these lines."""
    return "".join(f"{line}\n" for line in (HEADER, *lines)).encode()


def content_id(content: bytes) -> str:
    """What the tables call a delivery of this content."""
    return hashlib.sha256(content).hexdigest()[:16]


@dataclass
class SampleLake:
    """One source in one lake."""

    lake: Lake
    contract: SourceContract
    spark: SparkSession

    def deliver(self, arrival: date, content: bytes, suffix: str = ".csv") -> Path:
        """Put a file into landing."""
        path = Path(str(self.lake.settings.landing), f"arrival_date={arrival}{suffix}")
        path.write_bytes(content)
        return path

    def ingest(self, arrival: date) -> DayReport:
        """Bring an arrival day into Bronze."""
        return Ingest(self.lake, self.contract, lambda: self.spark, "run").day(arrival)

    def pending(self) -> list[date]:
        """The event days that wait for silver."""
        return sorted(applied_inputs.pending(self.lake, self.contract.dataset))

    def update(self, days: Collection[date] | None = None) -> SilverUpdate:
        """Bring event days up to date; by default all that wait."""
        return silver_update.update(self.lake, self.contract, lambda: self.spark, self.pending() if days is None else days, "run")

    def silver(self) -> set[Row]:
        """What silver holds; no row is there twice."""
        return rows_once(locations.silver(self.lake, self.contract.dataset).read(list(ROW)))

    def inputs(self) -> set[str]:
        """The ids of everything that silver is computed from now."""
        return set(lineage.of_silver(self.lake, self.contract).ids)

    def newest(self) -> set[Row]:
        """The newest row of each key, as the table beside silver holds them; no row is there twice."""
        return rows_once(locations.silver_newest(self.lake, self.contract.dataset).read(list(ROW)))

    def rebuilt(self, days: Collection[date], ingestion_ids: Collection[str] | None = None) -> set[Row]:
        """What silver should hold on the days, made from Bronze."""
        return rows_once(
            silver_merge.state(self.spark, self.lake, self.contract, Slice(days, ingestion_ids)).select(*ROW).toArrow()
        )

    def bronze(self, *columns: str) -> list[dict[str, Any]]:
        """All rows of Bronze, by arrival day, file and line."""
        wanted = ["arrival_date", "source_file", "line_number", *columns]
        found = locations.bronze(self.lake, self.contract.dataset).read(wanted)
        rows = [] if found is None else found.to_pylist()
        return sorted(rows, key=lambda row: tuple(str(row[name]).zfill(9) for name in wanted[:3]))

    def silver_version(self) -> int:
        """The newest version of silver."""
        return locations.silver(self.lake, self.contract.dataset).version()


def rows_once(table: Any) -> set[Row]:
    """The rows of an Arrow table; a set would hide a row that is there twice."""
    rows = [] if table is None else list(zip(*(table[name].to_pylist() for name in ROW)))
    assert len(rows) == len(set(rows)), f"a row is there twice: {sorted(map(str, rows))}"
    return set(rows)


def row_of(record: Record) -> Row:
    """The columns :data:`ROW` of a record that lives."""
    return record.key, record.day, record.amount, record.arrival, record.file, record.line
