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
from lakehouse.delta import layout
from lakehouse.live import batches as live_batches
from lakehouse.live import checkpoint, stream, table
from lakehouse.live.checkpoint import LiveCheckpointError
from lakehouse_tests.support.lake import content_id
from lakehouse_tests.support.live_lake import LIVE, LiveLake, StreamModel
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import SLIDING, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]

#: Each a file. The second and third are read in one batch each, without a batch in between, when the stream is slow.
DELIVERIES = [
    [Event("a", 1, 5), Event("b", 59, 7), Event("c", 61)],
    [Event("d", 129, 2), Event("e", 3, 11)],
    [Event("f", 118, 3), Event("g", 2, 13), Event("h", 121, 4)],
    [Event("a", 1, 6, "correct"), Event("c", 61, 1, "delete"), Event("b", 59, 7)],
]


def test_late_rows_are_dropped_as_the_rule_says(lake: Lake, spark: Any) -> None:
    sample, hours, overlapping = LiveLake(lake, spark), StreamModel(60, 60), StreamModel(120, 30)
    for delivery in DELIVERIES:
        sample.land_events(*delivery)
        sample.update("orders")
        for read, model in ((sample.hourly, hours), (sample.sliding, overlapping)):
            sample.stream(read)
            model.batch(delivery)
            model.settle()
            assert sample.live_numbers(read) == model.numbers()
    assert {event.key for event, _ in hours.dropped} == {"g", "b"}
    assert {(event.key, start) for event, start in overlapping.dropped} > {("g", overlapping.dropped[0][1])}


def test_a_batch_behind_another_with_rows_drops_by_the_watermark_of_the_one_before(lake: Lake, spark: Any) -> None:
    sample = LiveLake(lake, spark, metrics=[metric(TUMBLING, **LIVE)])
    model = StreamModel(60, 60)
    for delivery in [*DELIVERIES[:3], [Event("i", 4, 17), Event("j", 260)], [Event("k", 122, 19)], [Event("l", 123, 23)]]:
        sample.land_events(*delivery)
        sample.update("orders")
        model.batch(delivery)
    sample.stream()
    assert sample.live_numbers() == model.numbers()
    assert [event.key for event, _ in model.dropped] == ["i", "l"]  # "k" is behind the watermark, and its batch does not know
    batches = {entry.batch: entry for entry in live_batches.log(lake).read()}
    assert [batches[number].first_line for number in range(6)] == [2] * 6
    assert batches[4].watermark_before == batches[3].watermark


def test_a_batch_that_is_repeated_changes_nothing(lake: Lake, spark: Any) -> None:
    sample = LiveLake(lake, spark)
    for delivery in DELIVERIES[:2]:
        sample.land_events(*delivery)
        sample.update("orders")
        sample.stream()
    before, recorded = sample.live_numbers(), live_batches.log(lake).read()
    commits = checkpoint.folder_of(lake, sample.hourly, sample.sources["orders"]) / "spark" / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for number in (newest, newest - 1):  # as if killed before Spark noted that the batch is done
        (commits / f"{number}").unlink()
        (commits / f".{number}.crc").unlink()
    version = DeltaTable(locations.live(lake, "hourly").address).version()
    sample.stream()
    assert sample.live_numbers() == before
    assert DeltaTable(locations.live(lake, "hourly").address).version() == version
    assert live_batches.log(lake).read() == recorded


def test_a_checkpoint_that_is_gone_or_of_another_definition_is_said_and_made_again(lake: Lake, spark: Any) -> None:
    sample = LiveLake(lake, spark)
    for delivery in DELIVERIES[:2]:
        sample.land_events(*delivery)
        sample.update("orders")
        sample.stream()
    folder = checkpoint.folder_of(lake, sample.hourly, sample.sources["orders"])
    (folder / "spark" / "offsets" / "2").unlink()
    with pytest.raises(LiveCheckpointError, match="is damaged: batch 2 is missing; run 'lakehouse live rebuild hourly'"):
        sample.stream()
    shutil.rmtree(folder)
    with pytest.raises(LiveCheckpointError, match="is gone; run 'lakehouse live rebuild hourly'"):
        sample.stream()
    stream.rebuild(sample.session, lake, sample.hourly, sample.sources["orders"])
    again = StreamModel(60, 60)
    again.batch(DELIVERIES[0])
    again.batch(DELIVERIES[1])
    assert sample.live_numbers() == again.numbers()
    sample.metrics[0] = metric(TUMBLING, live={"watermark": "PT20M"}).model_copy(update={"window": sample.hourly.window})
    with pytest.raises(LiveCheckpointError, match="the contract has changed since the checkpoint was made"):
        sample.stream()


def test_a_stream_does_not_go_on_behind_commits_that_bronze_has_lost(lake: Lake, spark: Any) -> None:
    """The next file takes the number of a commit that was read: Spark would take its rows for read."""
    sample = LiveLake(lake, spark, metrics=[metric(TUMBLING, **LIVE)])

    def deliver(*events: Event) -> None:
        sample.land_events(*events)
        sample.update("orders")

    def totals() -> list[int]:
        return [total for total, _ in sample.live_numbers().values()]

    deliver(Event("a", 1, 5))
    sample.stream()
    deliver(Event("b", 2, 7))
    sample.stream()
    sample.stream()
    assert totals() == [12]
    for entry in sorted(Path(locations.bronze(lake, "orders").address).glob("_delta_log/*.json"))[-2:]:
        entry.unlink()
    deliver(Event("c", 3, 11))  # the lost rows come in one commit, and this file gets the number of the other
    with pytest.raises(
        LiveCheckpointError,
        match=r"bronze/orders does not hold commit \d+ any more, which the stream has read.*'lakehouse live rebuild hourly'",
    ):
        sample.stream()
    stream.rebuild(sample.session, lake, sample.hourly, sample.sources["orders"])
    assert totals() == [23]
    deliver(Event("d", 4, 13))
    sample.stream()
    assert totals() == [36]


