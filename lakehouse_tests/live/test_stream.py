"""The stream against a plain model: what is counted, which rows are dropped as late, and each batch exactly once."""

from __future__ import annotations

import json
import shutil
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts.series import Series
from lakehouse.live import batches as live_batches
from lakehouse.live import checkpoint, run, table
from lakehouse.live.checkpoint import LiveCheckpointError
from lakehouse_tests.support.lake import content_id
from lakehouse_tests.support.live_lake import LIVE, LiveLake, StreamModel
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import SLIDING, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]

#: Each a file. The second and third are read in one batch each, without a batch in between, when the stream is slow.
DELIVERIES = [
    [Event("a", 1, 5), Event("b", 59, 7), Event("c", 61)],
    [Event("d", 129, 2), Event("e", 3, 11)],
    [Event("f", 118, 3), Event("g", 2, 13), Event("h", 121, 4)],
    [Event("a", 1, 6, "correct"), Event("c", 61, 1, "delete"), Event("b", 59, 7)],
]


def test_late_rows_are_dropped_as_the_rule_says(settings: Settings, spark: Any) -> None:
    lake, hours, overlapping = LiveLake(settings, spark), StreamModel(60, 60), StreamModel(120, 30)
    for delivery in DELIVERIES:
        lake.land_events(*delivery)
        lake.update("orders")
        for read, model in ((lake.hourly, hours), (lake.sliding, overlapping)):
            lake.stream(read)
            model.batch(delivery)
            model.settle()
            assert lake.live_numbers(read) == model.numbers()
    assert {event.key for event, _ in hours.dropped} == {"g", "b"}
    assert {(event.key, start) for event, start in overlapping.dropped} > {("g", overlapping.dropped[0][1])}


def test_a_batch_behind_another_with_rows_drops_by_the_watermark_of_the_one_before(settings: Settings, spark: Any) -> None:
    lake = LiveLake(settings, spark, metrics=[metric(TUMBLING, **LIVE)])
    model = StreamModel(60, 60)
    for delivery in [*DELIVERIES[:3], [Event("i", 4, 17), Event("j", 260)], [Event("k", 122, 19)], [Event("l", 123, 23)]]:
        lake.land_events(*delivery)
        lake.update("orders")
        model.batch(delivery)
    lake.stream()
    assert lake.live_numbers() == model.numbers()
    assert [event.key for event, _ in model.dropped] == ["i", "l"]  # "k" is behind the watermark, and its batch does not know
    batches = {entry.batch: entry for entry in live_batches.log(settings).read()}
    assert [batches[number].first_line for number in range(6)] == [2] * 6
    assert batches[4].watermark_before == batches[3].watermark


def test_a_batch_that_is_repeated_changes_nothing(settings: Settings, spark: Any) -> None:
    lake = LiveLake(settings, spark)
    for delivery in DELIVERIES[:2]:
        lake.land_events(*delivery)
        lake.update("orders")
        lake.stream()
    before, recorded = lake.live_numbers(), live_batches.log(settings).read()
    commits = checkpoint.folder_of(settings, lake.hourly, lake.sources["orders"]) / "spark" / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for number in (newest, newest - 1):  # as if killed before Spark noted that the batch is done
        (commits / f"{number}").unlink()
        (commits / f".{number}.crc").unlink()
    version = DeltaTable(locations.live(settings, "hourly")).version()
    lake.stream()
    assert lake.live_numbers() == before
    assert DeltaTable(locations.live(settings, "hourly")).version() == version
    assert live_batches.log(settings).read() == recorded


def test_a_checkpoint_that_is_gone_or_of_another_definition_is_said_and_made_again(settings: Settings, spark: Any) -> None:
    lake = LiveLake(settings, spark)
    for delivery in DELIVERIES[:2]:
        lake.land_events(*delivery)
        lake.update("orders")
        lake.stream()
    folder = checkpoint.folder_of(settings, lake.hourly, lake.sources["orders"])
    (folder / "spark" / "offsets" / "2").unlink()
    with pytest.raises(LiveCheckpointError, match="is damaged: batch 2 is missing; run 'lakehouse live rebuild hourly'"):
        lake.stream()
    shutil.rmtree(folder)
    with pytest.raises(LiveCheckpointError, match="is gone; run 'lakehouse live rebuild hourly'"):
        lake.stream()
    run.rebuild(lake.session, settings, lake.hourly, lake.sources["orders"])
    again = StreamModel(60, 60)
    again.batch(DELIVERIES[0])
    again.batch(DELIVERIES[1])
    assert lake.live_numbers() == again.numbers()
    lake.metrics[0] = metric(TUMBLING, live={"watermark": "PT20M"}).model_copy(update={"window": lake.hourly.window})
    with pytest.raises(LiveCheckpointError, match="the contract has changed since the checkpoint was made"):
        lake.stream()


