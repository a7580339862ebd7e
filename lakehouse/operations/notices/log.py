"""``ops/notices``: the notices of restatements, per consumer and target, with the time of their delivery.

A row is a notice for a consumer at a target, with its original text: a repeated notice has the same text and the same
``message_id``. Notices and the version up to which publications were scanned are written in one commit; each delivery is recorded
in another. If the process dies after sending but before recording, the notice is repeated (at-least-once delivery).

A notice is ``waiting`` until it is ``delivered``, and ``audited`` when the audit of silver records it too. Changes within the
bounds of a consumer are recorded as ``within_bounds`` and not sent. ``pending`` selects the publications that make a notice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import row_writer
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from lakehouse.lake import Lake

_TIME = pa.timestamp("us", "UTC")
#: The identity of a row. The table is partitioned by the first column, so that old notices are not read to send new ones.
_KEYS = ("month", "message_id", "target")
#: No notice is sent about older publications.
NOTIFY_WITHIN = timedelta(days=7)
#: The target of notices that are recorded but not sent.
NO_TARGET = "none"


class NoticeStatus(str, Enum):
    """The status of a notice."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    AUDITED = "audited"
    WITHIN_BOUNDS = "within_bounds"


@dataclass(frozen=True)
class NoticeEntry:
    """A notice for a consumer at a target.

    :param data: see ``operations.notices.notice.Notice.data``.
    :param answers: per restated period, the silver versions whose changes the number contains and the previous number did not:
        after the first, through the second.
    :param unheard: for changes within the consumer's bounds, the published versions, each with the version of its period of which
        the consumer was last notified.
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


def log(lake: Lake) -> LogTable[NoticeEntry]:
    """The table of notices. The JSON of a notice keeps its order, so that a repeated message has the same text."""
    return LogTable(NoticeEntry, lake, locations.notices(lake), partition_by="month", sort_keys=False)


def has_begun(lake: Lake) -> bool:
    """Whether publications have ever been scanned for notices."""
    return locations.notices(lake).open() is not None


def scanned_version(lake: Lake, series: str) -> int | None:
    """The version of a series' table up to which publications were scanned for notices; None if none were."""
    return locations.notices(lake).transaction(_app_id(series))


def add(lake: Lake, series: str, entries: Iterable[NoticeEntry], gold_version: int, since: int | None) -> bool:
    """Append the notices of a series' publications up to a version, in one commit with that version.

    :param since: the :func:`scanned_version` before; if another process has scanned further in the meantime, nothing is written.
    :returns: whether the notices were written.
    """
    return log(lake).append(entries, app_id=_app_id(series), app_version=gold_version, since=-1 if since is None else since)


def of(
    lake: Lake,
    series: Collection[str] | None = None,
    since: datetime | None = None,
    statuses: Collection[NoticeStatus] = tuple(NoticeStatus),
) -> list[NoticeEntry]:
    """The notices in the order of publications, oldest first.

    :param since: include only publications at this time or later; older months are not read.
    """
    table = locations.notices(lake).open()
    if table is None:
        return []
    oldest = "" if since is None else f"{since.astimezone(timezone.utc):%Y-%m}"
    where = {"month": {values["month"] for values in table.partitions() if values["month"] >= oldest}}
    rows = log(lake).select(None, where)
    rows = rows.filter(pc.is_in(rows["status"], pa.array([status.value for status in statuses])))
    if series is not None:
        rows = rows.filter(pc.is_in(rows["series"], pa.array([*series], pa.string())))
    if since is not None:
        rows = rows.filter(pc.greater_equal(rows["published_at"], pa.scalar(since, _TIME)))
    entries = map(_with_ranges, log(lake).entries(rows))
    return sorted(entries, key=lambda entry: (entry.published_at, entry.series, entry.gold_version, entry.consumer, entry.target))


def within_bounds(lake: Lake, series: str, months: Collection[str]) -> list[NoticeEntry]:
    """The notices of ``series`` in ``months`` (``2024-11``) that were not sent, because they lay within the consumers' bounds."""
    where = {"month": months, "series": [series], "status": [NoticeStatus.WITHIN_BOUNDS.value]}
    return [*map(_with_ranges, log(lake).entries(log(lake).select(None, where)))]


def delivered(lake: Lake, entry: NoticeEntry, now: datetime) -> None:
    """Record that a target received a notice. Repeating it only changes the time of delivery."""
    _update(lake, [entry], NoticeStatus.DELIVERED, {"delivered_at": pa.array([now], _TIME)})


def audited(lake: Lake, entries: Collection[NoticeEntry]) -> None:
    """Record in one commit that ``entries`` are marked in the audit of silver."""
    if entries:
        _update(lake, entries, NoticeStatus.AUDITED, {})


def _update(lake: Lake, entries: Collection[NoticeEntry], status: NoticeStatus, more: Mapping[str, pa.Array]) -> None:
    columns = {name: pa.array([getattr(entry, name) for entry in entries], pa.string()) for name in _KEYS}
    rows = pa.table({**columns, "status": pa.array([status.value] * len(entries), pa.string()), **more})
    row_writer.upsert(locations.notices(lake), rows, _KEYS, partition_by=_KEYS[0])


def _with_ranges(entry: NoticeEntry) -> NoticeEntry:
    """Restore the ranges as tuples, because JSON has only lists."""
    return replace(entry, answers={period: (after, through) for period, (after, through) in entry.answers.items()})


def _app_id(series: str) -> str:
    return f"notices:{series}"
