"""The reprocess policies other than merge, the contract of the seed among them: what a re-sent day does, and what it may not."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import duckdb_extension_delta
import pytest

from lakehouse import locations
from lakehouse.contracts import Catalog, load_contract
from lakehouse.contracts.source import SourceContract
from lakehouse.dispositions import account as dispositions_account
from lakehouse.dispositions.living_rows import Slice
from lakehouse.gold.restatement import lineage
from lakehouse.ledger.ids import row_id_of
from lakehouse.ledger.row_states import Disposition
from lakehouse.serving.sql_views import PREAMBLE, Dialect, newest_rows, statements
from lakehouse.silver import merge as silver_merge
from lakehouse.stewardship import quarantine
from lakehouse.stewardship.quarantine import QuarantineFilter
from lakehouse_tests.support.contract_texts import LAKELOGIC
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.resent_days import ARRIVED, FIRST, SECOND, A, B, C, D, deliver_and_update, lake_under_policy

if TYPE_CHECKING:
    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark


def content(sample: SampleLake) -> list[tuple[str, int, int]]:
    found = locations.silver(sample.lake, "events").read(["record_key", "event_date", "amount"])
    assert found is not None
    return sorted((row["record_key"], row["event_date"].day, row["amount"]) for row in found.to_pylist())


def became(sample: SampleLake) -> Counter[str]:
    return Counter(row.disposition.value for row in dispositions_account.rows(sample.lake, sample.contract))


def files_of(lake: Lake, day: date) -> dict[str, bytes]:
    folder = Path(lake.root, "silver")
    return {path.name: path.read_bytes() for path in folder.glob(f"*/event_date={day}/*.parquet")}


@pytest.mark.merge
def test_the_contract_of_the_seed_replaces_the_day_that_was_sent_again(lake, spark, tmp_path: Path) -> None:
    file = tmp_path / "contract.yaml"
    file.write_text(LAKELOGIC + "source: {start_date: 2024-01-01}\n")
    seed = load_contract(file)
    assert isinstance(seed, SourceContract)
    sample = SampleLake(lake, seed, spark)
    run_1 = "event_id,event_date,amount,customer_id\n1,2024-01-01,10.0,7\n2,2024-01-01,20.5,8\n3,2024-01-02,5.0,7\n"
    sample.deliver(ARRIVED[0], run_1.encode())
    sample.ingest(ARRIVED[0])
    lake.settings.now = lake.now().replace(hour=1)
    assert sample.pending() == [FIRST, SECOND]
    sample.update()
    second_day = files_of(lake, SECOND)
    sample.deliver(
        ARRIVED[1], b"event_id,event_date,amount,customer_id\n1,2024-01-01,11.0,7\n4,2024-01-01,-1.0,9\n5,2024-01-01,2.0,9\n"
    )
    lake.settings.now = lake.now().replace(hour=2)
    sample.ingest(ARRIVED[1])
    assert sample.pending() == [FIRST]
    sample.update()
    found = locations.silver(lake, "silver_pos_sales_events").read(["event_id", "event_date", "amount"])
    assert found is not None
    rows = sorted((row["event_id"], row["event_date"], row["amount"]) for row in found.to_pylist())
    assert rows == [(1, FIRST, 11.0), (3, SECOND, 5.0), (5, FIRST, 2.0)], "the negative amount waits for a steward"
    assert files_of(lake, SECOND) == second_day, "the other day is the same byte for byte"


def test_a_resent_day_is_the_whole_truth_and_an_older_arrival_that_comes_later_is_not(lake, spark) -> None:
    sample = lake_under_policy(lake, spark, "overwrite_partition_safe")
    deliver_and_update(sample, 0, A, B, C)
    assert deliver_and_update(sample, 2, "a,7,2024-01-01T12:00:00Z") == {FIRST}, "half of the rows may be gone"
    assert content(sample) == [("a", 1, 7), ("c", 2, 3)]
    assert deliver_and_update(sample, 1, D, B) == set(), "an older arrival comes behind it"
    assert content(sample) == [("a", 1, 7), ("c", 2, 3)]
    assert became(sample) == {"applied": 2, "superseded": 4}


@pytest.mark.merge
@pytest.mark.parametrize("policy", ["overwrite_partition_safe", "overwrite_all"])
def test_a_malformed_row_of_a_resent_day_has_one_disposition(lake, spark, policy: str) -> None:
    sample = lake_under_policy(lake, spark, policy)
    deliver_and_update(sample, 0, A, "b,two,2024-01-01T12:00:00Z")
    table = locations.dispositions(lake, "events").read(["line_number", "disposition"])
    assert table is not None
    assert sorted(table["disposition"].to_pylist()) == ["applied", "malformed"]


@pytest.mark.merge
def test_a_day_in_two_files_is_sent_again_with_one_of_them_unchanged(lake, spark) -> None:
    sample = lake_under_policy(lake, spark, "overwrite_partition_safe")
    parts = [[f"{part}{number},1,2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,,,0" for number in range(50)] for part in "ab"]
    for name, lines in zip("ab", parts):
        sample.deliver(ARRIVED[0], csv_file(lines), f"-{name}.csv")
    sample.ingest(ARRIVED[0])
    sample.update()
    assert len(content(sample)) == 100
    known = lineage.of_silver(lake, sample.contract).ids
    changed = [line.replace(",1,", ",2,") for line in parts[1]]
    for name, lines in zip("ab", (parts[0], changed)):
        sample.deliver(ARRIVED[1], csv_file(lines), f"-{name}.csv")
    report = sample.ingest(ARRIVED[1])
    assert sample.pending() == [FIRST]
    sample.update()
    assert Counter(amount for _, _, amount in content(sample)) == {1: 50, 2: 50}
    assert became(sample) == {"applied": 100, "superseded": 50}
    assert sample.rebuilt([FIRST]) == sample.silver()
    inputs = lineage.of_silver(lake, sample.contract)
    assert inputs.ids - known == {report.ingested[0].ingestion_id, report.redelivered[0].input_id}
    assert not sample.pending()
    before = silver_merge.state(spark, lake, sample.contract, Slice([FIRST], known))
    assert {row["amount"] for row in before.collect()} == {1}, "as known then"


@pytest.mark.merge
def test_the_order_of_ingestion_does_not_matter_for_what_is_held(lake, spark) -> None:
    sample = lake_under_policy(lake, spark, "overwrite_partition_safe")
    deliver_and_update(sample, 2, "a,7,2024-01-01T12:00:00Z")
    assert deliver_and_update(sample, 1, A, B, D) == {FIRST}, (
        "against the arrival before it, the newest one now lacks two rows of three"
    )
    assert content(sample) == [("a", 1, 1), ("b", 1, 2), ("d", 1, 4)]
    assert became(sample) == {"applied": 3, "quarantined": 1}
    assert sample.rebuilt([FIRST, SECOND]) == sample.silver()


@pytest.mark.merge
def test_an_arrival_that_would_shrink_the_day_is_held_until_a_steward_accepts_it(lake, spark) -> None:
    sample = lake_under_policy(lake, spark, "overwrite_partition_safe")
    deliver_and_update(sample, 0, A, B, D, C)
    assert deliver_and_update(sample, 1, "a,9,2024-01-01T12:00:00Z") == set()
    assert content(sample) == [("a", 1, 1), ("b", 1, 2), ("c", 2, 3), ("d", 1, 4)]
    (entry,) = quarantine.entries(lake, sample.contract, QuarantineFilter(cause="shrunken_partition"))
    assert entry["quarantine_detail"] == "its delivery would shrink 2024-01-01 by more than 50%"
    taken = quarantine.decide(lake, sample.contract, [row_id_of(entry)], "accept", by="anna", reason="the shop was closed")
    assert taken.days == [FIRST]
    sample.update()
    assert content(sample) == [("a", 1, 9), ("c", 2, 3)]
    assert became(sample) == {"applied": 2, "superseded": 3}
    assert sample.rebuilt([FIRST, SECOND]) == sample.silver()


@pytest.mark.merge
def test_accepting_one_late_row_does_not_erase_the_rows_that_were_in_time(lake, spark) -> None:
    sample = lake_under_policy(lake, spark, "overwrite_partition_safe", lateness={"watermark": "P32D", "beyond": "quarantine"})
    deliver_and_update(sample, 0, A, B, D)
    deliver_and_update(sample, 2, "a,7,2024-01-01T12:00:00Z", "b,8,2024-01-01T12:00:00Z", "d,9,2024-01-01T12:00:00Z")
    entry = quarantine.entries(lake, sample.contract, QuarantineFilter(key="a"))[0]
    assert entry["quarantine_reason"] == "beyond_watermark"
    row = [row_id_of(entry)]
    quarantine.decide(lake, sample.contract, row, "accept", by="anna", reason="it is true")
    sample.update()
    assert content(sample) == [("a", 1, 1), ("b", 1, 2), ("d", 1, 4)], "one row of three: now its file would shrink the day"
    assert quarantine.entries(lake, sample.contract, QuarantineFilter(key="a"))[0]["quarantine_reason"] == "shrunken_partition"
    quarantine.decide(lake, sample.contract, row, "accept", by="anna", reason="the others were never sold")
    sample.update()
    assert content(sample) == [("a", 1, 7)]


@pytest.mark.merge
def test_rejecting_rows_of_a_file_does_not_bring_an_older_file_back(lake, spark) -> None:
    sample = lake_under_policy(lake, spark, "overwrite_partition_safe")
    deliver_and_update(sample, 0, A, B, D)
    deliver_and_update(sample, 1, "a,7,2024-01-01T12:00:00Z", "b,8,2024-01-01T12:00:00Z", "d,9,2024-01-01T12:00:00Z")
    newest = dispositions_account.rows(lake, sample.contract, arrival_days=[ARRIVED[1]])
    bad = [(row.ingestion_id, row.line_number) for row in newest if row.record_key in {"a", "b"}]
    quarantine.decide(lake, sample.contract, bad, "reject", by="anna", reason="test sales")
    sample.update()
    assert content(sample) == [("d", 1, 9)]


@pytest.mark.merge
def test_the_newest_arrival_is_the_table(lake, spark) -> None:
    sample = lake_under_policy(lake, spark, "overwrite_all")
    deliver_and_update(sample, 0, A, B, C)
    assert deliver_and_update(sample, 1, D, "d,5,2024-01-02T12:00:00Z") == {FIRST, SECOND}
    assert content(sample) == [("d", 2, 5)], "one key lives once"
    assert became(sample) == {"applied": 1, "superseded": 4}
    version = sample.silver_version()
    sample.update([FIRST])
    assert sample.silver_version() == version, "made again alone, a day comes out the same"
    assert sample.rebuilt([FIRST, SECOND]) == sample.silver()


@pytest.mark.merge
def test_append_keeps_every_row_and_a_view_tells_them_apart(lake, spark) -> None:
    sample = lake_under_policy(lake, spark, "append")
    deliver_and_update(sample, 0, A, B)
    assert deliver_and_update(sample, 1, "a,9,2024-01-02T12:00:00Z", C) == {SECOND}
    assert content(sample) == [("a", 1, 1), ("a", 2, 9), ("b", 1, 2), ("c", 2, 3)]
    assert became(sample) == {"applied": 4}
    assert sample.rebuilt([FIRST, SECOND]) == sample.silver()
    newest = spark.sql(newest_rows(lake, sample.contract, Dialect.spark)).collect()
    assert sorted((row["record_key"], row["amount"]) for row in newest) == [("a", 9), ("b", 2), ("c", 3)]


@pytest.mark.merge
def test_the_view_reads_the_same_in_duckdb(lake, spark) -> None:
    sample = lake_under_policy(lake, spark, "append")
    deliver_and_update(sample, 0, A, B)
    deliver_and_update(sample, 1, "a,9,2024-01-02T12:00:00Z", C)
    connection = duckdb.connect()
    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))
    connection.execute(f"LOAD '{extension}'")
    created = statements(lake, Catalog({"events": sample.contract}, {}), Dialect.duckdb)[len(PREAMBLE[Dialect.duckdb]) :]
    connection.execute("".join(created))
    rows = connection.execute("SELECT record_key, amount FROM events_newest").fetchall()
    assert sorted(rows) == [("a", 9), ("b", 2), ("c", 3)]


@pytest.mark.parametrize("window", [None, "PT10M"])
def test_a_source_without_ids_is_known_by_a_hash(lake, spark, window: str | None) -> None:
    key: dict[str, Any] = {"fields": ["id"]} | ({"window": window} if window else {})
    sample = SampleLake(lake, contract(primary_key=[], synthetic_key=key, changes={}), spark)
    deliver_and_update(sample, 0, A, B, "a,5,2024-01-01T12:04:00Z", "a,6,2024-01-01T12:12:00Z")
    amounts = sorted(row[2] for row in content(sample))
    assert amounts == ([2, 5, 6] if window else [2, 6])
    assert became(sample) == {"applied": len(amounts), "duplicate": 4 - len(amounts)}
    assert all(row.disposition is not Disposition.SUPERSEDED for row in dispositions_account.rows(lake, sample.contract))
