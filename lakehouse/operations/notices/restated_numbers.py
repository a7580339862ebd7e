"""What a publication restated: each number beside the one that readers had, and the changes of silver that it answers.

Only reading, without a JVM. When it is told, and to whom, is in ``notices``; the words are in ``operations.notices.notice``.
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

#: Per restated day the versions of silver whose changes its number contains, and the one before did not: behind the first,
#: through the second.
Answers = dict[str, tuple[int, int]]


def notices(settings: Settings, daily: Series, one: Series, news: Sequence[Publication]) -> list[tuple[Notice, Answers]]:
    """What is to be told of those publications of a series that restated something, and what the numbers of days answer.

    :param daily: the days that the series is, or is made from.
    """
    again = {entry.publication_id: _restating(entry) for entry in news}
    starts = {start for named in again.values() for start in named}
    known = numbers_history.history(settings, one, starts) if starts else {}
    followed = restatements.of(settings, served_version.follower(one)) if one.kind is Kind.DAY and starts else []
    found = []
    for entry in news:
        before = max((run.followed_version for run in followed if run.gold_version < entry.gold_version), default=-1)
        told: list[RestatedPeriod] = []
        answers: Answers = {}
        for start, name in sorted(again[entry.publication_id].items()):
            restated = _restated(settings, daily, one, known.get(start, []), name)
            if restated is None:
                continue
            told.append(restated)
            if one.kind is Kind.DAY and (answer := _answered(known[start], name, before)):
                answers[restated.period] = answer
        if told:
            found.append((_notice(one, entry, told), answers))
    return found


def _notice(one: Series, entry: Publication, restated: Sequence[RestatedPeriod]) -> Notice:
    counts = [number.changed_rows for number in restated if number.changed_rows is not None]
    return Notice(
        metric=one.metric.metric,
        series=one.name,
        publication_id=entry.publication_id,
        gold_version=entry.gold_version,
        published_at=entry.recorded_at,
        restated=restated,
        # A window counts a row on each of its days.
        changed_rows=sum(counts) if counts and one.metric.window == 1 else None,
        additive=frozenset(one.metric.additive),
    )


def _restating(entry: Publication) -> dict[date, str]:
    """The versions that were published, by the first day of their period, without the first ones of their period."""
    named = {date.fromisoformat(start): parse_version_name(name) for start, name in entry.published.items()}
    return {start: f"{name}" for start, name in named.items() if name and (name.revision, name.adjustment) != (1, None)}


def _restated(
    settings: Settings, daily: Series, one: Series, known: Sequence[PublishedVersion], name: str
) -> RestatedPeriod | None:
    """What a version of a period says against the one before; None where it restates nothing."""
    place = next((place for place, version in enumerate(known) if version.name == name), 0)
    if not place or not restates(known[place].reason):
        return None
    before, after = known[place - 1], known[place]
    return RestatedPeriod(
        period=after.period,
        before=before.name,
        after=after.name,
        state=after.state,
        reason=after.reason,
        explanation=after.restatement_reason,
        changed_rows=_rows_behind(settings, daily, before, after) if one.kind is not Kind.DAY else after.row["changed_rows"],
        booked_on=after.row["booked_on"],
        changes=tuple(
            numbers_history.changes(
                one, numbers_history.in_whole(one, before, known), numbers_history.in_whole(one, after, known)
            )
        ),
    )


def _rows_behind(settings: Settings, daily: Series, before: PublishedVersion, after: PublishedVersion) -> int | None:
    """How many rows of silver are behind the days that a longer period was made from anew."""
    days = after.made_from.changed_since(before.made_from)
    counts = []
    for day, known in numbers_history.history(settings, daily, days).items() if days else ():
        first, last = map(_revision, days[day])
        passed = [version for version in known if version.adjustment is None and first < version.revision <= last]
        restated = [version for version in passed if version.revision == 1 or restates(version.reason)]
        counts += [version.row["changed_rows"] for version in restated if version.row["changed_rows"] is not None]
    return sum(counts) if counts else None


def _revision(label: str | None) -> int:
    return int((label or "r0").removeprefix("r"))


def _answered(known: Sequence[PublishedVersion], name: str, followed: int) -> tuple[int, int] | None:
    """The versions of silver whose changes a number is the first to hold: behind one, through another.

    :param followed: how far the metric had followed silver before; what came out equal then is not answered now. A number
        that was held meanwhile, and signed off, answers all since the one before it.
    """
    place = next(place for place, version in enumerate(known) if version.name == name)
    before, after = (version.row["silver_version"] for version in (known[place - 1], known[place]))
    if after is None:
        return None
    first = -1 if before is None else before
    if not known[place].row["signed_off_by"] and followed <= after:
        first = max(first, followed)
    return (first, after) if first < after else None
