"""Consumers are notified of rows that a steward rejected while they waited. No Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.operations.delivery import Directory, Webhook
from lakehouse.operations.notices import log as ledger
from lakehouse.operations.notices.dispatch import NoticeDispatch, dispatch_notices
from lakehouse.operations.notices.log import NoticeStatus
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.notified_lake import RecordingChannel, metric
from lakehouse_tests.support.quarantine_lake import FIRST_FILE, LATE, ON_TIME, WEEK_WATERMARK, decide
from lakehouse_tests.support.webhook_server import webhook_server

if TYPE_CHECKING:
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake

COUNT = {"name": "events", "sql": "count(*)", "type": "long", "additive": True}
TOTAL = {"name": "total", "sql": "coalesce(sum(amount), 0)", "type": "long", "additive": True}
LARGEST = {"name": "largest", "sql": "max(amount)", "type": "long"}
#: Four rows that come 18 and 19 days late: two inserts of one day, one of the next, and a correction.
LATE_FILE = [
    "b,2,2024-02-01T06:00:00Z,2024-02-20T12:00:00Z,insert,,0",
    "c,30,2024-02-01T07:00:00Z,2024-02-20T12:00:00Z,insert,,0",
    "d,4,2024-02-02T06:00:00Z,2024-02-20T12:00:00Z,insert,,0",
    "e,5,2024-02-02T06:00:00Z,2024-02-20T12:00:00Z,correct,a,0",
]


@pytest.fixture(name="sample")
def _lake(lake) -> SampleLake:
    """A lake in which four rows wait, before the first silver."""
    sample = SampleLake(lake, contract(**WEEK_WATERMARK), None)
    for arrival, lines in ((ON_TIME, FIRST_FILE), (LATE, LATE_FILE)):
        sample.deliver(arrival, csv_file(lines))
        sample.ingest(arrival)
    return sample


def reader(*consumers: str, **changes: Any) -> MetricContract:
    return metric("total", *(consumers or ("board",)), **{"measures": [TOTAL, COUNT, LARGEST], **changes})


def dispatch(lake: Lake, *targets: Any, metrics: tuple[MetricContract, ...] = ()) -> NoticeDispatch:
    catalog = Catalog({"events": contract(**WEEK_WATERMARK)}, {made.name: made for made in metrics or (reader(),)})
    return dispatch_notices(lake, catalog, Directory.of(targets))


def test_a_rejection_is_told_with_its_rows_days_measures_author_and_reason(lake, sample: SampleLake) -> None:
    decide(sample, "reject", "b", "c", "d", by="anna", reason="test data of <the till>")
    channel = RecordingChannel()
    assert dispatch(lake, channel).delivered == 1
    (message,) = channel.messages
    assert message.subject == "total without 3 rows for 2 days, 2024-02-01 to 2024-02-02: rejected by a steward"
    assert message.addressed_to == ["board"]
    assert message.text.splitlines() == [
        "3 rows of events that waited for a steward will not be in total, for 2 days, 2024-02-01 to 2024-02-02.",
        f"Rejected {lake.now():%Y-%m-%d %H:%M} UTC by anna: test data of <the till>",
        "",
        "  2024-02-01: 2 rows; over these alone total 32, events 2",
        "  2024-02-02: 1 row; over these alone total 4, events 1",
        "",
        "lakehouse quarantine list events --status rejected",
    ]
    assert (message.data["kind"], message.data["consumer"], message.data["rows"]) == ("rejection", "board", 3)
    assert (message.data["by"], message.data["reason"]) == ("anna", "test data of <the till>")
    assert message.data["days"] == [
        {"day": "2024-02-01", "rows": 2, "measures": [{"measure": "total", "value": 32}, {"measure": "events", "value": 2}]},
        {"day": "2024-02-02", "rows": 1, "measures": [{"measure": "total", "value": 4}, {"measure": "events", "value": 1}]},
    ]
    (entry,) = ledger.of(lake)
    assert (entry.series, entry.publication_id, entry.status) == ("total", message.data["decision_id"], NoticeStatus.AUDITED)


@pytest.mark.merge
def test_each_consumer_is_told_once_and_a_tick_without_news_writes_nothing(lake, sample: SampleLake) -> None:
    channel, both = RecordingChannel(), (reader("board", "shop"), metric("other", "press"), metric("unread"))
    decide(sample, "reject", "b")
    assert dispatch(lake, channel, metrics=both).delivered == 3
    assert sorted(message.addressed_to[0] for message in channel.messages) == ["board", "press", "shop"]
    version = DeltaTable(locations.notices(lake).address).version()
    assert dispatch(lake, channel, metrics=both).delivered == 0
    assert DeltaTable(locations.notices(lake).address).version() == version
    decide(sample, "reject", "c")
    assert dispatch(lake, channel, metrics=both).delivered == 3


def test_each_consumer_is_reached_at_its_address(lake: Lake, sample: SampleLake) -> None:
    board, others = RecordingChannel("board"), RecordingChannel("others")
    reached = Directory({"board": board, "others": others}, ["others"], consumers={"board": ["board"]})
    contracted = reader("board", "shop")
    catalog = Catalog({"events": contract(**WEEK_WATERMARK)}, {contracted.name: contracted})
    decide(sample, "reject", "b")
    assert dispatch_notices(lake, catalog, reached).delivered == 2
    assert [message.addressed_to for message in board.messages] == [["board"]]
    assert [message.addressed_to for message in others.messages] == [["shop"]]


def test_the_owner_of_the_source_hears_first_with_files_and_lines(lake: Lake, sample: SampleLake) -> None:
    till, board = RecordingChannel("till"), RecordingChannel("board")
    reached = Directory({"till": till, "board": board}, [], owners={"tills": ["till"]}, consumers={"board": ["board"]})
    owned = contract(owner="tills", **WEEK_WATERMARK)
    contracted = reader("board")
    decide(sample, "reject", "b", "d", by="anna", reason="test data")
    assert dispatch_notices(lake, Catalog({"events": owned}, {contracted.name: contracted}), reached).delivered == 2
    (message,) = till.messages
    assert (message.subject, message.addressed_to) == ("2 rows of events rejected by a steward", ["tills"])
    assert message.text.splitlines() == [
        "2 rows of events that waited for a steward will be in no number.",
        f"Rejected {lake.now():%Y-%m-%d %H:%M} UTC by anna: test data",
        "",
        f"  arrival_date={LATE}.csv:2,4",
        "",
        "If they are right after all, send them again mended, or ask the steward to accept them.",
        "lakehouse quarantine list events --status rejected",
    ]
    assert message.data["files"] == [{"file": f"arrival_date={LATE}.csv", "lines": [2, 4]}]
    assert [message.addressed_to for message in board.messages] == [["board"]]
    assert [entry.series for entry in ledger.of(lake)] == ["silver/events", "total"], "the owner first"
    assert dispatch_notices(lake, Catalog({"events": owned}, {}), reached).delivered == 0, "once"


def test_an_owner_is_told_also_where_nobody_reads_a_metric(lake: Lake, sample: SampleLake) -> None:
    till = RecordingChannel("till")
    decide(sample, "reject", "c")
    reached = Directory({"till": till}, [], owners={"tills": ["till"]})
    assert dispatch_notices(lake, Catalog({"events": contract(owner="tills", **WEEK_WATERMARK)}, {}), reached).delivered == 1


def test_the_sum_over_rows_that_may_replace_others_is_not_stated(lake, sample: SampleLake) -> None:
    channel = RecordingChannel()
    decide(sample, "reject", "d", "e")
    dispatch(lake, channel)
    assert channel.messages[0].data["days"] == [{"day": "2024-02-02", "rows": 2, "measures": []}]
    assert "  2024-02-02: 2 rows\n" in channel.messages[0].text


@pytest.mark.merge
def test_only_the_rejection_of_a_waiting_row_is_told(lake, sample: SampleLake) -> None:
    channel = RecordingChannel()
    decide(sample, "accept", "b")
    decide(sample, "duplicate", "c")
    decide(sample, "reject", "c", reason="another reason")
    decide(sample, "reject", "b", reason="it was in silver: the restatement tells of it")
    assert dispatch(lake, channel).delivered == 0


def test_an_old_rejection_is_not_told(lake, sample: SampleLake) -> None:
    decide(sample, "reject", "b")
    lake.settings.now = lake.now() + ledger.NOTIFY_WITHIN + timedelta(seconds=1)
    assert dispatch(lake, RecordingChannel()).delivered == 0


@pytest.mark.merge
def test_a_target_that_refuses_gets_the_same_message_again(lake, sample: SampleLake) -> None:
    decide(sample, "reject", "b")
    with webhook_server() as receiver:
        receiver.answers = [400] * 3
        told = dispatch(lake, Webhook(receiver.url))
        assert (told.delivered, told.waiting) == (0, 1)
        assert dispatch(lake, Webhook(receiver.url)).delivered == 1
    first, *others = (headers["Idempotency-Key"] for _, headers, _ in receiver.requests)
    assert others == [first] * 3
    assert receiver.taken[0]["data"]["rows"] == 1


@pytest.mark.usefixtures("sample")
def test_rows_that_wait_are_no_news(lake) -> None:
    assert dispatch(lake, RecordingChannel()).delivered == 0
