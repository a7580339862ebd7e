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
from lakehouse.silver import audit as audit_erasure
from lakehouse.silver import audit_log as log
from lakehouse_tests.support.audit_reader import audit_rows, follow_audit
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from lakehouse.lake import Lake

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


def states(lake: Any, **filters: Any) -> list[tuple[str, str, NoticeStatus]]:
    return [(one.message_id, one.target, one.status) for one in notice_log.of(lake, **filters)]


def test_what_is_added_is_read_as_it_was(lake) -> None:
    assert notice_log.of(lake) == []
    assert (notice_log.scanned_version(lake, "total"), notice_log.has_begun(lake)) == (None, False)
    later = entry("m2", published_at=AT + timedelta(hours=1), series="other", answers={})
    assert notice_log.add(lake, "total", [later, entry()], 5, None)
    assert notice_log.of(lake) == [entry(), later]
    assert (notice_log.scanned_version(lake, "total"), notice_log.scanned_version(lake, "other")) == (5, None)


def test_a_scan_that_another_one_overtook_writes_nothing(lake) -> None:
    assert notice_log.add(lake, "total", [], 0, None), "beginning is remembered, too"
    assert notice_log.scanned_version(lake, "total") == 0
    assert not notice_log.add(lake, "total", [entry()], 4, None), "somebody else has begun"
    assert notice_log.add(lake, "total", [entry()], 4, 0)
    assert not notice_log.add(lake, "total", [entry("again")], 5, 0), "somebody else has looked at 4"
    assert not notice_log.add(lake, "total", [entry("again")], 4, 4)
    assert states(lake) == [("m1", "log", NoticeStatus.WAITING)]


def test_a_delivery_is_of_one_target(lake) -> None:
    notice_log.add(lake, "total", [entry(), entry(target="hook"), entry("m2")], 5, None)
    now = AT + timedelta(minutes=1)
    notice_log.delivered(lake, entry(), now)
    version = DeltaTable(locations.notices(lake).address).version()
    notice_log.delivered(lake, entry(), now)
    assert DeltaTable(locations.notices(lake).address).version() == version
    assert states(lake, statuses=[NoticeStatus.WAITING]) == [
        ("m1", "hook", NoticeStatus.WAITING),
        ("m2", "log", NoticeStatus.WAITING),
    ]
    (told,) = notice_log.of(lake, statuses=[NoticeStatus.DELIVERED])
    assert told == entry(status=NoticeStatus.DELIVERED, delivered_at=now)
    notice_log.audited(lake, [told])
    assert notice_log.of(lake, statuses=[NoticeStatus.AUDITED]) == [entry(status=NoticeStatus.AUDITED, delivered_at=now)]
    notice_log.audited(lake, [])


def test_notices_are_found_by_series_and_time_across_months(lake) -> None:
    april = entry("m2", published_at=AT + timedelta(hours=1))
    notice_log.add(lake, "total", [april, entry(), entry("m0", published_at=AT - timedelta(days=40))], 5, None)
    assert [one for one, *_ in states(lake)] == ["m0", "m1", "m2"]
    assert [one for one, *_ in states(lake, since=AT)] == ["m1", "m2"]
    elsewhere = AT.astimezone(timezone(timedelta(hours=5)))
    assert [one for one, *_ in states(lake, since=elsewhere)] == ["m1", "m2"], "there it is April already"
    assert states(lake, series=["other"]) == []
    assert len(states(lake, series=["total"])) == 3


def tell(lake: Lake, unnotified: pa.Table) -> int:
    """Record that consumers were notified of rows."""
    notices = pa.repeat(pa.scalar('["m1"]'), len(unnotified))
    return log.record_notified(lake, "events", unnotified.append_column("notices", notices))


def redact(lake: Lake) -> int:
    """Redact the amount of ``a``.

    :returns: how many audit rows were rewritten.
    """
    redactions.record(lake, "events", Redaction("a", ["amount"], "dana", "asked for it", AT))
    return audit_erasure.erase(lake, "events")


@pytest.mark.parametrize("redacted", ["before", "between"])
def test_the_audit_records_the_notification_and_keeps_the_rest(lake, redacted: str) -> None:
    for key in ("a", "b"):
        append_to_silver(lake, (key, 1, 4711))
    follow_audit(lake)
    if redacted == "before":
        assert redact(lake) == 1
    unnotified = log.untold(lake, "events", [0, 7])
    assert unnotified["silver_version"].to_pylist() == [0]
    if redacted == "between":
        assert redact(lake) == 1
    audit = DeltaTable(locations.audit_log(lake).address).version()
    assert tell(lake, unnotified) == 1
    version = DeltaTable(locations.audit_notifications(lake).address).version()
    assert tell(lake, unnotified) == 0
    assert DeltaTable(locations.audit_notifications(lake).address).version() == version, "once is enough"
    assert DeltaTable(locations.audit_log(lake).address).version() == audit
    told = {row["event_id"]: (row["notification_sent"], row["new_value"]["amount"]) for row in audit_rows(lake)}
    assert told == {"a": (True, "[redacted]"), "b": (False, 4711)}
    assert len(log.untold(lake, "events", [0])) == 0
    assert len(log.untold(lake, "events", [])) == 0


def test_nothing_to_report_writes_nothing(lake) -> None:
    assert len(log.untold(lake, "events", [1])) == 0
    append_to_silver(lake, ("a", 1, 1))
    follow_audit(lake)
    assert tell(lake, log.untold(lake, "events", [9])) == 0
    assert not DeltaTable.is_deltatable(locations.audit_notifications(lake).address)
