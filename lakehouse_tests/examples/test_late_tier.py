"""The customers of ``lakehouse demo``: the same for a seed, and one of them with a tier that is known late."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.bronze.file_formats import read_records
from lakehouse.bronze.row_parser import RowParser
from lakehouse.contracts import load_catalog
from lakehouse.examples import late_tier, sales_stream
from lakehouse.ledger.ids import DeliveredFile

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.contracts import Catalog

SEEDS = range(30)
ARRIVALS = ["arrival_date=2024-11-16.csv", "arrival_date=2024-11-17.csv"]


@pytest.fixture(name="catalog")
def _catalog(tmp_path: Path) -> Catalog:
    for name, text in late_tier.CONTRACTS.items():
        (tmp_path / name).write_text(text)
    return load_catalog(tmp_path)


def lines(seed: int, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(late_tier.files(seed)[name])))


def test_the_same_for_a_seed_and_another_for_another() -> None:
    assert late_tier.files(7) == late_tier.files(7)
    assert late_tier.files(7) != late_tier.files(8)
    assert list(late_tier.files(7)) == ARRIVALS


@pytest.mark.parametrize("seed", SEEDS)
def test_one_customer_is_gold_a_week_earlier_than_was_believed(seed: int) -> None:
    listed, [late] = (lines(seed, name) for name in ARRIVALS)
    of_customer = [(line["tier"], line["changed_at"]) for line in listed if line["customer_id"] == late["customer_id"]]
    assert of_customer == [("silver", "2024-10-01T00:00:00Z"), ("gold", "2024-11-11T00:00:00Z")]
    assert (late["tier"], late["changed_at"]) == ("gold", "2024-11-04T00:00:00Z")
    assert {int(line["customer_id"]) for line in listed} == set(range(1, sales_stream.CUSTOMERS))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_customer_has_unchanged_sales_on_days_of_that_week_and_on_others(seed: int) -> None:
    sales = sales_stream.records(seed)
    days: dict[int, set[date]] = defaultdict(set)
    for sale in sales:
        days[sale.customer_id].add(sale.sold_at.date())
    customer = late_tier.customer_of(sales)
    inside = {day for day in days[customer] if date(2024, 11, 4) <= day < date(2024, 11, 11)}
    assert len(inside) > 2
    assert days[customer] - inside
    assert {sale.op for sale in sales if sale.customer_id == customer} == {"insert"}


def test_every_record_is_as_the_contract_says(catalog: Catalog) -> None:
    contract = catalog.sources[late_tier.SOURCE]
    assert contract.is_dimension
    for name, text in late_tier.files(7).items():
        arrival = date.fromisoformat(name.removeprefix("arrival_date=")[:10])
        parser = RowParser(contract, DeliveredFile(name, name, arrival, datetime.now(timezone.utc)))
        rows = list(parser.rows(read_records(io.BytesIO(text.encode()), contract.source, contract.columns_read)))
        assert rows
        assert not [row for row in rows if "malformed_reason" in row]
        assert min(row["event_date"] for row in rows) >= contract.source.start_date


def test_the_share_is_made_of_the_revenue_by_tier_and_of_all_revenue(catalog: Catalog) -> None:
    assert catalog.metrics[late_tier.SHARE].derived_from == [late_tier.BY_TIER, "revenue"]
    assert [metric.name for metric in catalog.metrics_following(late_tier.SOURCE)] == [late_tier.BY_TIER, late_tier.SHARE]
