"""The numbers restated by a publication, each with the previous number for readers, and the silver changes it contains.

This module only reads. ``pending`` selects publications and recipients; ``notice`` has the text.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from lakehouse.calendar.periods import Kind
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import served_version
from lakehouse.gold.numbers.comparison import Sides, added
from lakehouse.gold.numbers.lifecycle import parse_version_name, restates
from lakehouse.operations.notices.notice import Notice, RestatedPeriod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import MeasureDelta, Number
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.lake import Lake
    from lakehouse.ledger.publications import Publication, Restatement

#: Per restated day, the silver versions whose changes its number contains and the previous number did not: those after the first,
#: through the second.
Answers = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class LastHeard:
    """The version of a period of which a consumer was last notified, and the silver version whose changes the consumer knows."""

    version: str
    followed: int | None = None


@dataclass(frozen=True)
class RestatedNumber:
    """A restated number, with the changes of silver's main table that it contains if it is a daily number."""

    period: RestatedPeriod
    answers: tuple[int, int] | None


@dataclass(frozen=True)
class PublicationReader:
    """The restatements of publications of a series; created by :func:`read`."""

    lake: Lake
    daily: Series
    series: Series
    history: Mapping[date, Sequence[PublishedVersion]]
    followed: Sequence[Restatement]

    def restated(self, entry: Publication, heard: Mapping[str, LastHeard] | None = None) -> list[RestatedNumber]:
        """The periods that a publication restated, each compared with its previous version.

        :param heard: by the name of a published version, the version to compare it with instead.
        """
        before = max((run.followed_version for run in self.followed if run.gold_version < entry.gold_version), default=-1)
        numbers = []
        for versions, place in self._places(entry):
            last_heard = (heard or {}).get(versions[place].name)
            first = _place(versions, last_heard.version) if last_heard else None
            is_audited = self.series.kind is Kind.DAY and not self.series.metric.reads_newest
            answers = _answered(versions, place, before) if is_audited else None
            if answers and last_heard and last_heard.followed is not None:
                answers = (min(last_heard.followed, answers[0]), answers[1])
            first = place - 1 if first is None else first
            restated = _restated(self.lake, self.daily, self.series, versions, first, place)
            numbers.append(RestatedNumber(restated, answers))
        return numbers

    def earlier(self, entry: Publication) -> dict[str, PublishedVersion]:
        """By the name of each version that restates its period, the previous restating version."""
        result = {}
        for versions, place in self._places(entry):
            earlier = [version for version in versions[1:place] if restates(version.reason)]
            if earlier:
                result[versions[place].name] = earlier[-1]
        return result

    def _places(self, entry: Publication) -> Iterator[tuple[Sequence[PublishedVersion], int]]:
        """The history of each period that a publication restated, and the position of the published version in it."""
        for start, name in sorted(_later_versions(entry).items()):
            versions = self.history.get(start, [])
            place = _place(versions, name)
            if place and restates(versions[place].reason):
                yield versions, place

    def notice(self, entry: Publication, numbers: Sequence[RestatedNumber]) -> tuple[Notice, Answers]:
        """The notice of ``numbers`` of a publication, with the changes that its days contain."""
        answers = {number.period.period: number.answers for number in numbers if number.answers}
        return _notice(self.series, entry, [number.period for number in numbers]), answers


def read(lake: Lake, daily: Series, series: Series, entries: Sequence[Publication]) -> PublicationReader:
    """Read the history of the periods in ``entries``, publications of a series.

    :param daily: the daily series: the series itself, or the series from which it is computed.
    """
    starts = {start for entry in entries for start in _later_versions(entry)}
    history = numbers_history.history(lake, series, starts) if starts else {}
    followed = served_version.runs(lake, series) if series.kind is Kind.DAY and starts else []
    return PublicationReader(lake, daily, series, history, followed)


def _place(versions: Sequence[PublishedVersion], name: str) -> int | None:
    return next((place for place, version in enumerate(versions) if version.name == name), None)


