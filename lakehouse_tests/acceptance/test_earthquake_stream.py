"""The real history as the messages of a topic, one for each record, beside its live numbers: the books are right every day, and
say by how much the live numbers were off.
"""

from __future__ import annotations

import csv
import gzip
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.calendar.days import span
from lakehouse.contracts import load_catalog
from lakehouse.contracts.loader import completed
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.contracts.source import SourceContract
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import recompute
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs
from lakehouse.live import stream as live_run
from lakehouse.live.reconcile import reconcile
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.earthquakes.history import (
    BATCHES,
    gold_daily,
    needs_earthquakes,
    silver_digest,
    true_daily,
    true_digests,
)
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.kafka_broker import KafkaBroker
from lakehouse_tests.support.kafka_lake import KafkaLake, milliseconds

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.proof, needs_earthquakes]

FIRST = date(2018, 1, 1)
TOPIC = "earthquakes"
#: An event day of the history that the first file carries.
LONG_AGO = date(1999, 1, 5)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def messages_of(arrival: date) -> list[dict[str, Any]]:
    """The records of an arrival day in the order of their arrival, each as a message."""
    with gzip.open(BATCHES / f"arrival_date={arrival}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        records = sorted(csv.DictReader(file), key=lambda record: record["arrival_ts"])
    return [
        {
            "value": {name: value or None for name, value in record.items()},
            "key": record["event_id"],
            "timestamp": milliseconds(moment(record["arrival_ts"])),
        }
        for record in records
    ]


def contracts(broker: KafkaBroker) -> tuple[SourceContract, MetricContract]:
    """The bundled contracts, from a topic and with live numbers."""
    bundled = load_catalog(None)
    written = bundled.sources["earthquakes"].model_dump(mode="json", by_alias=True, exclude_unset=True)
    kafka = {"topic": TOPIC, "servers": broker.servers}
    written["source"] = {"landing": "kafka", "format": "json", "start_date": f"{FIRST}", "system": "NCSS", "kafka": kafka}
    source = SourceContract.model_validate(written)
    daily = bundled.metrics["earthquakes_daily"].model_dump(mode="json", by_alias=True, exclude_unset=True)
    metric = MetricContract.model_validate({**daily, "live": {"watermark": "PT6H", "keep": "P9999D"}})
    return source, completed(metric, {"earthquakes": source})


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    running = KafkaBroker(tmp_path / "kafka")
    running.start()
    running.create_topic(TOPIC)
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("days", "causes"),
    [(4, {"not_read", "corrected"}), (10, {"not_read", "late_dropped"})],
    ids=["four days", "ten days"],
)
def test_days_as_a_stream(spark: SparkSession, tmp_path: Path, broker: KafkaBroker, days: int, causes: set[str]) -> None:
    lake = lake_in(tmp_path)
    source, metric = contracts(broker)
    sample, series = KafkaLake(lake, source), Series(metric)
    truth, daily = true_digests(), true_daily()

    def session() -> SparkSession:
        return spark

    recompute.remember_contract(lake, metric, source)
    for arrival in span(FIRST, date(2018, 1, days)):
        lake.settings.now = datetime(arrival.year, arrival.month, arrival.day, 23, 59, tzinfo=timezone.utc)
        broker.produce(TOPIC, messages_of(arrival))
        while not sample.ingest().at_end:
            pass
        silver_update.update(lake, source, session, applied_inputs.pending(lake, "earthquakes"), "run", [metric])
        assert silver_digest(lake) == truth[arrival], arrival
        pending = find_pending(lake, series)
        restatement_days.restate(lake, source, series, session, pending.starts, Run("run"), pending)
        if arrival in daily:
            assert gold_daily(lake) == daily[arrival], arrival
        if arrival.day % 3 == 0:
            live_run.run(session, lake, metric, source, ends=True)
    explained = causes_of(lake, session, source, metric, [*span(FIRST, date(2018, 1, days - 2)), LONG_AGO])
    assert causes <= explained, "of the last day the stream has read nothing"


def causes_of(lake: Lake, session: Any, source: SourceContract, metric: MetricContract, reconciled: list[date]) -> set[str]:
    """Live numbers and causes make the books of each day, which are the truth: the causes of differences."""
    books, explained = gold_daily(lake), set[str]()
    for day in reconciled:
        entries = {entry.measure: entry for entry in reconcile(session, lake, metric, source, day).entries}
        for measure, true in zip(("n_events", "n_with_mag", "sum_mag", "max_mag"), books[day]):
            entry = entries[measure]
            live = Decimal(entry.live or 0)
            causes = {name: Decimal(value) for name, value in entry.causes.items()}
            assert live + sum(causes.values()) == (true or 0), (day, measure, entry)
            explained |= {name for name, value in causes.items() if value}
    return explained
