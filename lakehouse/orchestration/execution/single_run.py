"""Ingests files of one arrival day up to the published numbers, in this process, for a command that a person waits for.

The layers follow each other as in ``catch_up``. Belongs here: the changes by the files, read from the tables afterwards.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse.bronze import pending_files
from lakehouse.dispositions import claims
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.gold.numbers import history, served_version
from lakehouse.ledger import ingestions
from lakehouse.ledger.row_states import QuarantineReason
from lakehouse.orchestration.execution import in_process
from lakehouse.orchestration.execution.catch_up import catch_up
from lakehouse.orchestration.run_events import asset_key
from lakehouse.project import delivery
from lakehouse.silver import replaced_days
from lakehouse.stewardship import quarantine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.ledger.row_states import AdmissionStatus


@dataclass(frozen=True)
class NumberChange:
    """A new version of a day's number, and the change of each measure."""

    metric: str
    version: PublishedVersion
    moved: Mapping[str, Sides]


@dataclass(frozen=True)
class SingleRun:
    """The result of ingesting files.

    :param unread_reason: why the first malformed row is malformed.
    :param not_admitted: the number of rows that the contract does not admit, by status and cause.
    :param known: the number of files whose content had been ingested before.
    :param again: the number of these that count again, because they were delivered on a later arrival day.
    :param held: the reasons for which files of the day, or whole deliveries, are held.
    :param failed_checks: the checks that fail, with their reasons.
    :param left: the files of the day that were neither ingested nor held: they were being written, or could not be read.
    :param left_out: the files in landing whose names assign them to no arrival day.
    """

    rows: int
    malformed: int
    known: int
    held: Sequence[str] = ()
    left: Sequence[str] = ()
    left_out: Sequence[str] = ()
    again: int = 0
    changes: Sequence[NumberChange] = field(default_factory=list)
    unread_reason: str | None = None
    not_admitted: Mapping[tuple[AdmissionStatus, str], int] = field(default_factory=dict)
    replaced: replaced_days.Replaced | None = None
    failed_checks: Sequence[str] = ()


def run_files(lake: Lake, catalog: Catalog, source: str, files: Sequence[Path]) -> SingleRun:
    """Copy files to the landing folder as one delivery of today, and update all numbers; see :func:`ingest`.

    :raises UndeliveredFileError: if a file cannot be copied there.
    """
    lake = lake.with_settings(spark_long_lived=True).cached()
    today = lake.now().date()
    delivered = delivery.deliver(lake, catalog.sources[source], files, today)
    with in_process.local_instance() as instance:
        return ingest(lake, catalog, source, today, delivered, in_process.InProcess(lake, catalog, instance))


def ingest(
    lake: Lake, catalog: Catalog, source: str, day: date, files: Sequence[Path], layers: in_process.InProcess
) -> SingleRun:
    """Ingest the files of an arrival day, and update silver and gold.

    :param files: the files in the landing folder to report on.
    :raises RunFailedError: if a run fails; completed work is kept, and the next call continues from there. Where only metrics
        have failed, its ``done`` is the result of the others, a :class:`SingleRun`.
    """
    before = ingestions.inputs(ingestions.all_of(lake, source)).keys()
    held_before = replaced_days.rows_by_day(lake, catalog.sources[source])
    layers.expect_spark(source)
    layers.run(asset_key("bronze", source), [day])
    failure: in_process.RunFailedError | None = None
    try:
        after = catch_up(lake, catalog, source, layers)
    except in_process.RunFailedError as problem:
        if problem.done is None:
            raise
        failure, after = problem, problem.done
    entries = [entry for entry in ingestions.all_of(lake, source) if entry.arrival_date == day]
    new = [entry for entry in entries if entry.status == "ingested" and entry.ingestion_id not in before]
    again = [entry for entry in entries if entry.counts_again and entry.input_id not in before]
    ids = [entry.ingestion_id for entry in new]
    unfinished = pending_files.unfinished(lake, catalog.sources[source], day, catalog.sources.values())
    landing = lake.landing_of(source)
    names = {f"{file}".removeprefix(f"{landing}/") for file in files}
    recorded = {entry.source_file for entry in entries if entry.is_in_bronze} & names
    held_names = {entry.source_file for entry in ingestions.still_held(entries)} & names
    small = _too_small(lake, catalog.sources[source], entries)
    counting = [entry for entry in [*new, *again] if entry.ingestion_id not in {row["ingestion_id"] for row in small}]
    done = SingleRun(
        rows=sum(entry.rows for entry in new),
        malformed=sum(entry.malformed for entry in new),
        known=len(recorded - held_names - {entry.source_file for entry in new}),
        held=[*unfinished.held, *_why_small(source, entries, small)],
        left=unfinished.left,
        left_out=unfinished.left_out,
        again=len({entry.source_file for entry in again} & names),
        replaced=replaced_days.replaced_by(
            catalog.sources[source], counting, held_before, replaced_days.rows_by_day(lake, catalog.sources[source])
        ),
        changes=[change for metric, days in after.restated.items() for change in _changes(lake, catalog, metric, days)],
        failed_checks=[*layers.failed_checks.values()],
        not_admitted=claims.not_admitted(lake, source, {"arrival_date": [day], "ingestion_id": ids}) if ids else {},
        unread_reason=ingestions.first_reason(lake, source, [entry.ingestion_id for entry in new if entry.malformed]),
    )
    if failure is not None:
        failure.done = done
        raise failure
    return done


def _too_small(lake: Lake, contract: SourceContract, entries: Sequence[Ingestion]) -> list[dict[str, Any]]:
    """The rows of these files that wait because their delivery would remove too many rows from a day or the table."""
    if not policy_of(contract).chooses_deliveries:
        return []
    columns = [*quarantine.KEY_COLUMNS, "quarantine_detail"]
    selected = quarantine.QuarantineFilter(cause=QuarantineReason.SHRUNKEN_PARTITION)
    ids = {entry.ingestion_id for entry in entries}
    return [row for row in quarantine.entries(lake, contract, selected, columns) if row["ingestion_id"] in ids]


def _why_small(source: str, entries: Sequence[Ingestion], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each file whose rows wait for that, the reason and the way out."""
    files = {entry.ingestion_id: entry.source_file for entry in entries}
    counts = Counter((files[row["ingestion_id"]], row["quarantine_detail"]) for row in rows)
    how = f"'lakehouse quarantine accept {source} --cause shrunken_partition --by NAME --reason WHY' accepts it"
    return [f"{file}: {why} ({counted} of its rows wait; {how})" for (file, why), counted in sorted(counts.items())]


def _changes(lake: Lake, catalog: Catalog, metric: str, days: Sequence[date]) -> list[NumberChange]:
    series = served_version.daily(lake, catalog, catalog.metrics[metric])
    known = history.history(lake, series, days)
    return [NumberChange(metric, known[day][-1], history.moved(series, known[day])[-1]) for day in sorted(days) if known.get(day)]