def test_a_stream_goes_on_over_the_commit_from_which_arrival_days_share_files(lake: Lake, spark: Any) -> None:
    lake.settings.file_bytes = 0
    sample, model = LiveLake(lake, spark, metrics=[metric(TUMBLING, **LIVE)]), StreamModel(60, 60)
    for number, delivery in enumerate(DELIVERIES):
        if number == 2:  # the first delivery was read, the second was not
            lake.settings.file_bytes = 2**18
            assert layout.convert(lake, locations.bronze(lake, "orders"), "arrival_date")
        sample.land_events(*delivery)
        sample.update("orders")
        if number == 0:
            sample.stream()
        model.batch(delivery)
    sample.stream()
    assert sample.live_numbers() == model.numbers()
    assert len(live_batches.log(lake).read()) == len(DELIVERIES)


def test_the_numbers_are_in_the_windows_of_the_books_and_say_when_these_end(lake: Lake, spark: Any) -> None:
    """On the day on which the clock goes back, and across midnight."""
    sample = LiveLake(lake, spark, metrics=[metric(TUMBLING, **LIVE), metric(SLIDING, **LIVE)])
    night = 2 * 24 * 60
    sample.send(*(Event(f"{number}", night - 90 + 31 * number, number) for number in range(10)))
    for read, size in ((sample.hourly, 1), (sample.sliding, 2)):
        sample.stream(read)
        found = table.read(lake, read)
        assert found is not None
        assert {row["window_end"] - row["window_start"] for row in found.to_pylist()} == {timedelta(hours=size)}
    published = [
        {start: (numbers[0], numbers[-1]) for start, numbers in sample.windows(Series(read)).items()} for read in sample.metrics
    ]
    assert [sample.live_numbers(sample.hourly), sample.live_numbers(sample.sliding)] == published


def test_a_metric_of_whole_days_is_live_by_day(lake: Lake, spark: Any) -> None:
    daily = {"metric": "daily", "source": "orders", "measures": TUMBLING["measures"], "live": True}
    sample = LiveLake(lake, spark, metrics=[metric(daily)])
    sample.land_events(*DELIVERIES[0], Event("x", 25 * 60, 100))
    sample.update("orders")
    sample.stream()
    found = table.read(lake, sample.hourly)
    assert found is not None
    assert sorted((f"{row['event_date']}", row["total"], f"{row['window_end']:%d %H:%M}") for row in found.to_pylist()) == [
        ("2024-10-25", 13, "25 22:00"),
        ("2024-10-26", 100, "26 22:00"),
    ]


def test_the_offsets_of_a_batch_are_read_as_spark_writes_them(lake: Lake, spark: Any) -> None:
    sample = LiveLake(lake, spark)
    sample.land_events(*DELIVERIES[0])
    sample.update("orders")
    sample.stream()
    query = checkpoint.opened(lake, sample.hourly, sample.sources["orders"], 0)
    assert query.before(0).until == checkpoint.BronzeOffset(0)
    assert query.offsets(0).watermark is None
    source = json.loads((query.of_spark / "offsets" / "0").read_text().splitlines()[2])
    assert query.offsets(0).until == checkpoint.BronzeOffset(source["reservoirVersion"], source["index"])


def test_the_files_of_one_commit_may_be_read_by_several_batches(lake: Lake, spark: Any) -> None:
    patient = {"watermark": "P1D", "max_files_per_trigger": 1}  # whatever the order of the files, none is late
    lake.settings.file_bytes = 0  # a file for each arrival day of a commit
    sample = LiveLake(lake, spark, metrics=[metric(TUMBLING, live=patient)])
    lake.settings.now = datetime(2024, 11, 1, tzinfo=timezone.utc)
    arrivals = [date(2024, 10, 28), date(2024, 10, 29), date(2024, 10, 30)]
    hours = {}
    for number, arrival in enumerate(arrivals):
        event = Event(f"{number}", 60 * number)
        line = f"{event.key},{event.amount},{event.moment.isoformat()},{arrival}T12:00:00Z,insert,u\n"
        path = Path(str(lake.settings.landing), f"orders.arrival_date={arrival}.csv")
        path.write_text(f"id,amount,at,arrived_at,op,user\n{line}")
        hours[content_id(path.read_bytes())] = event.moment
    Ingest(lake, sample.sources["orders"], sample.session, "run").days(arrivals)
    sample.stream()
    found = table.read(lake, sample.hourly)
    assert found is not None
    written = {row["window_start"]: row["batch"] for row in found.to_pylist()}
    assert {hours[entry.ingestion_id]: entry.batch for entry in live_batches.log(lake).read()} == written
    assert sorted(written.values()) == [0, 1, 2]
