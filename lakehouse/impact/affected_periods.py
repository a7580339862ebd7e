"""The published periods affected by changed silver days: their numbers, the outcome of the change, and its publications.

This module only reads. ``analysis`` finds the days that a file or a key changes; the outcomes follow the publishing rules of
``gold.restatement``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse import locations
from lakehouse.contracts.series import days_reached
from lakehouse.gold.numbers import served_version
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.publication import candidates
from lakehouse.ledger import failures, publications

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake, table_io
    from lakehouse.ledger.publications import Publication

_COLUMNS = ("version_name", "period", "state", "is_latest", "published_at", "reason", "booked_on")


class ImpactOutcome(str, Enum):
    """The outcome of changed days for a period's number, given its present state."""

    PUBLISHED = "published"
    RESTATED = "restated"
    ADJUSTED = "adjusted"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Affected:
    """A period of a series: its newest number and the outcome of a change; ``held`` if a candidate waits for a person."""

    series: str
    period: str
    start: date
    version: str | None
    state: str | None
    outcome: ImpactOutcome
    booked_to: date | None = None
    held: bool = False


@dataclass(frozen=True)
class PublishedRevision:
    """A revision that was published because of the subject of an analysis."""

    series: str
    period: str
    version: str
    state: str
    reason: str
    published_at: datetime
    publication_id: str


class PublishedPeriod(NamedTuple):
    """A commit of a gold table together with the first day of a period that it published."""

    gold_version: int
    start: date


@dataclass(frozen=True)
class PublicationCause:
    """The rules by which publications count as caused by the subject of an analysis; by default none count.

    :param any_cause: include all publications.
    :param ingestions: include publications whose trigger names one of these ingestions.
    :param silver_changes: include publications that followed these versions of a silver table; by table name, each version with
        an event day that it changed.
    :param dimension_changes: include publications that recorded one of these changes, given as dimension, key, and start of
        validity.
    """

    any_cause: bool = False
    ingestions: frozenset[str] = frozenset()
    silver_changes: Mapping[str, Sequence[tuple[int, date]]] = field(default_factory=dict)
    dimension_changes: frozenset[tuple[str, str, str]] = frozenset()

    def published(self, lake: Lake, daily: Series, starts: Collection[date]) -> set[PublishedPeriod]:
        """The published versions of ``starts`` that the subject caused."""
        entries = publications.of(lake, daily.name) if self.any_cause or self.ingestions else []
        if not self.any_cause:
            entries = [entry for entry in entries if not self.ingestions.isdisjoint(entry.trigger.get("ingestions", ()))]
        published = _periods_in(entries, starts)
        for table in (entry.silver for entry in daily.metric.read):
            for version, event_date in self.silver_changes.get(table, ()):
                changed = days_reached(daily.metric, {event_date}) & set(starts)
                published |= published_through(lake, daily, version, changed, table)
        for entry in publications.of(lake, daily.name) if self.dimension_changes else ():
            for change in entry.dimension_changes.get("first", ()):
                if (change["dimension"], change["key"], change["from"]) in self.dimension_changes:
                    concerned = days_reached(daily.metric, set(map(date.fromisoformat, change["days"])))
                    published |= _periods_in([entry], concerned & set(starts))
        return published


def affected(lake: Lake, daily: Series, days: Collection[date]) -> list[Affected]:
    """The daily and longer periods of a metric that a change of the silver days ``days`` affects."""
    starts = days_reached(daily.metric, days)
    if not starts:
        return []
    periods = _PublishedPeriods(lake, daily, starts).affected()
    # An adjustment changes the longer periods that contain the open day to which it is booked, not those of the closed day.
    changing = {period.booked_to or period.start for period in periods}
    for rollup in daily.rollups:
        changed = _starts(rollup, changing)
        periods += _PublishedPeriods(lake, rollup, changed | _starts(rollup, starts)).affected(changed)
    return periods


def published_because(lake: Lake, daily: Series, days: Collection[date], cause: PublicationCause) -> list[PublishedRevision]:
    """The revisions of a metric's daily and longer periods that a change of the silver days ``days`` caused."""
    starts = days_reached(daily.metric, days)
    published = cause.published(lake, daily, starts) if starts else set()
    if not published:
        return []
    of_days = _PublishedPeriods(lake, daily, starts)
    revisions = of_days.revisions(published)
    for period in list(published):
        booked_on = of_days.booked_on(period)
        if booked_on is not None:
            published.add(PublishedPeriod(period.gold_version, booked_on))
    for rollup in daily.rollups:
        followed: set[PublishedPeriod] = set()
        for period in published:
            followed |= published_through(lake, rollup, period.gold_version, {rollup.period(period.start).start})
        longer = _PublishedPeriods(lake, rollup, {period.start for period in followed})
        revisions += longer.revisions(followed)
    return revisions


