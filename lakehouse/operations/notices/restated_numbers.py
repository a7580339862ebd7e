"""The numbers that a publication restated: each with the number that readers had before, and the changes of silver it contains.

This module only reads. ``pending`` decides which publications make a notice, and for whom; ``notice`` has the text.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from lakehouse.calendar.periods import Kind
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import served_version
from lakehouse.gold.numbers.lifecycle import parse_version_name
from lakehouse.ledger import restatements
from lakehouse.operations.notices.notice import Notice, RestatedPeriod, restates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.ledger.publications import Publication
    from lakehouse.settings import Settings

#: Per restated day the versions of silver whose changes its number contains and the one before did not: those after the
#: first, through the second.
Answers = dict[str, tuple[int, int]]


def notices(settings: Settings, daily: Series, series: Series, entries: Sequence[Publication]) -> list[tuple[Notice, Answers]]:
    """A notice for each of some publications of a series that restated something, with the changes its days contain.

    :param daily: the daily series: the series itself, or the one that it is computed from.
    """
    later_versions = {entry.publication_id: _later_versions(entry) for entry in entries}
    starts = {start for versions in later_versions.values() for start in versions}
    history = numbers_history.history(settings, series, starts) if starts else {}
    followed = restatements.of(settings, served_version.follower(series)) if series.kind is Kind.DAY and starts else []
    result = []
    for entry in entries:
        before = max((run.followed_version for run in followed if run.gold_version < entry.gold_version), default=-1)
        periods: list[RestatedPeriod] = []
        answers: Answers = {}
        for start, name in sorted(later_versions[entry.publication_id].items()):
            restated = _restated(settings, daily, series, history.get(start, []), name)
            if restated is None:
                continue
            periods.append(restated)
            if series.kind is Kind.DAY and (answer := _answered(history[start], name, before)):
                answers[restated.period] = answer
        if periods:
            result.append((_notice(series, entry, periods), answers))
    return result


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
        changed_rows=sum(counts) if counts and series.metric.window == 1 else None,
        additive=frozenset(series.metric.additive),
    )


def _later_versions(entry: Publication) -> dict[date, str]:
    """The published versions that are not the first of their period, by the first day of the period."""
    named = {date.fromisoformat(start): parse_version_name(name) for start, name in entry.published.items()}
    return {start: f"{name}" for start, name in named.items() if name and (name.revision, name.adjustment) != (1, None)}


def _restated(
    settings: Settings, daily: Series, series: Series, versions: Sequence[PublishedVersion], name: str
) -> RestatedPeriod | None:
    """A version of a period compared with the one before; None if it restates nothing."""
    place = next((place for place, version in enumerate(versions) if version.name == name), 0)
    if not place or not restates(versions[place].reason):
        return None
    before, after = versions[place - 1], versions[place]
    return RestatedPeriod(
        period=after.period,
        before=before.name,
        after=after.name,
        state=after.state,
        reason=after.reason,
        explanation=after.restatement_reason,
        changed_rows=_changed_rows(settings, daily, before, after) if series.kind is not Kind.DAY else after.row["changed_rows"],
        booked_on=after.row["booked_on"],
        changes=tuple(
            numbers_history.changes(
                series, numbers_history.in_whole(series, before, versions), numbers_history.in_whole(series, after, versions)
            )
        ),
    )


def _changed_rows(settings: Settings, daily: Series, before: PublishedVersion, after: PublishedVersion) -> int | None:
    """How many rows of silver changed in the days for which a longer period was computed again."""
    days = after.made_from.changed_since(before.made_from)
    counts = []
    for day, versions in numbers_history.history(settings, daily, days).items() if days else ():
        first, last = map(_revision, days[day])
        passed = [version for version in versions if version.adjustment is None and first < version.revision <= last]
        restated = [version for version in passed if version.revision == 1 or restates(version.reason)]
        counts += [version.row["changed_rows"] for version in restated if version.row["changed_rows"] is not None]
    return sum(counts) if counts else None


def _revision(label: str | None) -> int:
    return int((label or "r0").removeprefix("r"))


def _answered(versions: Sequence[PublishedVersion], name: str, followed: int) -> tuple[int, int] | None:
    """The versions of silver whose changes a number is the first to contain: those after one, through another.

    :param followed: the version of silver that the metric had followed before; changes up to it did not change the number. A
        number that was held and signed off later contains all changes since the one before it.
    """
    place = next(place for place, version in enumerate(versions) if version.name == name)
    before, after = (version.row["silver_version"] for version in (versions[place - 1], versions[place]))
    if after is None:
        return None
    first = -1 if before is None else before
    if not versions[place].row["signed_off_by"] and followed <= after:
        first = max(first, followed)
    return (first, after) if first < after else None
