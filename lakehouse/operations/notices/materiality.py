"""Materiality: a consumer is notified of restatements beyond the bounds in the metric's contract.

A number is compared with the version of which the consumer was last notified, so small changes that add up beyond the bounds are
reported. Other changes are recorded in the log of notices with that version. ``notice`` has the rule, ``restated_numbers`` reads
the numbers, and ``pending`` writes the log.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.gold.numbers.lifecycle import parse_version_name
from lakehouse.operations.notices import log as notice_log
from lakehouse.operations.notices.restated_numbers import LastHeard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakehouse.contracts.checks import ChangeBounds
    from lakehouse.ledger.publications import Publication
    from lakehouse.operations.notices.notice import Notice
    from lakehouse.operations.notices.restated_numbers import Answers, PublicationReader, RestatedNumber

#: The log dates a notice by its commit, which may be slightly later than the numbers in it.
_APART = timedelta(days=1)


class JudgedNotice(NamedTuple):
    """A notice for a consumer. ``unheard`` is None if the consumer is notified, see ``operations.notices.log.NoticeEntry``."""

    consumer: str
    notice: Notice
    answers: Answers
    unheard: Mapping[str, str] | None = None


def judged(
    reader: PublicationReader,
    publications: Sequence[Publication],
    consumers: Collection[str],
    bounds: Mapping[str, Mapping[str, ChangeBounds]],
) -> Iterator[JudgedNotice]:
    """The notices for consumers about publications, and the changes within their bounds: at most one of each per consumer.

    :param publications: oldest first, and later than all previously evaluated publications.
    :param bounds: by consumer and measure; a consumer without bounds is notified of everything.
    """
    heard = _recalled(reader, publications, bounds.keys()) if bounds else {}
    for publication in publications:
        numbers = reader.restated(publication)
        for consumer in consumers if numbers else ():
            if consumer in bounds:
                yield from _of_consumer(reader, publication, consumer, bounds[consumer], heard[consumer])
            else:
                yield JudgedNotice(consumer, *reader.notice(publication, numbers))


def _of_consumer(
    reader: PublicationReader,
    publication: Publication,
    consumer: str,
    bounds: Mapping[str, ChangeBounds],
    heard: dict[str, LastHeard],
) -> Iterator[JudgedNotice]:
    """The notices for a consumer with bounds. Changes within the bounds are added to ``heard``."""
    earlier = reader.earlier(publication)
    since = {name: heard[version.name] for name, version in earlier.items() if version.name in heard}
    additive = frozenset(reader.series.metric.additive)
    material: list[RestatedNumber] = []
    immaterial: list[RestatedNumber] = []
    for number in reader.restated(publication, since):
        (material if number.period.exceeds(bounds, additive) else immaterial).append(number)
    for number in immaterial:
        heard[number.period.after] = LastHeard(number.period.before, number.answers[0] if number.answers else None)
    if material:
        yield JudgedNotice(consumer, *reader.notice(publication, material))
    if immaterial:
        unheard = {number.period.after: number.period.before for number in immaterial}
        yield JudgedNotice(consumer, *reader.notice(publication, immaterial), unheard)


def _recalled(
    reader: PublicationReader, publications: Sequence[Publication], consumers: Collection[str]
) -> dict[str, dict[str, LastHeard]]:
    """By consumer and name of an unreported version, the version of which the consumer was last notified.

    Only the months of earlier restatements of the periods are read.
    """
    times = [version.published_at for entry in publications for version in reader.earlier(entry).values()]
    months = {f"{time + apart:%Y-%m}" for time in times for apart in (-_APART, _APART)}
    heard: dict[str, dict[str, LastHeard]] = {consumer: {} for consumer in consumers}
    for entry in notice_log.within_bounds(reader.lake, reader.series.name, months) if months else ():
        for name, version in entry.unheard.items() if entry.consumer in heard else ():
            parsed = parse_version_name(name)
            after, _ = entry.answers.get(parsed.period if parsed else "", (None, None))
            heard[entry.consumer][name] = LastHeard(version, after)
    return heard
