"""The files of a backfill's plan: the files in landing for a range of arrival days or event days, with a preview of each new
file.

This module only reads landing and the log of ingestions. ``planner`` plans the processing of these files.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import pending_files, preview
from lakehouse.ledger import ingestions
from lakehouse.operations.backfills import held_history
from lakehouse.operations.backfills.plan import PlannedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    import pyarrow as pa

    from lakehouse.bronze.landing import LandingFile
    from lakehouse.bronze.preview import Preview
    from lakehouse.contracts import SourceContract
    from lakehouse.operations.backfills.plan import Clock
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class CurrentFiles:
    """The files of a plan.

    :param previews: the previews of new files, by name.
    :param problems: the reasons for leaving out other files, as sentences.
    """

    planned: Sequence[PlannedFile]
    previews: Mapping[str, Preview]
    problems: Sequence[str]

    @property
    def in_bronze(self) -> set[str]:
        """The ids of the files that Bronze has."""
        return {file.ingestion_id for file in self.planned if file.known}


def current_files(
    settings: Settings,
    contract: SourceContract,
    first: date,
    last: date,
    clock: Clock = "arrival",
    *,
    admit_history: bool = False,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> CurrentFiles:
    """The files in landing of the arrival days in the range, or of the arrival days that bring rows of its event days.

    A file that Bronze has ingested in its present state (name, size and time) is not read again. A file that waits for other
    files of its day is left out. An arrival day is ingested as a whole, so all of its files belong to the plan.

    :param clock: whether the days are event days or arrival days.
    :param admit_history: whether rows beyond the cutoff are admitted.
    :param progress: called with the number of files read so far and the number of all files.
    """
    listing = bronze_landing.listing(settings, contract)
    log = ingestions.all_of(settings, contract.dataset)
    by_identity = {entry.identity: entry for entry in log if entry.status != "held"}
    recorded = ingestions.ingested(log)
    rows_of = {ingestion_id: entry.rows for ingestion_id, entry in recorded.items()}
    ready_files: list[LandingFile] = []
    problems = list(listing.complaints)
    for day, of_day in groupby(listing.files, lambda file: file.arrival_date):
        files = list(of_day)
        new = [file for file in files if file.identity not in by_identity]
        if first <= day <= last if clock == "arrival" else new:
            ready = pending_files.check_readiness(settings, contract, day, new, listing.completion_markers.get(day, []), log)
            waiting = set(new).difference(ready.files)
            ready_files += [file for file in files if file not in waiting]
            problems += ready.waiting
        elif clock == "event":
            ready_files += files
    planned: list[PlannedFile] = []
    previews: dict[str, Preview] = {}
    days_of: dict[str, Collection[date]] = {
        ingestion_id: [day for day, rows in entry.rows_by_day.items() if rows] for ingestion_id, entry in recorded.items()
    }
    for number, file in enumerate(ready_files, start=1):
        entry = by_identity.get(file.identity)
        if entry is not None:
            planned.append(_planned(file, rows_of.get(entry.ingestion_id, entry.rows), entry.content_hash, known=True))
        else:
            fingerprint = bronze_landing.fingerprint(settings, contract, file)
            if fingerprint.problem:
                problems.append(f"{file.name}: {fingerprint.problem}; it would be held")
            elif fingerprint.ingestion_id in rows_of:
                planned.append(_planned(file, rows_of[fingerprint.ingestion_id], fingerprint.content_hash, known=True))
            else:
                content = preview.preview_file(settings, contract, file, fingerprint, admit_history=admit_history)
                previews[file.name], days_of[fingerprint.ingestion_id] = content, content.event_days
                rows = rows_of[fingerprint.ingestion_id] = sum(content.rows.values()) + sum(content.out.values())
                planned.append(_planned(file, rows, fingerprint.content_hash, known=False, beyond=content.beyond))
        progress(number, len(ready_files))
    held = held_history.of_files(settings, contract.dataset, {file.ingestion_id for file in planned if file.known})
    if clock == "event":
        for row in held.group_by(["ingestion_id", "event_date"]).aggregate([]).to_pylist():
            days_of[row["ingestion_id"]] = {*days_of.get(row["ingestion_id"], ()), row["event_date"]}
        problems += _unplaced(previews, planned, days_of, first, last)
        chosen = {file.arrival_date for file in planned if _within(days_of.get(file.ingestion_id, ()), first, last)}
        planned = [file for file in planned if file.arrival_date in chosen]
        previews = {file.file: previews[file.file] for file in planned if file.file in previews}
    return CurrentFiles(_with_held(planned, held), previews, problems)


def _within(days: Iterable[date], first: date, last: date) -> bool:
    return any(first <= day <= last for day in days)


def _unplaced(
    previews: Mapping[str, Preview],
    files: Sequence[PlannedFile],
    days_of: Mapping[str, Collection[date]],
    first: date,
    last: date,
) -> Iterator[str]:
    """The sentences about new files that a plan of event days leaves out."""
    for name, content in previews.items():
        if not content.event_days:
            yield f"{name}: no row has an event day; plan it by its arrival day, with --arrival-from and --arrival-through"
    arrived = [file for file in files if not file.known and _within([file.arrival_date], first, last)]
    if arrived and not any(_within(days_of.get(file.ingestion_id, ()), first, last) for file in files):
        yield (
            f"no file has rows of these event days; {len(arrived):,} new files arrived on these days: --arrival-from and "
            "--arrival-through select them"
        )


def _with_held(planned: Sequence[PlannedFile], held: pa.Table) -> list[PlannedFile]:
    """The files; those in Bronze with the number of their rows that the cutoff holds."""
    counted = held.group_by("ingestion_id").aggregate([([], "count_all")])
    counts = dict(zip(counted["ingestion_id"].to_pylist(), counted["count_all"].to_pylist()))
    return [file.model_copy(update={"beyond": counts.pop(file.ingestion_id, 0)}) if file.known else file for file in planned]


def _planned(file: LandingFile, rows: int, content_hash: str, *, known: bool, beyond: int = 0) -> PlannedFile:
    return PlannedFile(
        file=file.name,
        arrival_date=file.arrival_date,
        bytes=file.size,
        rows=rows,
        sha256=content_hash,
        known=known,
        beyond=beyond,
    )
