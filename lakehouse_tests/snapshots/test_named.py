"""A snapshot is frozen, costs no rows, and its name is given once."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pyarrow as pa
import pytest

from lakehouse.dispositions.living_rows import Slice
from lakehouse.gold.reproduction import reproduce
from lakehouse.snapshots import input_sets, local_rows, rows
from lakehouse.snapshots.input_sets import ChosenInputs, NamedSnapshot, SnapshotError
from lakehouse_tests.support.ingested_files import at, deliver, line
from lakehouse_tests.support.lake import ROW, Row, contract, rows_once
from lakehouse_tests.support.quarantine_lake import decide
from lakehouse_tests.support.reproducible_lake import METRICS, WEEK_WATERMARK, ReproducibleLake, reproducible_lake

EVENTS = contract()


def deliver_days(lake, *days: int) -> None:
    for day in days:
        deliver(lake, EVENTS, date(2024, 1, day), line(f"k{day}", f"2024-01-0{day}T06:00:00Z", at(12, day)))


def create(lake, name: str, ids: set[str], **changes) -> NamedSnapshot:
    return input_sets.create_snapshot(lake, EVENTS, name, ChosenInputs(ids, "all inputs", **changes), by="anna", reason="audit")


def test_a_name_means_one_set_for_ever(lake) -> None:
    deliver_days(lake, 2, 3)
    made = create(lake, "feed_v1.3", input_sets.every_input(lake, "events"))
    assert create(lake, "feed_v1.3", input_sets.every_input(lake, "events")) == made
    deliver_days(lake, 4)
    assert len(input_sets.ids_of(lake, "events", input_sets.find_snapshot(lake, "events", "feed_v1.3").inputs)) == 2
    with pytest.raises(SnapshotError, match=r"feed_v1.3 of events is taken: it holds other inputs"):
        create(lake, "feed_v1.3", input_sets.every_input(lake, "events"))
    input_sets.drop_snapshot(lake, "events", "feed_v1.3", by="ben", reason="wrong week")
    assert input_sets.snapshots_of(lake, "events") == []
    with pytest.raises(SnapshotError, match=r"feed_v1.3 of events was dropped by ben: wrong week; known are none"):
        input_sets.find_snapshot(lake, "events", "feed_v1.3")
    with pytest.raises(SnapshotError, match="taken: it was dropped; a name is never given again"):
        create(lake, "feed_v1.3", input_sets.inputs_through(lake, "events", date(2024, 1, 3)))


def test_what_cannot_be_named_is_refused(lake) -> None:
    with pytest.raises(SnapshotError, match="no file of events is in it"):
        create(lake, "empty", input_sets.every_input(lake, "events"))
    deliver_days(lake, 2)
    for name in ("", "../etc", "a b", ".hidden", "x" * 129):
        with pytest.raises(SnapshotError, match="is no name of a snapshot"):
            create(lake, name, input_sets.every_input(lake, "events"))
    with pytest.raises(SnapshotError, match=r"no file other.csv of events was ingested"):
        input_sets.inputs_of_files(lake, "events", ["other.csv"])
    with pytest.raises(SnapshotError, match="the snapshot lost of events does not exist; known are none"):
        input_sets.drop_snapshot(lake, "events", "lost", by="ben", reason="gone")


def rows_of(sample: ReproducibleLake, name: str) -> set[Row]:
    snapshot, days = (
        input_sets.find_snapshot(sample.lake, "events", name),
        local_rows.days_of(sample.lake, sample.sample.contract),
    )
    found = rows.of_snapshot(sample.sample.spark, sample.lake, sample.sample.contract, days, snapshot)
    return rows_once(pa.concat_tables(piece.select(ROW) for piece in found))


@pytest.mark.merge
@pytest.mark.spark
def test_its_rows_stay_those_of_its_inputs_whatever_comes_later(lake, spark) -> None:
    sample = reproducible_lake(lake, spark, [], **WEEK_WATERMARK)

    def name(text: str, ids: set[str], until: datetime | None = None) -> None:
        chosen = ChosenInputs(ids, text, until)
        input_sets.create_snapshot(lake, sample.sample.contract, text, chosen, by="anna", reason="audit")

    sample.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    sample.publish()
    first = sample.sample.silver()
    name("first", input_sets.every_input(lake, "events"))
    sample.deliver(12, "a,5,12,correct,,red", "w,3,1,insert,,red")  # w waits
    sample.publish()
    second = sample.sample.silver()
    name("second", input_sets.every_input(lake, "events"))
    sample.at(13)
    decide(sample.sample, "accept", "w")
    sample.deliver(14, "b,,,delete,,")
    sample.publish()
    evening = datetime(2024, 2, 1, 23, 30, tzinfo=timezone.utc)
    name("through", input_sets.inputs_through(lake, "events", date(2024, 2, 12)))
    name("evening", input_sets.known_at(lake, "events", evening), evening)
    last = [row["source_file"] for row in sample.sample.bronze() if row["arrival_date"] == date(2024, 2, 12)]
    name("alone", input_sets.inputs_of_files(lake, "events", last))
    assert (rows_of(sample, "first"), rows_of(sample, "second")) == (first, second)
    assert rows_of(sample, "evening") == first
    assert {row[0] for row in rows_of(sample, "through")} == {"a", "b", "w"}, "the decision counts"
    assert {row[0] for row in rows_of(sample, "alone")} == {"a", "w"}
    assert {row[0] for row in sample.sample.silver()} == {"a", "w"}
    second_to_last = [input_sets.find_snapshot(lake, "events", text) for text in ("second", "through")]
    compared = rows.compare_snapshots(spark, lake, sample.sample.contract, *second_to_last)
    assert (compared.rows, compared.keys, compared.only_before, compared.only_after) == ((2, 3), (2, 3), 0, 1)
    assert compared.changed == 0
    assert {field.name: field.total for field in compared.fields}["amount"] == (7, 10)

    def total(text: str) -> list[int]:
        inputs = input_sets.ids_of(lake, "events", input_sets.find_snapshot(lake, "events", text).inputs)
        day = date(2024, 2, 1)
        found = reproduce.from_inputs(lake, sample.catalog, METRICS[0], Slice([day], inputs), lambda: spark, others_at=lake.now())
        return found[day]["total"].to_pylist()

    assert (total("first"), total("second"), total("through")) == ([3], [2], [5]), "a number from the inputs of a name"
