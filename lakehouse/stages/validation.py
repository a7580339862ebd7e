"""Computes the changes that a stage would make: its side version of silver and gold, compared with what readers see.

Belongs here: the order of these steps for each kind of input, and the files of a stage. They are copied to a landing folder of
its own, and ingested into its own Bronze by ``bronze.ingest``, which reads the same files again when the stage is promoted. Rows
and numbers are computed in ``side_tables``; the rules about the result are in ``stage_log``.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts.series import source_read
from lakehouse.gold.numbers import published_table, served_version
from lakehouse.ledger import ingestions
from lakehouse.ledger.row_states import AdmissionStatus
from lakehouse.project import delivery
from lakehouse.reparse.read_again import read_again
from lakehouse.snapshots.comparison import RowsComparison
from lakehouse.stages import side_tables
from lakehouse.stages.side_tables import SideRows, Thresholds
from lakehouse.stages.stage_log import DAY_THRESHOLD, SET_THRESHOLD, ChangedSeries, StageError, StageKind, StageReport
from lakehouse.text import join_limited, json_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.lake import Lake
    from lakehouse.snapshots.comparison import FieldTotals


@dataclass(frozen=True)
class StagedChange:
    """The input of a stage: its own lake, and the contracts as staged."""

    lake: Lake
    catalog: Catalog
    source: SourceContract
    kind: StageKind
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def changed_metric(self) -> str | None:
        """The metric whose contract is staged."""
        return self.about.get("metric")


def validated(lake: Lake, staged: StagedChange, session: Callable[[], SparkSession], run_id: str) -> StageReport:
    """Compute the side version of silver and gold, and report on it.

    :raises StageError: if nothing would change.
    """
    contract, side, source = staged.source, staged.lake, staged.source.dataset
    seed = int(staged.about.get("seed", 0))
    thresholds = Thresholds(
        Decimal(staged.about.get("day_threshold", DAY_THRESHOLD)), Decimal(staged.about.get("set_threshold", SET_THRESHOLD))
    )
    version = locations.silver(lake, source).version()
    counts = _take_input(lake, staged, session, run_id)
    tables: dict[str, SideRows] = {}
    if staged.changed_metric is None:
        for table in contract.silver_tables:
            days = side_tables.reached_days(lake, side, table)
            tables[table.silver_table] = side_tables.compute(session(), lake, side, table, days, seed)
    changed = [
        _changed_series(lake, staged, session, metric, tables, thresholds)
        for metric in staged.catalog.metrics_of(source)
        if staged.changed_metric in {None, metric.name}
    ]
    main = tables.get(source, SideRows([], RowsComparison((0, 0), (0, 0), 0, 0, 0, []), []))
    if not any(side.days for side in tables.values()) and not any(series.days_changed for series in changed):
        msg = f"nothing of {source} would change: readers see these rows and numbers already; nothing is staged"
        raise StageError(msg)
    return StageReport(
        silver_version=version,
        **counts,
        days=main.days,
        rows=_rows_as_json(main.compared),
        fields={one.name: _field_as_json(one) for one in main.compared.fields},
        samples=main.samples,
        seed=seed,
        series=changed,
        day_threshold=thresholds.day,
        set_threshold=thresholds.whole_set,
    )


def _take_input(lake: Lake, staged: StagedChange, session: Callable[[], SparkSession], run_id: str) -> dict[str, int]:
    """Bring the staged input into the lake of the stage; returns the numbers of its rows, of malformed rows, and of rows that
    wait.
    """
    contract, side = staged.source, staged.lake
    if staged.kind is StageKind.FILES:
        ingest_staged(side, contract, session, run_id)
        return _staged_counts(side, contract)
    if staged.changed_metric is not None:
        return {"rows_staged": 0, "rows_malformed": 0, "rows_waiting": 0}
    first, last = (date.fromisoformat(staged.about[name]) if name in staged.about else None for name in ("first", "last"))
    read = read_again(lake, contract, session, first, last, side)
    if not read.rows_otherwise:
        msg = (
            f"no record of {contract.dataset} reads otherwise under this contract ({read.rows_read:,} read), and nothing is "
            "staged; changed rules for rows are applied by 'lakehouse rebuild'"
        )
        raise StageError(msg)
    return {"rows_staged": read.rows_otherwise, "rows_malformed": read.malformed_after, "rows_waiting": 0}


def _changed_series(
    lake: Lake,
    staged: StagedChange,
    session: Callable[[], SparkSession],
    metric: MetricContract,
    tables: Mapping[str, SideRows],
    thresholds: Thresholds,
) -> ChangedSeries:
    """The changes of a metric's numbers; if its own contract is staged, on all of its days."""
    daily = served_version.daily(lake, staged.catalog, metric)
    read = source_read(daily.metric, staged.source)
    if staged.changed_metric is None:
        days = tables[read.silver_table].days
        rows = side_tables.read(session(), staged.lake, read, days)
    else:
        live = locations.silver_of(lake, read)
        rows = session().read.format("delta").load(live.address)
        days = sorted(published_table.known_days(lake, daily))
    staged_rows = side_tables.StagedRows(read.silver_table, rows, days)
    return side_tables.changes(session(), lake, staged.lake, daily, staged_rows, thresholds)


