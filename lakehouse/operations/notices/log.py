"""``ops/notices``: the notices of restatements, per consumer and target, with the time of their delivery.

A row is one notice for one consumer by one target, with its text as first written: a notice that is sent again has the same text
and the same ``message_id``. Notices and the version up to which publications were scanned are written in one commit; each
delivery is recorded in another. If the process dies after sending but before recording, the notice is sent again
(at-least-once delivery).

A notice is ``waiting`` until it is ``delivered``, and ``audited`` when the audit of silver records it too. What lies within the
bounds of a consumer is recorded, ``within_bounds``, and not sent. ``pending`` decides which publications make a notice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import row_writer, table_io
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from lakehouse.settings import Settings

_TIME = pa.timestamp("us", "UTC")
#: What identifies a row. The table is partitioned by the first, so that old notices are not read to send new ones.
_KEYS = ("month", "message_id", "target")
#: Nobody is notified of what is older than this.
NOTIFY_WITHIN = timedelta(days=7)
#: The target of what is recorded and not sent.
NO_TARGET = "none"


class NoticeStatus(str, Enum):
    """How far a notice has come."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    AUDITED = "audited"
    WITHIN_BOUNDS = "within_bounds"


@dataclass(frozen=True)
class NoticeEntry:
    """One notice for one consumer by one target.

    :param data: see ``operations.notices.notice.Notice.data``.
    :param answers: per restated period the versions of silver whose changes the number contains and the number before it did not:
        after the first, through the second.
    :param unheard: of what lies within the consumer's bounds: the published versions, each with the version of its period that
        the consumer last heard of.
    """

    message_id: str
    series: str
    publication_id: str
    gold_version: int
    consumer: str
    target: str
    subject: str
    text: str
    data: Mapping[str, Any]
    answers: Mapping[str, tuple[int, int]]
    published_at: datetime
    found_at: datetime
    status: NoticeStatus = NoticeStatus.WAITING
    delivered_at: datetime | None = None
    unheard: Mapping[str, str] = field(default_factory=dict)

    @property
    def month(self) -> str:
        """The month of the publication."""
        return f"{self.published_at:%Y-%m}"


def log(settings: Settings) -> LogTable[NoticeEntry]:
    """The table. The JSON of a notice keeps its order, so that a repeated message is the same text."""
    return LogTable(NoticeEntry, settings, locations.notices(settings), partition_by="month", sort_keys=False)


def has_begun(settings: Settings) -> bool:
    """Whether publications have ever been scanned for notices."""
    return table_io.open_table(locations.notices(settings), settings.storage_options) is not None


def scanned_version(settings: Settings, series: str) -> int | None:
    """The version of a series' table up to which publications were scanned for notices; None if none were."""
    table = table_io.open_table(locations.notices(settings), settings.storage_options)
    version: int | None = None if table is None else table.transaction_version(_app_id(series))
    return version


def add(settings: Settings, series: str, entries: Iterable[NoticeEntry], gold_version: int, since: int | None) -> bool:
    """Append the notices of a series' publications up to a version, in one commit with that version.

    :param since: the :func:`scanned_version` before; if another process has scanned further by now, nothing is written.
    :returns: whether it was written.
    """
    return log(settings).append(entries, app_id=_app_id(series), app_version=gold_version, since=-1 if since is None else since)


def of(
    settings: Settings,
    series: Collection[str] | None = None,
    since: datetime | None = None,
    statuses: Collection[NoticeStatus] = tuple(NoticeStatus),
) -> list[NoticeEntry]:
    """Notices in the order of the publications, oldest first.

    :param since: only notices of publications at this time or later; older months are not read.
    """
    table = table_io.open_table(locations.notices(settings), settings.storage_options)
    if table is None:
        return []
    oldest = "" if since is None else f"{since.astimezone(timezone.utc):%Y-%m}"
    where = {"month": {values["month"] for values in table.partitions() if values["month"] >= oldest}}
    rows = log(settings).select(None, where)
    rows = rows.filter(pc.is_in(rows["status"], pa.array([status.value for status in statuses])))
    if series is not None:
        rows = rows.filter(pc.is_in(rows["series"], pa.array([*series], pa.string())))
    if since is not None:
        rows = rows.filter(pc.greater_equal(rows["published_at"], pa.scalar(since, _TIME)))
    entries = map(_with_ranges, log(settings).entries(rows))
    return sorted(entries, key=lambda entry: (entry.published_at, entry.series, entry.gold_version, entry.consumer, entry.target))


def within_bounds(settings: Settings, series: str, months: Collection[str]) -> list[NoticeEntry]:
    """What consumers of a series were not told in some months (``2024-11``) because it lay within their bounds."""
    where = {"month": months, "series": [series], "status": [NoticeStatus.WITHIN_BOUNDS.value]}
    return [*map(_with_ranges, log(settings).entries(log(settings).select(None, where)))]


def delivered(settings: Settings, entry: NoticeEntry, now: datetime) -> None:
    """Record that a target received a notice; repeating it only changes the time of delivery."""
    _update(settings, [entry], NoticeStatus.DELIVERED, {"delivered_at": pa.array([now], _TIME)})


def audited(settings: Settings, entries: Collection[NoticeEntry]) -> None:
    """Record in one commit that some notices are marked in the audit of silver."""
    if entries:
        _update(settings, entries, NoticeStatus.AUDITED, {})


def _update(settings: Settings, entries: Collection[NoticeEntry], status: NoticeStatus, more: Mapping[str, pa.Array]) -> None:
    columns = {name: pa.array([getattr(entry, name) for entry in entries], pa.string()) for name in _KEYS}
    rows = pa.table({**columns, "status": pa.array([status.value] * len(entries), pa.string()), **more})
    row_writer.upsert(locations.notices(settings), rows, _KEYS, options=settings.storage_options, partition_by=_KEYS[0])


def _with_ranges(entry: NoticeEntry) -> NoticeEntry:
    """JSON has no tuples: each range was read as a list."""
    return replace(entry, answers={period: (after, through) for period, (after, through) in entry.answers.items()})


def _app_id(series: str) -> str:
    return f"notices:{series}"
