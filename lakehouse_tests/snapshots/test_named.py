"""A snapshot is frozen, costs no rows, and its name is given once."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pyarrow as pa
import pytest

from lakehouse.gold.reproduction import reproduce
from lakehouse.snapshots import input_sets, local_rows, named, rows
from lakehouse.snapshots.named import NamedSnapshot, SnapshotError
from lakehouse_tests.support.ingested_files import at, deliver, line
from lakehouse_tests.support.lake import ROW, Row, contract, rows_once
from lakehouse_tests.support.quarantine_lake import decide
from lakehouse_tests.support.reproducible_lake import METRICS, WEEK_WATERMARK, ReproducibleLake, reproducible_lake

EVENTS = contract()


def deliver_days(settings, *days: int) -> None:
    for day in days:
        deliver(settings, EVENTS, date(2024, 1, day), line(f"k{day}", f"2024-01-0{day}T06:00:00Z", at(12, day)))


def create(settings, name: str, ids: set[str], **changes) -> NamedSnapshot:
    return named.create(settings, EVENTS, name, ids, "all inputs", by="anna", reason="audit", **changes)


def test_a_name_means_one_set_for_ever(settings) -> None:
    deliver_days(settings, 2, 3)
    made = create(settings, "feed_v1.3", named.everything(settings, "events"))
    assert create(settings, "feed_v1.3", named.everything(settings, "events")) == made
    deliver_days(settings, 4)
    assert len(input_sets.ids_of(settings, "events", named.find(settings, "events", "feed_v1.3").inputs)) == 2
    with pytest.raises(SnapshotError, match=r"feed_v1.3 of events is taken: it holds other inputs"):
        create(settings, "feed_v1.3", named.everything(settings, "events"))
    named.drop(settings, "events", "feed_v1.3", by="ben", reason="wrong week")
    assert named.all_of(settings, "events") == []
    with pytest.raises(SnapshotError, match=r"feed_v1.3 of events was dropped by ben: wrong week; known are none"):
        named.find(settings, "events", "feed_v1.3")
    with pytest.raises(SnapshotError, match="taken: it was dropped; a name is never given again"):
        create(settings, "feed_v1.3", named.through(settings, "events", date(2024, 1, 3)))


def test_what_cannot_be_named_is_refused(settings) -> None:
    with pytest.raises(SnapshotError, match="no file of events is in it"):
        create(settings, "empty", named.everything(settings, "events"))
    deliver_days(settings, 2)
    for name in ("", "../etc", "a b", ".hidden", "x" * 129):
        with pytest.raises(SnapshotError, match="is no name of a snapshot"):
            create(settings, name, named.everything(settings, "events"))
    with pytest.raises(SnapshotError, match=r"no file other.csv of events was ingested"):
        named.of_files(settings, "events", ["other.csv"])
    with pytest.raises(SnapshotError, match="the snapshot lost of events does not exist; known are none"):
        named.drop(settings, "events", "lost", by="ben", reason="gone")


def rows_of(lake: ReproducibleLake, name: str) -> set[Row]:
    snapshot, days = named.find(lake.settings, "events", name), local_rows.days_of(lake.settings, lake.lake.contract)
    found = rows.of_snapshot(lake.lake.spark, lake.settings, lake.lake.contract, days, snapshot)
    return rows_once(pa.concat_tables(piece.select(ROW) for piece in found))


@pytest.mark.merge
@pytest.mark.spark
def test_its_rows_stay_those_of_its_inputs_whatever_comes_later(settings, spark) -> None:
    lake = reproducible_lake(settings, spark, [], **WEEK_WATERMARK)

    def name(text: str, ids: set[str], until: datetime | None = None) -> None:
        named.create(settings, lake.lake.contract, text, ids, text, by="anna", reason="audit", until=until)

    lake.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    lake.publish()
    first = lake.lake.silver()
    name("first", named.everything(settings, "events"))
    lake.deliver(12, "a,5,12,correct,,red", "w,3,1,insert,,red")  # w waits
    lake.publish()
    second = lake.lake.silver()
    name("second", named.everything(settings, "events"))
    lake.at(13)
    decide(lake.lake, "accept", "w")
    lake.deliver(14, "b,,,delete,,")
    lake.publish()
    evening = datetime(2024, 2, 1, 23, 30, tzinfo=timezone.utc)
    name("through", named.through(settings, "events", date(2024, 2, 12)))
    name("evening", input_sets.known_at(settings, "events", evening), evening)
    last = [row["source_file"] for row in lake.lake.bronze() if row["arrival_date"] == date(2024, 2, 12)]
    name("alone", named.of_files(settings, "events", last))
    assert (rows_of(lake, "first"), rows_of(lake, "second")) == (first, second)
    assert rows_of(lake, "evening") == first
    assert {row[0] for row in rows_of(lake, "through")} == {"a", "b", "w"}, "the decision counts"
    assert {row[0] for row in rows_of(lake, "alone")} == {"a", "w"}
    assert {row[0] for row in lake.lake.silver()} == {"a", "w"}
    second_to_last = [named.find(settings, "events", text) for text in ("second", "through")]
    compared = rows.compare_snapshots(spark, settings, lake.lake.contract, *second_to_last)
    assert (compared.rows, compared.keys, compared.only_before, compared.only_after) == ((2, 3), (2, 3), 0, 1)
    assert compared.changed == 0
    assert {field.name: field.total for field in compared.fields}["amount"] == (7, 10)

    def total(text: str) -> list[int]:
        inputs = input_sets.ids_of(settings, "events", named.find(settings, "events", text).inputs)
        day = date(2024, 2, 1)
        found = reproduce.from_inputs(
            settings, lake.catalog, METRICS[0], [day], inputs, lambda: spark, others_at=settings.clock()
        )
        return found[day]["total"].to_pylist()

    assert (total("first"), total("second"), total("through")) == ([3], [2], [5]), "a number from the inputs of a name"
