"""From changed silver days to a metric's periods: which numbers stand there, what a change makes of them, what was published.

Only reading, without a JVM. What changed silver is told in ``impact``; what is published of it is decided in ``publish`` and
``rollups``, whose rules are followed here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.calendar.days import reach_ahead
from lakehouse.delta import table_io
from lakehouse.gold.numbers import served_version
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.publication import candidates
from lakehouse.ledger import publications, restatements

if TYPE_CHECKING:
    from lakehouse.contracts.series import Series
    from lakehouse.ledger.publications import Publication
    from lakehouse.settings import Settings

_TOLD = ("version_name", "period", "state", "is_latest", "published_at", "reason", "booked_on")


class ImpactOutcome(str, Enum):
    """What a change of its days makes of a period's number, as it stands now."""

    PUBLISHED = "published"
    RESTATED = "restated"
    ADJUSTED = "adjusted"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Affected:
    """A period of a series: its newest number, and what a change makes of it; ``held`` where a candidate waits for a person."""

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
    """A version that was published because of what was asked about."""

    series: str
    period: str
    version: str
    state: str
    reason: str
    published_at: datetime
    publication_id: str


#: A period's first day in a commit of a gold table: one published version.
Shown = tuple[int, date]
#: What was published of a series because of something, of those of its periods that it can have moved.
Moves = Callable[["Series", Collection[date]], Iterable[Shown]]


def through(
    settings: Settings, daily: Series, days: Collection[date], moves: Moves
) -> tuple[list[Affected], list[PublishedRevision]]:
    """Follow changed silver days to the numbers of a metric and to its roll-ups."""
    starts = reach_ahead(days, daily.metric.window)
    if not starts:
        return [], []
    stands = _Stands(settings, daily, starts)
    affected, shown = stands.affected(), set(moves(daily, starts))
    moved = stands.moved(shown)
    # What is booked to an open day changes the roll-ups that hold that day, and not those of the day that closed.
    changing = {one.booked_to or one.start for one in affected}
    shown |= {(version, booked) for version, start in shown if (booked := stands.booked_on(version, start))}
    for rollup in daily.rollups:
        changed = _starts(rollup, changing)
        periods = _Stands(settings, rollup, changed | _starts(rollup, starts))
        affected += periods.affected(changed)
        steps = {step for version, day in shown for step in following(settings, rollup, version, {rollup.period(day).start})}
        moved += periods.moved(steps)
    return affected, moved


def following(settings: Settings, one: Series, version: int, starts: Collection[date]) -> set[Shown]:
    """What was published of some periods up to the first run that brought the series up to a version of the layer below.

    A run may publish in several commits, and one that was stopped behind its commit is recorded by the next.
    """
    runs = sorted(
        (entry.gold_version, entry.followed_version) for entry in restatements.of(settings, served_version.follower(one))
    )
    first = min((at for at, (_, followed) in enumerate(runs) if followed >= version), key=lambda at: runs[at][::-1], default=None)
    if first is None:
        return set()
    before, last = (runs[first - 1][0] if first else -1), runs[first][0]
    return naming((entry for entry in publications.of(settings, one.name) if before < entry.gold_version <= last), starts)


def naming(told: Iterable[Publication], starts: Collection[date]) -> set[Shown]:
    """What some publications showed of some periods."""
    return {(entry.gold_version, start) for entry in told for start in starts if f"{start}" in entry.published}


class _Stands:
    """What is published of some periods of a series."""

    def __init__(self, settings: Settings, one: Series, starts: Collection[date]) -> None:
        self._series, self._starts = one, sorted(starts)
        self._today = settings.clock().date()
        found = table_io.read(locations.gold(settings, one), [one.by, *_TOLD], {one.by: starts}, settings.storage_options)
        rows = [] if found is None else found.to_pylist()
        self._versions: dict[str, dict[str, Any]] = {row["version_name"]: row for row in rows}
        self._newest = {row[one.by]: row for row in rows if row["is_latest"]}
        self._held = {held.start for held in candidates.held(settings, one, starts)}
        self._publications = {entry.gold_version: entry for entry in publications.of(settings, one.name)}

    def affected(self, changed: Collection[date] | None = None) -> list[Affected]:
        """Every period.

        :param changed: those whose number changes; None where all do.
        """
        return [self._affected(start, changes=changed is None or start in changed) for start in self._starts]

    def moved(self, shown: Iterable[Shown]) -> list[PublishedRevision]:
        """Versions as they were published."""
        told = []
        for version, start in sorted(shown):
            publication = self._publications.get(version)
            row = self._versions.get(publication.published.get(f"{start}", "")) if publication else None
            if publication is not None and row is not None:
                told.append(
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
        return told

    def booked_on(self, version: int, start: date) -> date | None:
        """The open day that a published adjustment was booked to."""
        publication = self._publications.get(version)
        row = self._versions.get(publication.published.get(f"{start}", "")) if publication else None
        booked: date | None = row["booked_on"] if row else None
        return booked

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