def test_the_numbers_are_in_the_windows_of_the_books_and_say_when_these_end(settings: Settings, spark: Any) -> None:
    """On the day on which the clock goes back, and across midnight."""
    lake = LiveLake(settings, spark, metrics=[metric(TUMBLING, **LIVE), metric(SLIDING, **LIVE)])
    night = 2 * 24 * 60
    lake.send(*(Event(f"{number}", night - 90 + 31 * number, number) for number in range(10)))
    for read, size in ((lake.hourly, 1), (lake.sliding, 2)):
        lake.stream(read)
        found = table.read(settings, read)
        assert found is not None
        assert {row["window_end"] - row["window_start"] for row in found.to_pylist()} == {timedelta(hours=size)}
    published = [
        {start: (numbers[0], numbers[-1]) for start, numbers in lake.windows(Series(read)).items()} for read in lake.metrics
    ]
    assert [lake.live_numbers(lake.hourly), lake.live_numbers(lake.sliding)] == published


def test_a_metric_of_whole_days_is_live_by_day(settings: Settings, spark: Any) -> None:
    daily = {"metric": "daily", "source": "orders", "measures": TUMBLING["measures"], "live": True}
    lake = LiveLake(settings, spark, metrics=[metric(daily)])
    lake.land_events(*DELIVERIES[0], Event("x", 25 * 60, 100))
    lake.update("orders")
    lake.stream()
    found = table.read(settings, lake.hourly)
    assert found is not None
    assert sorted((f"{row['event_date']}", row["total"], f"{row['window_end']:%d %H:%M}") for row in found.to_pylist()) == [
        ("2024-10-25", 13, "25 22:00"),
        ("2024-10-26", 100, "26 22:00"),
    ]


def test_the_offsets_of_a_batch_are_read_as_spark_writes_them(settings: Settings, spark: Any) -> None:
    lake = LiveLake(settings, spark)
    lake.land_events(*DELIVERIES[0])
    lake.update("orders")
    lake.stream()
    query = checkpoint.opened(settings, lake.hourly, lake.sources["orders"], 0)
    assert query.before(0).until == checkpoint.BronzeOffset(0)
    assert query.offsets(0).watermark is None
    source = json.loads((query.of_spark / "offsets" / "0").read_text().splitlines()[2])
    assert query.offsets(0).until == checkpoint.BronzeOffset(source["reservoirVersion"], source["index"])


def test_the_files_of_one_commit_may_be_read_by_several_batches(settings: Settings, spark: Any) -> None:
    patient = {"watermark": "P1D", "max_files_per_trigger": 1}  # whatever the order of the files, none is late
    lake = LiveLake(settings, spark, metrics=[metric(TUMBLING, live=patient)])
    settings.now = datetime(2024, 11, 1, tzinfo=timezone.utc)
    arrivals = [date(2024, 10, 28), date(2024, 10, 29), date(2024, 10, 30)]
    hours = {}
    for number, arrival in enumerate(arrivals):
        event = Event(f"{number}", 60 * number)
        line = f"{event.key},{event.amount},{event.moment.isoformat()},{arrival}T12:00:00Z,insert,u\n"
        path = Path(str(settings.landing), f"orders.arrival_date={arrival}.csv")
        path.write_text(f"id,amount,at,arrived_at,op,user\n{line}")
        hours[content_id(path.read_bytes())] = event.moment
    Ingest(settings, lake.sources["orders"], lake.session, "run").days(arrivals)
    lake.stream()
    found = table.read(settings, lake.hourly)
    assert found is not None
    written = {row["window_start"]: row["batch"] for row in found.to_pylist()}
    assert {hours[entry.ingestion_id]: entry.batch for entry in live_batches.log(settings).read()} == written
    assert sorted(written.values()) == [0, 1, 2]
