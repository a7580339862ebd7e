"""The events of ``lakehouse demo simulate``: the same for the same options, as late as these request, valid by the contract."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import pytest

from lakehouse.bronze.file_formats import read_records
from lakehouse.bronze.row_parser import RowParser
from lakehouse.contracts import load_catalog
from lakehouse.examples import late_events
from lakehouse.examples.late_events import FIRST_DAY, Event, Options
from lakehouse.ledger.ids import DeliveredFile

HOUR = timedelta(hours=1)


def late(made: list[Event]) -> list[Event]:
    return [one for one in made if one.received_at - one.happened_at >= HOUR]


def test_the_same_for_the_same_options_and_others_for_another_seed() -> None:
    assert late_events.events(Options()) == late_events.events(Options())
    assert late_events.events(Options()) != late_events.events(Options(seed=8))


@pytest.mark.parametrize("options", [Options(), Options(3, 7, 0.5, (30, 40), 1), Options(late_share=0), Options(2, 5, 1.0)])
def test_so_many_events_a_day_and_so_many_of_all_late(options: Options) -> None:
    made = late_events.events(options)
    by_day = Counter(event.happened_at.date() for event in made)
    assert by_day == {FIRST_DAY + timedelta(days=day): options.events for day in range(options.days)}
    assert len({event.event_id for event in made}) == len(made)
    assert len(late(made)) == round(options.late_share * len(made))
    least, most = options.late_hours
    assert all(least * HOUR <= event.received_at - event.happened_at <= most * HOUR for event in late(made))
    on_time = [event for event in made if event not in late(made)]
    assert all(event.received_at.date() == event.happened_at.date() for event in on_time), "what is not late is there on its day"


def test_each_event_lies_in_the_file_of_its_arrival_day_once() -> None:
    made = late_events.events(Options())
    rows = [
        (
            row["event_id"],
            row["happened_at"],
            row["amount"],
            name[len("arrival_date=") : -len(".00h.csv")],
            row["received_at"][:10],
        )
        for name, text in late_events.files(made).items()
        for row in csv.DictReader(io.StringIO(text))
    ]
    assert all(named == received for *_, named, received in rows)
    assert sorted(row[:3] for row in rows) == sorted(
        (one.event_id, f"{one.happened_at:%Y-%m-%dT%H:%M:%SZ}", f"{one.amount}") for one in made
    )


@pytest.mark.parametrize(
    ("options", "last"),
    [
        (Options(days=14), date(2024, 11, 21)),  # a Sunday, and what the watermark needs to pass it
        (Options(days=1, events=1, late_share=0), date(2024, 11, 14)),
        (Options(days=14, late_share=1, late_hours=(480, 480)), date(2024, 12, 8)),  # what comes after the close, and a timeout
    ],
)
def test_the_clock_runs_until_all_has_come_and_the_last_week_is_final(options: Options, last: date) -> None:
    days = late_events.clock_days(late_events.events(options))
    assert (days[0], days[-1], len(days)) == (FIRST_DAY, last, (last - FIRST_DAY).days + 1)


def test_the_contracts_read_every_line_of_the_files(tmp_path) -> None:
    for name, text in late_events.CONTRACTS.items():
        (tmp_path / name).write_text(text)
    catalog = load_catalog(tmp_path, bundled=False)
    assert catalog.metrics[late_events.METRIC].publication.final_after == late_events.FINAL_AFTER
    contract = catalog.sources[late_events.SOURCE]
    made = late_events.events(replace(Options(), days=3))
    rows_read = []
    for name, text in late_events.files(made).items():
        parser = RowParser(contract, DeliveredFile(name, name, FIRST_DAY, datetime.now(timezone.utc)))
        rows_read += parser.rows(read_records(io.BytesIO(text.encode()), contract.source, contract.columns_read))
    assert not [row for row in rows_read if "malformed_reason" in row]
    assert sum(row["amount"] for row in rows_read) == sum(event.amount for event in made)
