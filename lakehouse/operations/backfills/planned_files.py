"""The files of a backfill's plan: those in landing for some arrival days, with a preview of each new one.

This module only reads landing and the log of ingestions. ``planner`` plans the processing of these files.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import pending_files, preview
from lakehouse.ledger import ingestions
from lakehouse.operations.backfills.plan import PlannedFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from lakehouse.bronze.landing import LandingFile
    from lakehouse.bronze.preview import Preview
    from lakehouse.contracts import SourceContract
    from lakehouse.settings import Settings


def current_files(
    settings: Settings,
    contract: SourceContract,
    first: date,
    last: date,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> tuple[list[PlannedFile], dict[str, Preview], list[str]]:
    """The files of some arrival days in landing, a preview of each new one by name, and the problems of those left out.

    A file that Bronze has ingested in its present state (name, size and time) is not read again. A file that waits for
    others of its day is left out.

    :param progress: called with the number of files read so far and the number of all files.
    """
    listing = bronze_landing.listing(settings, contract)
    log = ingestions.all_of(settings, contract.dataset)
    by_identity = {entry.identity: entry for entry in log if entry.status != "held"}
    rows_of = {ingestion_id: entry.rows for ingestion_id, entry in ingestions.ingested(log).items()}
    ready_files: list[LandingFile] = []
    problems = list(listing.complaints)
    for day, of_day in groupby(listing.files, lambda file: file.arrival_date):
        if first <= day <= last:
            files = list(of_day)
            new = [file for file in files if file.identity not in by_identity]
            ready = pending_files.check_readiness(settings, contract, day, new, listing.completion_markers.get(day, []), log)
            waiting = set(new).difference(ready.files)
            ready_files += [file for file in files if file not in waiting]
            problems += ready.waiting
    planned: list[PlannedFile] = []
    previews: dict[str, Preview] = {}
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
                content = previews[file.name] = preview.preview_file(settings, contract, file, fingerprint)
                rows = rows_of[fingerprint.ingestion_id] = sum(content.rows.values()) + sum(content.out.values())
                planned.append(_planned(file, rows, fingerprint.content_hash, known=False))
        progress(number, len(ready_files))
    return planned, previews, problems


def _planned(file: LandingFile, rows: int, content_hash: str, *, known: bool) -> PlannedFile:
    return PlannedFile(
        file=file.name, arrival_date=file.arrival_date, bytes=file.size, rows=rows, sha256=content_hash, known=known
    )
