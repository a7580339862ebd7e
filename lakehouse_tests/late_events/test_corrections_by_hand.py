"""A correction that a person enters counts, however late its event is."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts import Catalog
from lakehouse.contracts.source_rules import Lateness
from lakehouse.late_events import counters, follow, left_out
from lakehouse.lateness import measurement
from lakehouse.ledger import ingestions, key_log
from lakehouse.operations.changes import correction_flow
from lakehouse.operations.changes.correction_record import Operation
from lakehouse_tests.support.ingested_files import at, deliver, deliver_files, line, source_with
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.numbers_without_spark import without_spark
from lakehouse_tests.support.windowed_lake import BEGINS, FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake

ON_TIME = [Event("a", 5), Event("b", 30), Event("push", 150)]  # after them the watermark is at 02:20


def enter(sample: LateLake, key: str, at: int, amount: int) -> None:
    catalog = Catalog(sample.sources, {metric.name: metric for metric in sample.metrics})
    values = {"id": key, "amount": f"{amount}", "at": (BEGINS + timedelta(minutes=at)).isoformat(), "user": "u"}
    change = correction_flow.RecordChange(key, Operation.ENTER, values)
    correction_flow.propose(sample.lake, catalog, "orders", change, "anna", "lost by the till")


def test_a_record_that_a_person_enters_is_not_late(lake: Lake) -> None:
    with without_spark():
        hourly = late(TUMBLING, "recompute", 0)
        sample = LateLake(lake, None, [hourly])
        sample.classify_at(0, *ON_TIME)
        sample.classify_at(1, Event("beyond", 10, 100))
        enter(sample, "by hand", 20, 7)
        contract = sample.sources["orders"]
        Ingest(lake, contract, sample.session, "run").day(lake.now().date())
        follow.follow(lake, contract, [hourly])
    counts = counters.of_metric(lake, hourly)
    assert (counts.on_time, counts.late_accepted, counts.late_dropped) == (4, 0, 1)
    ids = ingestions.completed(lake, "orders")
    found = left_out.on_days(lake, hourly, contract, [FIRST], ids)
    assert found is not None
    assert found.keys.to_pylist() == ["beyond"]


def test_a_correction_by_hand_is_late_in_no_measure_and_waits_for_no_steward(lake: Lake) -> None:
    """The same rows from the source are late, and wait."""
    source = source_with({"strategy": "bounded", "max_lateness": "PT1H"})
    source = source.model_copy(update={"lateness": Lateness(watermark=timedelta(days=1), beyond="quarantine")})
    deliver(lake, source, date(2024, 1, 1), line("a", "2024-01-01T09:00:00Z", at(10, 1)))
    files = {
        ".correction-0123456789ab": [line("b", "2024-01-01T09:00:00Z", at(9, 9))],
        "sent": [line("c", "2024-01-01T09:00:00Z", at(9, 9)), line("d", "2024-01-09T08:00:00Z", at(9, 9))],
    }
    deliver_files(lake, source, date(2024, 1, 9), files)
    standing = key_log.about(lake, "events", ["record_key", "standing", "beyond"], ["b", "c", "d"])
    assert standing is not None
    assert sorted(map(tuple, (row.values() for row in standing.to_pylist()))) == [
        ("b", "admitted", False),
        ("c", "quarantined", True),
        ("d", "admitted", False),
    ]
    measured = measurement.measure(lake, source, date(2024, 1, 9), date(2024, 1, 9))
    assert (measured.rows, measured.late, measured.historical) == (2, 1, 1)


@pytest.mark.merge
@pytest.mark.spark
def test_the_number_of_a_closed_window_is_corrected_by_hand(lake: Lake, spark: Any) -> None:
    hourly = late(TUMBLING, "recompute", 0)
    sample = LateLake(lake, spark, [hourly])
    sample.deliver_at(0, *ON_TIME)
    sample.deliver_at(1, Event("beyond", 10, 100))
    assert sample.numbers_of(hourly)[BEGINS] == (2, 2)
    enter(sample, "by hand", 20, 7)
    sample.arrives = lake.now().date()
    sample.update("orders")
    sample.publish()
    assert sample.numbers_of(hourly)[BEGINS] == (9, 3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("arrival_date=2024-01-04.correction-0123456789ab.csv", True),
        ("2024-01-04/correction-0123456789ab.json", True),
        ("correction-0123456789ab.csv", True),
        ("arrival_date=2024-01-04.correction-of-november.csv", False),
        ("arrival_date=2024-01-04.my-correction-0123456789ab.csv", False),
        ("arrival_date=2024-01-04.csv", False),
    ],
)
def test_a_correction_is_known_by_the_name_of_its_file(name: str, expected: bool) -> None:
    assert ingestions.is_by_hand(name) == expected
