"""The files of the example with card payments: the same for a seed, and read by its contracts without a mistake."""

from __future__ import annotations

import csv
import io
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.bronze.file_formats import read_records
from lakehouse.bronze.row_parser import RowParser
from lakehouse.contracts import ContractError, load_catalog
from lakehouse.examples.card_payments import deliveries
from lakehouse.ledger.ids import DeliveredFile

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.contracts import Catalog

SOURCES = (deliveries.CARDHOLDERS, deliveries.PAYMENTS, deliveries.CHARGEBACKS)


@pytest.fixture(name="catalog", scope="module")
def _catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder: Path = tmp_path_factory.mktemp("contracts")
    for name, text in deliveries.contracts().items():
        (folder / name).write_text(text)
    return load_catalog(folder, bundled=False)


def arrival_day(name: str) -> date:
    return date.fromisoformat(name.removeprefix("arrival_date=").removesuffix(".csv"))


@pytest.mark.merge
def test_the_same_for_a_seed_and_another_for_another() -> None:
    assert deliveries.files(7) == deliveries.files(7)
    assert deliveries.correction(7) == deliveries.correction(7)
    other = deliveries.files(8)
    assert all(texts != other[source] for source, texts in deliveries.files(7).items())
    assert deliveries.correction(7) != deliveries.correction(8)


def test_payments_come_every_second_monday_and_the_rest_at_the_end_of_a_month() -> None:
    days = {source: [arrival_day(name) for name in texts] for source, texts in deliveries.files(7).items()}
    mondays = [date(2024, 7, 15) + timedelta(days=14 * number) for number in range(11)]
    assert days[deliveries.PAYMENTS] == mondays
    for source in (deliveries.CARDHOLDERS, deliveries.CHARGEBACKS):
        assert all((day + timedelta(days=1)).day == 1 for day in days[source])
    assert (days[deliveries.CARDHOLDERS][0], days[deliveries.CHARGEBACKS][-1]) == (date(2024, 6, 30), date(2025, 1, 31))
    assert [arrival_day(name) for name in deliveries.correction(7)] == [date(2025, 2, 10)]


@pytest.mark.parametrize("source", SOURCES)
def test_a_file_holds_what_arrived_since_the_one_before_it(source: str) -> None:
    before = date(2024, 1, 1)
    for name, text in deliveries.files(7)[source].items():
        received = [row["received_at"] for row in csv.DictReader(io.StringIO(text))]
        assert received == sorted(received)
        last = arrival_day(name) if source != deliveries.PAYMENTS else arrival_day(name) - timedelta(days=1)
        assert before <= date.fromisoformat(received[0][:10]) <= date.fromisoformat(received[-1][:10]) <= last
        before = last + timedelta(days=1)


@pytest.mark.merge
@pytest.mark.parametrize("source", SOURCES)
def test_every_record_is_as_the_contract_says(catalog: Catalog, source: str) -> None:
    contract = catalog.sources[source]
    texts = dict(deliveries.files(7)[source])
    if source == deliveries.CHARGEBACKS:
        texts |= deliveries.correction(7)
    for name, text in texts.items():
        parser = RowParser(contract, DeliveredFile(name, name, arrival_day(name), datetime.now(timezone.utc)))
        rows = list(parser.rows(read_records(io.BytesIO(text.encode()), contract.source, contract.columns_read)))
        assert len(rows) == text.count("\n") - 1 > 0
        assert not [row for row in rows if "malformed_reason" in row]
        assert min(row["event_date"] for row in rows) >= contract.first_event_day


def test_no_file_tells_which_payment_was_fraudulent() -> None:
    for text in deliveries.files(7)[deliveries.PAYMENTS].values():
        header = text.split("\n", 1)[0].split(",")
        assert header == [
            *("payment_id", "card_id", "customer_id", "country", "channel", "amount", "paid_at", "received_at"),
        ]


def test_the_contracts_lead_from_three_sources_to_a_model(catalog: Catalog) -> None:
    assert set(catalog.sources) == set(SOURCES)
    training_set, model = catalog.training_sets[deliveries.TRAINING_SET], catalog.models[deliveries.MODEL]
    assert training_set.sources == [deliveries.PAYMENTS, deliveries.CHARGEBACKS, deliveries.CARDHOLDERS]
    assert training_set.features.names == [
        *("amount", "channel", "country", "night", "tier", "home_country", "country_payments"),
    ]
    assert [entry.metric for entry in training_set.features.metrics] == [deliveries.METRIC]
    assert model.training_set == training_set.name
    assert model.canary is not None
    assert model.retrain_when is not None


def test_what_a_contract_may_not_say_is_reported_with_its_file(tmp_path: Path) -> None:
    for name, text in deliveries.contracts().items():
        (tmp_path / name).write_text(text.replace("on: payment_id", "on: payment"))
    with pytest.raises(ContractError, match=r"training_data\.yaml:\d+: label\.on: payment is no field of chargebacks"):
        load_catalog(tmp_path, bundled=False)
