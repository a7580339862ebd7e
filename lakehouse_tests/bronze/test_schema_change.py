"""What a changed contract or a changed file does to existing tables: additive changes are applied, others hold the file."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from lakehouse import locations
from lakehouse.delta import change_feed
from lakehouse_tests.support.lake import HEADER, SampleLake, contract, csv_file

pytestmark = pytest.mark.spark

FIRST, SECOND = date(2024, 2, 1), date(2024, 2, 2)
LINE = "a,1,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,insert,,0"
ID = {"name": "id", "type": "string"}


@pytest.fixture(name="sample")
def _lake(lake, spark) -> SampleLake:
    sample = SampleLake(lake, contract(), spark)
    sample.deliver(FIRST, csv_file([LINE]))
    sample.ingest(FIRST)
    sample.update()
    return sample


def with_fields(*fields: dict[str, Any]) -> Any:
    return contract(model={"fields": [ID, *fields]})


def rows(sample: SampleLake, *columns: str) -> set[tuple[Any, ...]]:
    found = locations.silver(sample.lake, "events").read(list(columns))
    assert found is not None
    return {tuple(row[name] for name in columns) for row in found.to_pylist()}


@pytest.mark.merge
def test_a_new_field_is_added_to_the_tables_and_empty_in_older_rows(sample: SampleLake) -> None:
    version = sample.silver_version()
    sample.contract = with_fields({"name": "amount", "type": "int"}, {"name": "colour", "type": "string"})
    content = f"{HEADER},colour\nb,2,2024-01-01T12:00:00Z,2024-02-02T06:00:00Z,insert,,0,red\n"
    sample.deliver(SECOND, content.encode())
    assert [entry.status for entry in sample.ingest(SECOND).ingested] == ["ingested"]
    assert set(sample.update().changes) == {date(2024, 1, 1)}
    assert rows(sample, "record_key", "amount", "colour") == {("a", 1, None), ("b", 2, "red")}
    table = locations.silver(sample.lake, "events").open()
    assert table is not None
    described = change_feed.describe(table, 0, table.version())
    assert described == {date(2024, 1, 1): {"inserted": 2}}, "the change feed reads across the change"
    assert version < table.version()
    assert sample.rebuilt([date(2024, 1, 1)]) == sample.silver()


def test_a_column_of_the_file_that_no_contract_knows_is_kept_in_the_raw_text(sample: SampleLake) -> None:
    sample.deliver(SECOND, f"{HEADER},colour\nb,2,2024-01-01T12:00:00Z,2024-02-02T06:00:00Z,insert,,0,red\n".encode())
    assert len(sample.ingest(SECOND).ingested) == 1
    assert sample.bronze("raw_payload")[-1]["raw_payload"].endswith(",red")


def test_a_column_that_is_gone_from_the_file_holds_it(sample: SampleLake) -> None:
    sample.deliver(SECOND, b"id,event_time,arrived_at,op,corrects,seq\nb,2024-01-01T12:00:00Z,2024-02-02T06:00:00Z,insert,,0\n")
    (held,) = sample.ingest(SECOND).held
    assert "column 'amount' is missing" in str(held.message) or "column amount is missing" in str(held.message)


def test_a_field_that_is_gone_from_the_contract_stays_empty_in_new_rows(sample: SampleLake) -> None:
    sample.contract = with_fields()
    sample.deliver(SECOND, csv_file(["b,2,2024-01-01T12:00:00Z,2024-02-02T06:00:00Z,insert,,0"]))
    sample.ingest(SECOND)
    sample.update()
    assert rows(sample, "record_key", "amount") == {("a", 1), ("b", None)}
    sample.deliver(date(2024, 2, 3), csv_file(["a,7,2024-01-01T13:00:00Z,2024-02-03T06:00:00Z,correct,,0"]))
    sample.ingest(date(2024, 2, 3))
    sample.update()
    assert rows(sample, "record_key", "amount") == {("a", None), ("b", None)}, "nothing of an older record stays in it"


def test_a_value_that_is_too_wide_is_malformed_until_the_type_becomes_wider(sample: SampleLake) -> None:
    wide = csv_file([f"b,{2**40},2024-01-01T12:00:00Z,2024-02-02T06:00:00Z,insert,,0"])
    sample.deliver(SECOND, wide, ".wide.csv")
    assert sample.ingest(SECOND).ingested[0].malformed == 1
    sample.contract = with_fields({"name": "amount", "type": "long"})
    sample.deliver(SECOND, csv_file([LINE.replace("a,1", f"c,{2**41}")]))
    assert sample.ingest(SECOND).ingested[0].malformed == 0
    sample.update()
    assert rows(sample, "record_key", "amount") == {("a", 1), ("c", 2**41)}
    assert set(sample.update().changes) == set(), "nothing is left to do"
    sample.contract = contract()
    sample.deliver(date(2024, 2, 3), csv_file([LINE.replace("a,1", "d,4")]))
    (held,) = sample.ingest(date(2024, 2, 3)).held
    assert "amount is int64 in the table and int32 in the contract: a type may only become wider" in str(held.message)
