"""The publications that consumers have yet to be notified of, and the rows of silver's audit that these notices cover.

Consumers are notified of everything published after the first run, in the tables that readers see; the recipients are those in
the metric's contract at that time. Publications older than :data:`NOTIFY_WITHIN` make no notice (for example after the replay of
a history), and older notices are no longer sent.

A contract may bound a consumer's notices by materiality: only restatements beyond the bounds are reported. A number is compared
with the version of which the consumer was last notified, so small changes that add up beyond the bounds are reported. Other
changes are recorded in the log of notices with that version. The rule is in ``notice``, the numbers are read in
``restated_numbers``; ``log`` stores the notices, and ``dispatch`` sends them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lakehouse import locations
from lakehouse.gold.numbers import served_version
from lakehouse.gold.numbers.lifecycle import parse_version_name
from lakehouse.ledger import publications
from lakehouse.operations.notices import log as notice_log
from lakehouse.operations.notices import restated_numbers
from lakehouse.operations.notices.log import NO_TARGET, NOTIFY_WITHIN, NoticeEntry, NoticeStatus
from lakehouse.operations.notices.restated_numbers import LastHeard
from lakehouse.silver import audit as silver_audit
from lakehouse.silver import audit_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.checks import ChangeBounds
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake
    from lakehouse.ledger.publications import Publication
    from lakehouse.operations.delivery import TargetsOf
    from lakehouse.operations.notices.notice import Notice
    from lakehouse.operations.notices.restated_numbers import Answers, PublicationReader, RestatedNumber

#: The number of publications of a series that are read at once.
_AT_ONCE = 100


@dataclass(frozen=True)
class Audience:
    """The daily series of a metric as its consumers see it, and the version of silver that it has followed so far."""

    daily: Series
    followed: int

    @property
    def consumers(self) -> list[str]:
        """The consumers in the contract, without repetition."""
        return list(dict.fromkeys(self.daily.metric.consumers))


def audiences(lake: Lake, catalog: Catalog) -> tuple[list[Audience], list[str]]:
    """The metrics whose contract names consumers, and messages about metrics whose served version is unknown.

    A dataset version that is still being filled is left out, because it has no readers until it is promoted.
    """
    result, complaints = [], []
    for metric in catalog.metrics.values():
        if metric.name != metric.metric:
            continue
        try:
            daily = served_version.daily(lake, catalog, metric)
        except served_version.UnservedVersionError as problem:
            complaints.append(f"{problem}")
            continue
        if daily.metric.consumers:
            result.append(Audience(daily, served_version.followed_version(lake, daily)))
    return result, complaints


def waiting(lake: Lake) -> list[NoticeEntry]:
    """The notices that are still to be sent, oldest first."""
    return notice_log.of(lake, since=_since(lake), statuses=[NoticeStatus.WAITING])


def add_notices(lake: Lake, every: Iterable[Audience], targets_of: TargetsOf) -> int:
    """Add a notice for each publication with restatements since the last run, one per consumer and target.

    Changes within the bounds of a consumer are recorded and not sent.

    :param targets_of: returns the target names of a consumer; without targets, nothing is recorded.
    :returns: the number of notices to send.
    """
    return sum(
        _add_notices(lake, series, audience, targets_of)
        for audience in every
        for series in (audience.daily, *audience.daily.rollups)
    )


def follow_in_audit(lake: Lake, catalog: Catalog, every: Sequence[Audience]) -> int:
    """Record the notification of the audit rows whose impacted metrics have all been notified.

    That is: a restated day contains the change, all its notices are delivered, and every other metric with consumers that the
    change may affect has followed silver that far, with its notices delivered. Longer periods have separate notices, and the
    audit does not wait for them.

    :param every: the result of :func:`audiences` before :func:`add_notices` ran.
    :returns: the number of recorded rows.
    """
    # A notice that is too old to be sent stays waiting: its consumer was never notified.
    recent = notice_log.of(lake, since=_since(lake) - NOTIFY_WITHIN, statuses=[NoticeStatus.WAITING, NoticeStatus.DELIVERED])
    open_ = [entry for entry in recent if entry.status is NoticeStatus.WAITING]
    unfinished = {entry.publication_id for entry in open_}
    sent: dict[str, dict[str, list[NoticeEntry]]] = defaultdict(lambda: defaultdict(list))
    for entry in recent:
        if entry.publication_id not in unfinished:
            sent[entry.series][entry.publication_id].append(entry)
    audience_of = {audience.daily.name: audience for audience in every}
    marked = 0
    done: list[NoticeEntry] = []
    for series, by_publication in sent.items():
        waits = False
        if series in audience_of:
            source = audience_of[series].daily.metric.source
            silver_audit.follow(lake, catalog.sources[source], catalog.metrics_of(source))
            count, waits = _mark(lake, audience_of, series, [*by_publication.values()], open_)
            marked += count
        done += [] if waits else [entry for entries in by_publication.values() for entry in entries]
    notice_log.audited(lake, done)
    return marked


def _add_notices(lake: Lake, series: Series, audience: Audience, targets_of: TargetsOf) -> int:
    version = max(locations.gold(lake, series).version(), 0)
    scanned = notice_log.scanned_version(lake, series.name)
    if scanned is not None and scanned >= version:
        return 0
    new: list[Publication] = []
    if scanned is not None:
        publications.follow(lake, series.name, locations.gold(lake, series))
        new = [entry for entry in publications.of(lake, series.name) if scanned < entry.gold_version <= version]
        version = new[_AT_ONCE - 1].gold_version if len(new) > _AT_ONCE else version
        new = [entry for entry in new[:_AT_ONCE] if entry.recorded_at >= _since(lake)]
    reader = restated_numbers.read(lake, audience.daily, series, new)
    consumers = [consumer for consumer in audience.consumers if targets_of(consumer)]
    judged = judged_by_bounds(reader, new, consumers, series.metric.materiality) if consumers else ()
    entries = [entry for notice in judged for entry in _entries(lake, notice, targets_of(notice.consumer))]
    waiting = sum(entry.status is NoticeStatus.WAITING for entry in entries)
    return waiting if notice_log.add(lake, series.name, entries, version, scanned) else 0


def _entries(lake: Lake, judged: JudgedNotice, targets: Collection[str]) -> list[NoticeEntry]:
    """A notice per target, or a single unsent notice if the changes are within the consumer's bounds."""
    notice, is_told = judged.notice, judged.unheard is None
    entry = NoticeEntry(
        message_id=notice.message_id(judged.consumer),
        series=notice.series,
        publication_id=notice.publication_id,
        gold_version=notice.gold_version,
        consumer=judged.consumer,
        target=NO_TARGET,
        subject=notice.subject,
        text=notice.text,
        data={**notice.data, "consumer": judged.consumer},
        answers=judged.answers,
        published_at=notice.published_at,
        found_at=lake.now(),
        status=NoticeStatus.WAITING if is_told else NoticeStatus.WITHIN_BOUNDS,
        unheard=judged.unheard or {},
    )
    return [replace(entry, target=target) for target in targets] if is_told else [entry]