def published_through(
    lake: Lake, series: Series, version: int, starts: Collection[date], table: str = ""
) -> set[PublishedPeriod]:
    """The versions of the periods ``starts`` published by the first run that followed ``version`` of the upstream table.

    A run may publish in several commits, and a run that was stopped after its commit is recorded by the next run, so all commits
    since the previous run are included.

    :param table: the name of the silver table; empty for a longer period.
    """
    entries = served_version.runs(lake, series)
    runs = sorted({(entry.gold_version, served_version.version_followed(series, entry, table)) for entry in entries})
    followed = [run for run in runs if run[1] >= version]
    if not followed:
        return set()
    first = min(followed, key=lambda run: (run[1], run[0]))
    before = max((gold_version for gold_version, _ in runs[: runs.index(first)]), default=-1)
    commits = (entry for entry in publications.of(lake, series.name) if before < entry.gold_version <= first[0])
    return _periods_in(commits, starts)


def _periods_in(entries: Iterable[Publication], starts: Collection[date]) -> set[PublishedPeriod]:
    """The versions of the periods ``starts`` published by ``entries``."""
    return {PublishedPeriod(entry.gold_version, start) for entry in entries for start in starts if f"{start}" in entry.published}


class _PublishedPeriods:
    """The published rows and held candidates of a series' periods."""

    def __init__(self, lake: Lake, series: Series, starts: Collection[date]) -> None:
        self._series, self._starts = series, sorted(starts)
        self._today = lake.now().date()
        where: table_io.Where = {series.by: self._starts}
        table = locations.gold(lake, series).read([series.by, *_COLUMNS], where)
        rows = [] if table is None else table.to_pylist()
        self._versions: dict[str, dict[str, Any]] = {row["version_name"]: row for row in rows}
        self._newest = {row[series.by]: row for row in rows if row["is_latest"]}
        self._held = {held.start for held in candidates.held(lake, series, starts)}
        self._held |= failures.failing(lake, series.name, starts).keys()
        self._publications = {entry.gold_version: entry for entry in publications.of(lake, series.name)}

    def affected(self, changed: Collection[date] | None = None) -> list[Affected]:
        """The periods with their outcomes.

        :param changed: the first days of the periods whose number changes; None if all change.
        """
        return [self._affected(start, changes=changed is None or start in changed) for start in self._starts]

    def revisions(self, published: Iterable[PublishedPeriod]) -> list[PublishedRevision]:
        """The revisions of ``published``, in the order of publication."""
        revisions = []
        for period in sorted(published):
            publication, row = self._publications.get(period.gold_version), self._row(period)
            if publication is not None and row is not None:
                revisions.append(
                    PublishedRevision(
                        series=self._series.name,
                        period=row["period"],
                        version=row["version_name"],
                        state=row["state"],
                        reason=row["reason"],
                        published_at=row["published_at"],
                        publication_id=publication.publication_id,
                    )
                )
        return revisions

    def booked_on(self, period: PublishedPeriod) -> date | None:
        """The open day to which a published adjustment was booked."""
        row = self._row(period)
        booked: date | None = row["booked_on"] if row else None
        return booked

    def _row(self, period: PublishedPeriod) -> dict[str, Any] | None:
        publication = self._publications.get(period.gold_version)
        return self._versions.get(publication.published.get(f"{period.start}", "")) if publication else None

    def _affected(self, start: date, *, changes: bool) -> Affected:
        row, outcome, booked_to = self._newest.get(start), ImpactOutcome.RESTATED, None
        if not changes:
            outcome = ImpactOutcome.UNCHANGED
        elif row is None:
            outcome = ImpactOutcome.PUBLISHED
        elif row["state"] == State.FINAL.value and self._series.metric.publication.after_close == "adjust":
            outcome, booked_to = ImpactOutcome.ADJUSTED, self._today
        return Affected(
            series=self._series.name,
            period=self._series.period(start).name,
            start=start,
            version=row["version_name"] if row else None,
            state=row["state"] if row else None,
            outcome=outcome,
            booked_to=booked_to,
            held=start in self._held,
        )


def _starts(rollup: Series, days: Collection[date]) -> set[date]:
    return {period.start for period in rollup.periods(days)}