def _staged_counts(lake: Lake, contract: SourceContract) -> dict[str, int]:
    entries = ingestions.ingested(ingestions.all_of(lake, contract.dataset)).values()
    log = locations.key_log(lake, contract.dataset).read(["kind", "standing"], None)
    waiting = 0
    if log is not None:
        waits = pc.and_(pc.equal(log["standing"], AdmissionStatus.QUARANTINED.value), pc.not_equal(log["kind"], "retire"))
        waiting = pc.sum(waits).as_py() or 0
    return {
        "rows_staged": sum(entry.rows for entry in entries),
        "rows_malformed": sum(entry.malformed for entry in entries),
        "rows_waiting": waiting,
    }


def _rows_as_json(compared: RowsComparison) -> dict[str, object]:
    names = ("rows", "keys", "only_before", "only_after", "changed")
    return {name: getattr(compared, name) for name in names}


def _field_as_json(totals: FieldTotals) -> dict[str, object]:
    return {"filled": totals.filled, "total": None if totals.total is None else list(map(json_value, totals.total))}


_SHOWN = 5


def copy_files(stage: Lake, contract: SourceContract, paths: Sequence[Path], today: date) -> None:
    """Copy files to the landing folder of a stage.

    A file in a folder keeps its name below that folder, including its arrival day, where that is a name in the contract's landing
    folder; markers and manifests too. Any other file arrives today.

    :param stage: the stage's lake.
    :raises StageError: for a folder that has no file of the source, and for a source of Kafka.
    :raises UndeliveredFileError: as ``project.delivery.deliver``.
    """
    if contract.source.kafka and paths:
        msg = f"{contract.dataset} is a source of Kafka: a stage takes no files of it; send the messages, or change the contract"
        raise StageError(msg)
    target = Path(stage.landing_of(contract.dataset))
    others: list[Path] = []
    for path in paths:
        if not path.is_dir():
            others.append(path)
            continue
        named = _named(stage, contract, path)
        if not named:
            msg = f"{path} has no file that matches {contract.source.landing}: name the files one by one, they then arrive today"
            raise StageError(msg)
        for name in named:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path / name, target / name)
    if others:
        delivery.deliver(stage, contract, others, today)


def _named(stage: Lake, contract: SourceContract, folder: Path) -> list[str]:
    """The names in a folder that are valid names in the contract's landing folder."""
    listed = bronze_landing.listing(stage.with_settings(landing=str(folder.absolute())), contract)
    markers = [file for of_day in listed.completion_markers.values() for file in of_day]
    return [file.name for file in (*listed.files, *markers)] if listed.files else []


def ingest_staged(stage: Lake, contract: SourceContract, session: Callable[[], SparkSession], run_id: str) -> None:
    """Ingest the files of a stage into its own lake.

    :raises StageError: if a file cannot be read, or waits for others; the message names it.
    """
    days = staged_arrival_days(stage, contract)
    reports = Ingest(stage, contract, session, run_id).days(days)
    held = [entry.message or entry.source_file for report in reports.values() for entry in report.held]
    waiting = [left for report in reports.values() for left in report.waiting]
    if held or waiting:
        what = join_limited([*held, *waiting], _SHOWN, " files")
        msg = f"not all files can be staged: {what}; nothing is staged: mend or leave out these files, and stage again"
        raise StageError(msg)


def staged_arrival_days(stage: Lake, contract: SourceContract) -> list[date]:
    """The arrival days of the files of a stage."""
    return sorted({file.arrival_date for file in bronze_landing.landing_files(stage, contract)[0]})