def _all_answers(entries: Sequence[NoticeEntry]) -> dict[str, tuple[int, int]]:
    """The changes contained in the notices of a publication; notices with bounds cover fewer days, or more changes."""
    answers: dict[str, tuple[int, int]] = {}
    for period, (after, through) in ((period, span) for entry in entries for period, span in entry.answers.items()):
        first, last = answers.get(period, (after, through))
        answers[period] = (min(first, after), max(last, through))
    return answers


def _mark(
    lake: Lake,
    audience_of: Mapping[str, Audience],
    series: str,
    sent: Sequence[Sequence[NoticeEntry]],
    open_: Sequence[NoticeEntry],
) -> tuple[int, bool]:
    """Record the notification of the audit rows whose changes the notified days of a metric contain.

    :param sent: the delivered notices of each publication.
    :returns: the number of recorded rows, and whether others wait for another metric.
    """
    answers = [(_all_answers(entries), [entry.message_id for entry in entries]) for entries in sent]
    versions = {number for days, _ in answers for after, through in days.values() for number in range(after + 1, through + 1)}
    source = audience_of[series].daily.metric.source
    unmarked = audit_log.untold(lake, source, versions)
    kinds = ["silver_version", "impacted_kpis"]
    marked, waits = [], False
    for kind in unmarked.group_by(kinds).aggregate([]).select(kinds).to_pylist():
        version, numbers = kind["silver_version"], _by_series(kind["impacted_kpis"])
        covering = [ids for days, ids in answers if _answers(days, version, numbers.get(series, ()))]
        if not covering:
            continue
        readers = [audience_of[name] for name in numbers.keys() & audience_of.keys()]
        # A metric that reads the newest rows follows the versions of another table than the one that is audited.
        # So does one that reads the source among others, after its first one.
        audited = [reader for reader in readers if reader.daily.metric.source == source and not reader.daily.metric.reads_newest]
        of_audited = {reader.daily.name for reader in audited}
        lags = any(reader.followed < version for reader in audited)
        asked = [entry for entry in open_ if entry.series in of_audited]
        if lags or any(_answers(entry.answers, version, numbers.get(entry.series, ())) for entry in asked):
            waits = True
        else:
            notices = json.dumps(sorted({message_id for ids in covering for message_id in ids}))
            marked.append({**kind, "notices": notices})
    schema = pa.schema([*(unmarked.schema.field(name) for name in kinds), pa.field("notices", pa.string())])
    answered = unmarked.join(pa.Table.from_pylist(marked, schema=schema), kinds, join_type="inner")
    return audit_log.record_notified(lake, source, answered), waits


def _answers(answers: Mapping[str, tuple[int, int]], version: int, periods: Collection[str]) -> bool:
    return any(answers[name][0] < version <= answers[name][1] for name in periods if name in answers)


def _by_series(impacted: str | None) -> dict[str, list[str]]:
    """The periods named in an audit row, by series."""
    periods: dict[str, list[str]] = {}
    for kpi in json.loads(impacted or "[]"):
        series, _, period = kpi.partition("@")
        periods.setdefault(series, []).append(period)
    return periods


def _since(lake: Lake) -> datetime:
    return lake.now() - NOTIFY_WITHIN


#: The log dates a notice by its commit, which may be slightly later than the numbers in it.
_APART = timedelta(days=1)


class JudgedNotice(NamedTuple):
    """A notice for a consumer. ``unheard`` is None if the consumer is notified, see ``operations.notices.log.NoticeEntry``."""

    consumer: str
    notice: Notice
    answers: Answers
    unheard: Mapping[str, str] | None = None


def judged_by_bounds(
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
