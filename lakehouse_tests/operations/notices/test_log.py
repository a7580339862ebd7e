"""``ops/notices`` and their marks in the audit, on real tables: once each, whoever writes and however often."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.ledger import redactions
from lakehouse.ledger.redactions import Redaction
from lakehouse.operations.notices import log as notice_log
from lakehouse.operations.notices.log import NoticeEntry, NoticeStatus
from lakehouse.silver import audit_erasure, audit_notifications
from lakehouse.silver import audit_log as log
from lakehouse_tests.support.audit_reader import audit_rows, follow_audit
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from lakehouse.settings import Settings

AT = datetime(2024, 3, 31, 23, 30, tzinfo=timezone.utc)


def entry(name: str = "m1", target: str = "log", **changes: Any) -> NoticeEntry:
    fields = {
        "message_id": name,
        "series": "total",
        "publication_id": "p1",
        "gold_version": 4,
        "consumer": "board",
        "target": target,
    }
    fields |= {"subject": "total restated", "text": "a\nb", "data": {"window": {"count": 1}}, "answers": {"2024-03-01": (3, 5)}}
    return NoticeEntry(**{**fields, "published_at": AT, "found_at": AT, **changes})


def states(settings: Any, **filters: Any) -> list[tuple[str, str, NoticeStatus]]:
    return [(one.message_id, one.target, one.status) for one in notice_log.of(settings, **filters)]


def test_what_is_added_is_read_as_it_was(settings) -> None:
    assert notice_log.of(settings) == []
    assert (notice_log.scanned_version(settings, "total"), notice_log.has_begun(settings)) == (None, False)
    later = entry("m2", published_at=AT + timedelta(hours=1), series="other", answers={})
    assert notice_log.add(settings, "total", [later, entry()], 5, None)
    assert notice_log.of(settings) == [entry(), later]
    assert (notice_log.scanned_version(settings, "total"), notice_log.scanned_version(settings, "other")) == (5, None)


def test_a_scan_that_another_one_overtook_writes_nothing(settings) -> None:
    assert notice_log.add(settings, "total", [], 0, None), "beginning is remembered, too"
    assert notice_log.scanned_version(settings, "total") == 0
    assert not notice_log.add(settings, "total", [entry()], 4, None), "somebody else has begun"
    assert notice_log.add(settings, "total", [entry()], 4, 0)
    assert not notice_log.add(settings, "total", [entry("again")], 5, 0), "somebody else has looked at 4"
    assert not notice_log.add(settings, "total", [entry("again")], 4, 4)
    assert states(settings) == [("m1", "log", NoticeStatus.WAITING)]


def test_a_delivery_is_of_one_target(settings) -> None:
    notice_log.add(settings, "total", [entry(), entry(target="hook"), entry("m2")], 5, None)
    now = AT + timedelta(minutes=1)
    notice_log.delivered(settings, entry(), now)
    version = DeltaTable(locations.notices(settings)).version()
    notice_log.delivered(settings, entry(), now)
    assert DeltaTable(locations.notices(settings)).version() == version
    assert states(settings, statuses=[NoticeStatus.WAITING]) == [
        ("m1", "hook", NoticeStatus.WAITING),
        ("m2", "log", NoticeStatus.WAITING),
    ]
    (told,) = notice_log.of(settings, statuses=[NoticeStatus.DELIVERED])
    assert told == entry(status=NoticeStatus.DELIVERED, delivered_at=now)
    notice_log.audited(settings, [told])
    assert notice_log.of(settings, statuses=[NoticeStatus.AUDITED]) == [entry(status=NoticeStatus.AUDITED, delivered_at=now)]
    notice_log.audited(settings, [])


def test_notices_are_found_by_series_and_time_across_months(settings) -> None:
    april = entry("m2", published_at=AT + timedelta(hours=1))
    notice_log.add(settings, "total", [april, entry(), entry("m0", published_at=AT - timedelta(days=40))], 5, None)
    assert [one for one, *_ in states(settings)] == ["m0", "m1", "m2"]
    assert [one for one, *_ in states(settings, since=AT)] == ["m1", "m2"]
    elsewhere = AT.astimezone(timezone(timedelta(hours=5)))
    assert [one for one, *_ in states(settings, since=elsewhere)] == ["m1", "m2"], "there it is April already"
    assert states(settings, series=["other"]) == []
    assert len(states(settings, series=["total"])) == 3


def tell(settings: Settings, unnotified: pa.Table) -> int:
    """Record that consumers were notified of rows."""
    notices = pa.repeat(pa.scalar('["m1"]'), len(unnotified))
    return audit_notifications.record(settings, "events", unnotified.append_column("notices", notices))


def redact(settings: Settings) -> int:
    """Redact the amount of ``a``.

    :returns: how many audit rows were rewritten.
    """
    redactions.record(settings, "events", Redaction("a", ["amount"], "dana", "asked for it", AT))
    return audit_erasure.erase(settings, "events")


@pytest.mark.parametrize("redacted", ["before", "between"])
def test_the_audit_records_the_notification_and_keeps_the_rest(settings, redacted: str) -> None:
    for key in ("a", "b"):
        append_to_silver(settings, (key, 1, 4711))
    follow_audit(settings)
    if redacted == "before":
        assert redact(settings) == 1
    unnotified = log.untold(settings, "events", [0, 7])
    assert unnotified["silver_version"].to_pylist() == [0]
    if redacted == "between":
        assert redact(settings) == 1
    audit = DeltaTable(locations.audit_log(settings)).version()
    assert tell(settings, unnotified) == 1
    version = DeltaTable(locations.audit_notifications(settings)).version()
    assert tell(settings, unnotified) == 0
    assert DeltaTable(locations.audit_notifications(settings)).version() == version, "once is enough"
    assert DeltaTable(locations.audit_log(settings)).version() == audit
    told = {row["event_id"]: (row["notification_sent"], row["new_value"]["amount"]) for row in audit_rows(settings)}
    assert told == {"a": (True, "[redacted]"), "b": (False, 4711)}
    assert len(log.untold(settings, "events", [0])) == 0
    assert len(log.untold(settings, "events", [])) == 0


def test_nothing_to_report_writes_nothing(settings) -> None:
    assert len(log.untold(settings, "events", [1])) == 0
    append_to_silver(settings, ("a", 1, 1))
    follow_audit(settings)
    assert tell(settings, log.untold(settings, "events", [9])) == 0
    assert not DeltaTable.is_deltatable(locations.audit_notifications(settings))