def _notice(series: Series, entry: Publication, restated: Sequence[RestatedPeriod]) -> Notice:
    counts = [number.changed_rows for number in restated if number.changed_rows is not None]
    return Notice(
        metric=series.metric.metric,
        series=series.name,
        publication_id=entry.publication_id,
        gold_version=entry.gold_version,
        published_at=entry.recorded_at,
        restated=restated,
        # A window counts a row on each of its days.
        changed_rows=sum(counts) if counts and series.metric.counts_rows_of_its_day else None,
        additive=frozenset(series.metric.additive),
    )


def _later_versions(entry: Publication) -> dict[date, str]:
    """The published versions that are not the first of their period, by the first day of the period."""
    named = {date.fromisoformat(start): parse_version_name(name) for start, name in entry.published.items()}
    return {start: f"{name}" for start, name in named.items() if name and (name.revision, name.adjustment) != (1, None)}


def _restated(
    lake: Lake, daily: Series, series: Series, versions: Sequence[PublishedVersion], first: int, place: int
) -> RestatedPeriod:
    """The version at position ``place`` of a period's history, compared with the version at position ``first``."""
    before, after = versions[first], versions[place]
    steps = [step for step in range(first + 1, place + 1) if restates(versions[step].reason)]
    rows = [_rows_of_step(lake, daily, series, versions[step - 1], versions[step]) for step in steps]
    counts = [count for count in rows if count is not None]
    return RestatedPeriod(
        period=after.period,
        before=before.name,
        after=after.name,
        state=after.state,
        reason=after.reason,
        explanation=after.restatement_reason,
        changed_rows=sum(counts) if counts else None,
        booked_on=after.row["booked_on"],
        changes=tuple(_changes(series, versions, first, place, steps)),
        unheard=len(steps) - 1,
    )


def _rows_of_step(lake: Lake, daily: Series, series: Series, before: PublishedVersion, after: PublishedVersion) -> int | None:
    """The number of changed silver rows between consecutive versions; None if unknown."""
    count: int | None = after.row["changed_rows"]
    return count if series.kind is Kind.DAY else _changed_rows(lake, daily, before, after)


def _changes(
    series: Series, versions: Sequence[PublishedVersion], first: int, place: int, steps: Sequence[int]
) -> list[MeasureDelta]:
    """The changes by restatements between two versions. The growth of a running period in between is not counted."""

    def between(before: int, after: int) -> list[MeasureDelta]:
        old, new = (numbers_history.in_whole(series, versions[side], versions) for side in (before, after))
        return numbers_history.changes(series, old, new)

    quiet = [versions[step] for step in range(first + 1, place) if step not in steps]
    if not any(version.has_new_content for version in quiet):
        return between(first, place)
    moved_back: dict[tuple[Any, str], list[Number | None]] = defaultdict(list)
    for change in (change for step in steps for change in between(step - 1, step)):
        moved_back[change.grain, change.measure].append(Sides(change.after or 0, change.before or 0).difference)
    return [
        replace(change, before=added([change.after or 0, *moved_back[change.grain, change.measure]]))
        for change in between(place - 1, place)
    ]


def _changed_rows(lake: Lake, daily: Series, before: PublishedVersion, after: PublishedVersion) -> int | None:
    """The number of silver rows changed on the days for which a longer period was recomputed."""
    days = after.made_from.changed_since(before.made_from)
    counts = []
    for day, versions in numbers_history.history(lake, daily, days).items() if days else ():
        first, last = map(_revision, days[day])
        passed = [version for version in versions if version.adjustment is None and first < version.revision <= last]
        restated = [version for version in passed if version.revision == 1 or restates(version.reason)]
        counts += [version.row["changed_rows"] for version in restated if version.row["changed_rows"] is not None]
    return sum(counts) if counts else None


def _revision(label: str | None) -> int:
    return int((label or "r0").removeprefix("r"))


def _answered(versions: Sequence[PublishedVersion], place: int, followed: int) -> tuple[int, int] | None:
    """The silver versions whose changes a number is the first to contain: those after the first, through the second.

    :param followed: the version of silver that the metric had followed before; changes up to it did not change the number. A
        number that was held and signed off later contains all changes since the previous number.
    """
    before, after = (version.row["silver_version"] for version in (versions[place - 1], versions[place]))
    if after is None:
        return None
    first = -1 if before is None else before
    if not versions[place].row["signed_off_by"] and followed <= after:
        first = max(first, followed)
    return (first, after) if first < after else None
