"""Ingests files of one arrival day up to the published numbers, in this process, for a command that somebody waits for.

The layers follow one another as in ``catch_up``; belongs here: what the files changed, read from the tables afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.gold.numbers import history, served_version
from lakehouse.ledger import ingestions, unread_rows
from lakehouse.orchestration.execution.catch_up import catch_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from lakehouse.contracts import Catalog
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.orchestration.execution.in_process import InProcess
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class NumberChange:
    """A new version of a day's number, and how each measure moved with it."""

    metric: str
    version: PublishedVersion
    moved: Mapping[str, Sides]


@dataclass(frozen=True)
class SingleRun:
    """What some files brought.

    :param known: files whose content had been ingested before.
    :param unread_reason: why the first malformed row is malformed.
    :param held: why files of the day are held.
    :param left: files that were neither taken nor held: they were written to, or could not be read.
    """

    rows: int
    malformed: int
    known: int
    held: Sequence[str] = ()
    left: int = 0
    changes: Sequence[NumberChange] = field(default_factory=list)
    unread_reason: str | None = None


def ingest(settings: Settings, catalog: Catalog, source: str, day: date, files: Sequence[Path], layers: InProcess) -> SingleRun:
    """Ingest the files of an arrival day, and bring silver and gold up to date.

    :param files: those of the landing folder that are reported on.
    :raises RunFailedError: if a run fails; completed work is kept, and the next call continues from there.
    """
    before = {entry.ingestion_id for entry in ingestions.all_of(settings, source) if entry.status == "ingested"}
    layers.run(dg.AssetKey(["bronze", source]), [day])
    after = catch_up(settings, catalog, source, layers)
    entries = [entry for entry in ingestions.all_of(settings, source) if entry.arrival_date == day]
    new = [entry for entry in entries if entry.status == "ingested" and entry.ingestion_id not in before]
    held, landing = ingestions.still_held(entries), settings.landing_of(source)
    names = {f"{file}".removeprefix(f"{landing}/") for file in files}
    recorded = {entry.source_file for entry in entries if entry.status != "held"} & names
    held_names = {entry.source_file for entry in held} & names
    return SingleRun(
        rows=sum(entry.rows for entry in new),
        malformed=sum(entry.malformed for entry in new),
        known=len(recorded - held_names - {entry.source_file for entry in new}),
        held=[entry.message or entry.source_file for entry in held],
        left=len(names - recorded - held_names),
        changes=[change for metric, days in after.restated.items() for change in _changes(settings, catalog, metric, days)],
        unread_reason=unread_rows.first_reason(settings, source, [entry.ingestion_id for entry in new if entry.malformed]),
    )


def _changes(settings: Settings, catalog: Catalog, metric: str, days: Sequence[date]) -> list[NumberChange]:
    series = served_version.daily(settings, catalog, catalog.metrics[metric])
    known = history.history(settings, series, days)
    return [NumberChange(metric, known[day][-1], history.moved(series, known[day])[-1]) for day in sorted(days) if known.get(day)]
