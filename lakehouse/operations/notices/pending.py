"""Which publications consumers have to be told of, and what the audit of silver says when they have been. No JVM.

Told is what was published since somebody first looked, in the tables that readers see, to the consumers that the metric's
contract names now. What is older than :data:`NEWS` is news no more: it is neither found, as behind the replay of a history,
nor sent, where a target could not take it for so long. What a publication restated is in ``restated``, what became of its
notices in ``operations.notices.log``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.gold.numbers import served_version
from lakehouse.ledger import publications, restatements
from lakehouse.operations.notices import log as notice_log
from lakehouse.operations.notices import restated_numbers
from lakehouse.operations.notices.log import NoticeEntry, NoticeStatus
from lakehouse.silver import audit as rows
from lakehouse.silver import audit_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.ledger.publications import Publication
    from lakehouse.settings import Settings

#: Publications older than this are told to nobody any more.
NEWS = timedelta(days=7)
#: So many publications of a series are looked at in one go.
_AT_ONCE = 100


@dataclass(frozen=True)
class Audience:
    """The days of a metric as its consumers see them, and the version of silver that they have followed so far."""

    daily: Series
    followed: int

    @property
    def consumers(self) -> list[str]:
        """Whom the contract names, each once."""
        return list(dict.fromkeys(self.daily.metric.consumers))


def audiences(settings: Settings, catalog: Catalog) -> tuple[list[Audience], list[str]]:
    """The metrics whose contract names consumers, and complaints about those that cannot be told of.

    A dataset version that is filled beside is not among them: nobody reads it until it is promoted.
    """
    found, complaints = [], []
    for metric in catalog.metrics.values():
        if metric.name != metric.metric:
            continue
        try:
            daily = served_version.daily(settings, catalog, metric)
        except served_version.UnservedVersionError as problem:
            complaints.append(f"{problem}")
            continue
        if daily.metric.consumers:
            found.append(Audience(daily, restatements.followed_version(settings, served_version.follower(daily))))
    return found, complaints


def waiting(settings: Settings) -> list[NoticeEntry]:
    """The notices that are still to be sent, oldest first."""
    return notice_log.of(settings, since=_since(settings), statuses=[NoticeStatus.WAITING])


def find(settings: Settings, told: Iterable[Audience], targets: Collection[str]) -> int:
    """Write down a notice for each publication that restated something since the last look, one per consumer and target.

    :param targets: the names of those who are to send them.
    :returns: how many were written.
    """
    count = 0
    for one in told:
        for series in (one.daily, *one.daily.rollups):
            count += _find(settings, series, one, targets)
    return count


def follow_in_audit(settings: Settings, catalog: Catalog, told: Sequence[Audience]) -> int:
    """Let ``notification_sent`` be true for the audit rows whose impacted metrics have all been told of.

    That is: a restatement of a day holds the change, everybody has been told of it, and of the other metrics with consumers
    that the change may move each has followed silver that far, and told of what it restated for it. Longer periods have
    notices of their own, and the audit does not wait for them.

    :param told: as :func:`audiences` said before :func:`find` looked.
    :returns: how many rows say so now.
    """
    # One that was given up waits on: who was never told is not said to have been.
    recent = notice_log.of(settings, since=_since(settings) - NEWS, statuses=[NoticeStatus.WAITING, NoticeStatus.DELIVERED])
    open_ = [entry for entry in recent if entry.status is NoticeStatus.WAITING]
    unfinished = {entry.publication_id for entry in open_}
    sent: dict[str, dict[str, list[NoticeEntry]]] = defaultdict(lambda: defaultdict(list))
    for entry in recent:
        if entry.publication_id not in unfinished:
            sent[entry.series][entry.publication_id].append(entry)
    known = {one.daily.name: one for one in told}
    marked = 0
    done: list[NoticeEntry] = []
    for series, own in sent.items():
        waits = False
        if series in known:
            source = known[series].daily.metric.source
            rows.follow(settings, catalog.sources[source], catalog.metrics_of(source))
            count, waits = _mark(settings, known, series, [entries[0].answers for entries in own.values()], open_)
            marked += count
        done += [] if waits else [entry for entries in own.values() for entry in entries]
    notice_log.audited(settings, done)
    return marked


def _find(settings: Settings, one: Series, of: Audience, targets: Collection[str]) -> int:
    version = max(table_io.version(locations.gold(settings, one), settings.storage_options), 0)
    reached = notice_log.reached(settings, one.name)
    if reached is not None and reached >= version:
        return 0
    news: list[Publication] = []
    if reached is not None:
        publications.follow(settings, one.name, locations.gold(settings, one))
        known = publications.of(settings, one.name)
        news = [entry for entry in known if reached < entry.gold_version <= version]
        version = news[_AT_ONCE - 1].gold_version if len(news) > _AT_ONCE else version
        news = [entry for entry in news[:_AT_ONCE] if entry.recorded_at >= _since(settings)]
    entries = [
        NoticeEntry(
            message_id=notice.message_id(consumer),
            series=one.name,
            publication_id=notice.publication_id,
            gold_version=notice.gold_version,
            consumer=consumer,
            target=target,
            subject=notice.subject,
            text=notice.text,
            data={**notice.data, "consumer": consumer},
            answers=answers,
            published_at=notice.published_at,
            found_at=settings.clock(),
        )
        for notice, answers in restated_numbers.notices(settings, of.daily, one, news)
        for consumer in of.consumers
        for target in targets
    ]
    return len(entries) if notice_log.add(settings, one.name, entries, version, reached) else 0


def _mark(
    settings: Settings,
    known: Mapping[str, Audience],
    series: str,
    answers: Sequence[Mapping[str, tuple[int, int]]],
    open_: Sequence[NoticeEntry],
) -> tuple[int, bool]:
    """Mark the audit rows that notices of a metric's days answer.

    :returns: how many were marked, and whether others wait for another metric.
    """
    versions = {number for one in answers for after, through in one.values() for number in range(after + 1, through + 1)}
    found = audit_log.untold(settings, known[series].daily.metric.source, versions)
    kinds = ["silver_version", "impacted_kpis"]
    marked, waits = [], False
    for kind in found.group_by(kinds).aggregate([]).select(kinds).to_pylist():
        version, numbers = kind["silver_version"], _by_series(kind["impacted_kpis"])
        if not any(_answers(one, version, numbers.get(series, ())) for one in answers):
            continue
        behind = any(known[name].followed < version for name in numbers.keys() & known.keys())
        if behind or any(_answers(one.answers, version, numbers.get(one.series, ())) for one in open_):
            waits = True
        else:
            marked.append(kind)
    schema = pa.schema([found.schema.field(name) for name in kinds])
    told = found.join(pa.Table.from_pylist(marked, schema=schema), kinds, join_type="left semi")
    return audit_log.notified(settings, told), waits


def _answers(answers: Mapping[str, tuple[int, int]], version: int, periods: Collection[str]) -> bool:
    return any(answers[name][0] < version <= answers[name][1] for name in periods if name in answers)


def _by_series(impacted: str | None) -> dict[str, list[str]]:
    """The periods that an audit row names, by series."""
    found: dict[str, list[str]] = {}
    for kpi in json.loads(impacted or "[]"):
        series, _, period = kpi.partition("@")
        found.setdefault(series, []).append(period)
    return found


def _since(settings: Settings) -> datetime:
    return settings.clock() - NEWS
