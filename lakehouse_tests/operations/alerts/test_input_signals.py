"""What is known of a source's inputs, read from real tables that the product's own code has written."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.delta import row_writer
from lakehouse.lateness import missing_inputs
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse_tests.support.arrivals import at
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.alert import Alert

TODAY = date(2024, 2, 20)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WATERMARK: dict[str, Any] = {"event": "event_time", "watermark": {"strategy": "bounded", "max_lateness": "PT1H"}}


def of_source(lake: Lake, source: SourceContract) -> dict[AlertKind, Alert]:
    return {alert.kind: alert for alert in signals.of_source(lake, source)}


def deliver(lake: Lake, name: str, arrived: datetime, happened: datetime | None = None, **changes: Any) -> None:
    """Record a delivery whose newest row arrived at a time, by default an hour after its event."""
    known: dict[str, Any] = {"source": "events", "ingestion_id": name, "content_hash": name, "source_file": name, "bytes": 1}
    known |= {"modified": None, "status": "ingested", "run_id": "run", "arrival_date": arrived.date(), "recorded_at": arrived}
    known |= {"newest_arrival": arrived, "newest_event": happened or arrived - HOUR}
    ingestions.record(lake, Ingestion(**known | changes))


def deliver_daily(lake: Lake, days: int) -> None:
    """One delivery at noon of each day, the last one on :data:`TODAY`."""
    for number in range(days):
        deliver(lake, f"{number}", at(TODAY - (days - 1 - number) * DAY, 12))


def test_a_held_file_alerts_until_it_is_sound(lake: Lake) -> None:
    source = contract(owner="anna")
    held = {"status": "held", "message": "the gzip stream breaks off", "newest_arrival": None, "source_file": "a.csv"}
    deliver(lake, "torn", at(TODAY), **held)
    alert = of_source(lake, source)[AlertKind.HELD_FILE]
    assert (alert.period, alert.detail, alert.addressed_to) == ("2024-02-20", "a.csv", ["anna"])
    assert "the gzip stream breaks off" in alert.text
    deliver(lake, "whole", at(TODAY, 1), source_file="a.csv")
    assert of_source(lake, source) == {}


def test_rows_that_could_not_be_read_alert_the_owner_until_they_are_replaced(lake: Lake) -> None:
    source = contract(owner="anna")
    deliver(lake, "a.csv", at(TODAY), rows=5, malformed=4)
    assert of_source(lake, source) == {}, "nobody is alerted about what an earlier release has ingested"
    entry = ingestions.UnreadRows(
        *("events", "a.csv", TODAY), malformed=4, line_number=3, reason="amount: 'x' is not an integer", recorded_at=at(TODAY)
    )
    ingestions.record_unread(lake, [entry])
    alert = of_source(lake, source)[AlertKind.MALFORMED_ROWS]
    assert (alert.period, alert.addressed_to, alert.numbers["rows"]) == ("2024-02-20", ["anna"], 4)
    assert "4 rows of events that arrived on 2024-02-20 could not be read: amount: 'x' is not an integer (a.csv:3)." in alert.text
    assert of_source(lake, contract(quality={"malformed": {"tolerated": 1}})) == {}
    deliver(lake, "corrected", at(TODAY, 1), source_file="a.csv", rows=5)
    assert of_source(lake, source) == {}


def test_what_the_sensors_know_to_be_missing_alerts(lake: Lake) -> None:
    source = contract()
    lake.settings.now = at(TODAY, 12)
    missing_inputs.record(lake, "events", "failed_ingestion", {TODAY: "3 runs failed to ingest files of 2024-02-20"})
    missing_inputs.record(lake, "events", "unfinished_day", {TODAY: "a.csv waits for its marker"})
    assert of_source(lake, source).keys() == {AlertKind.FAILED_INGESTION}
    lake.settings.now = at(TODAY + DAY, 6)
    assert of_source(lake, source).keys() == {AlertKind.FAILED_INGESTION}
    assert of_source(lake, contract(alerts={"unfinished_after": "PT5H"})).keys() >= {AlertKind.UNFINISHED_DAY}
    lake.settings.now = at(TODAY + DAY, 6, 1)
    alert = of_source(lake, source)[AlertKind.UNFINISHED_DAY]
    assert (alert.period, alert.since) == ("2024-02-20", at(TODAY + DAY))
    assert "a.csv waits for its marker" in alert.text
    for kind in ("failed_ingestion", "unfinished_day"):
        missing_inputs.record(lake, "events", kind, {})  # type: ignore[arg-type]
    assert of_source(lake, source) == {}


@pytest.mark.merge
def test_silence_alerts_where_a_watermark_waits_for_arrivals_or_the_contract_asks_for_it(lake: Lake) -> None:
    deliver_daily(lake, 10)
    lake.settings.now = at(TODAY + 3 * DAY)
    assert of_source(lake, contract()) == {}
    assert AlertKind.SILENT_SOURCE in of_source(lake, contract(clocks=WATERMARK))
    assert of_source(lake, contract(clocks=WATERMARK, alerts={"silent_source": None})) == {}
    asked_for = contract(alerts={"silent_source": {"factor": 2}})
    assert of_source(lake, asked_for)[AlertKind.SILENT_SOURCE].since == at(TODAY, 12)
    assert of_source(lake, contract(alerts={"silent_source": {"factor": 3}})) == {}
    deliver(lake, "again", at(TODAY - 5 * DAY), status="redelivered", recorded_at=at(TODAY + 3 * DAY))
    assert AlertKind.SILENT_SOURCE in of_source(lake, asked_for), "a copy of an old file is no news"
    deliver(lake, "torn", at(TODAY + 2 * DAY, 13), status="held", newest_arrival=None)
    assert of_source(lake, asked_for).keys() == {AlertKind.HELD_FILE}, "a file that is held has arrived"


def test_an_overdue_review_is_one_alert_per_source(lake: Lake) -> None:
    def wait(*deadlines: datetime) -> None:
        columns = {"quarantine_status": ["open"] * len(deadlines), "quarantine_since": [deadline - DAY for deadline in deadlines]}
        columns |= {"arrival_date": [TODAY - DAY] * len(deadlines), "quarantine_reason": ["beyond_watermark"] * len(deadlines)}
        row_writer.append(locations.quarantine(lake, "events"), pa.table({**columns, "quarantine_review_by": [*deadlines]}))

    lake.settings.now = at(TODAY, 12)
    wait(at(TODAY, 13))
    assert of_source(lake, contract()).keys() == {AlertKind.WAITING_ROWS}
    wait(at(TODAY, 11), at(TODAY, 9))
    alert = of_source(lake, contract())[AlertKind.OVERDUE_REVIEW]
    assert (alert.since, alert.numbers) == (at(TODAY, 9), {"overdue": 2})
    assert alert.text.startswith("events: 2 rows are past their review deadline, the oldest of them by 3 h: decide with")


def test_rows_are_told_of_when_they_begin_to_wait(lake: Lake) -> None:
    lake.settings.now = at(TODAY, 12)
    late, failed = "beyond_watermark", "rule_failed"
    columns: dict[str, Any] = {
        "arrival_date": [TODAY, TODAY - DAY, TODAY, TODAY - 2 * DAY],
        "quarantine_reason": [late, late, failed, late],
        "quarantine_detail": ["9 d after the event; the cutoff is 7 d", "8 d ...", "fails positive; 8 d after the event", "8 d"],
        "quarantine_status": ["open", "open", "open", "released"],
        "quarantine_since": [at(TODAY, 9), at(TODAY, 8), at(TODAY, 10), at(TODAY - DAY, 1)],
        "quarantine_review_by": [at(TODAY + 14 * DAY, 9), at(TODAY + 14 * DAY, 8), at(TODAY + 14 * DAY, 10), at(TODAY, 1)],
    }
    row_writer.append(locations.quarantine(lake, "events"), pa.table(columns))
    [alert] = signals.of_source(lake, contract(owner="anna", stewards=["sue", "tom"]))
    assert (alert.kind, alert.period, alert.since) == (AlertKind.WAITING_ROWS, None, at(TODAY, 8))
    assert alert.addressed_to == ["sue", "tom", "anna"]
    assert alert.text == (
        "events: 3 rows wait for a steward (beyond the cutoff: 2, fails positive: 1), the oldest since 2024-02-20 08:00 UTC. "
        "They arrived on 2024-02-19, 2024-02-20, and count in no number until a decision. "
        "'lakehouse quarantine list events' shows them; decide by 2024-03-05 08:00 UTC."
    )
    assert alert.title == (
        "3 rows wait for a steward: events (beyond the cutoff: 2, fails positive: 1; arrived on 2024-02-19, 2024-02-20)"
    )
    [alert] = signals.of_source(lake, contract(owner="anna"))
    assert alert.addressed_to == ["anna"]


@pytest.mark.merge
def test_a_watermark_that_stands_still_although_deliveries_arrive(lake: Lake) -> None:
    source = contract(clocks=WATERMARK)
    deliver_daily(lake, 10)
    lake.settings.now = at(TODAY + 3 * DAY, 12)
    for number in (1, 2, 3):
        deliver(lake, f"old{number}", at(TODAY + number * DAY, 12), happened=at(TODAY - 5 * DAY))
    alert = of_source(lake, source)[AlertKind.WATERMARK_STALLED]
    assert alert.since == at(TODAY, 12)
    assert "stands at 2024-02-20 10:00 UTC and has not moved since 2024-02-20 12:00 UTC" in alert.text
    assert of_source(lake, contract(clocks=WATERMARK, alerts={"watermark_stalled": None})) == {}
    by_clock = {"event": "event_time", "watermark": {"strategy": "processing_time", "delay": "PT1H"}}
    assert of_source(lake, contract(clocks=by_clock)) == {}, "it moves with the clock"
    deliver(lake, "news", at(TODAY + 3 * DAY, 12))
    assert of_source(lake, source) == {}


@pytest.mark.parametrize("table", ["ingestions", "missing_inputs", "quarantine"])
def test_a_tick_notices_what_alerts_depend_on(lake: Lake, table: str) -> None:
    before = signals.state_of(lake, Catalog({"events": contract()}))
    if table == "ingestions":
        deliver(lake, "torn", at(TODAY), status="held")
    elif table == "missing_inputs":
        missing_inputs.record(lake, "events", "unfinished_day", {TODAY: "no marker"})
    else:
        row_writer.append(locations.quarantine(lake, "events"), pa.table({"quarantine_status": ["open"]}))
    assert signals.state_of(lake, Catalog({"events": contract()})) != before
