"""Which files of an arrival day with a manifest are ingested, and which are left while they are being written."""

from __future__ import annotations

import gzip
import hashlib
import json
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import reader
from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts.loader import Catalog
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.orchestration.assets.source_assets import bronze_asset
from lakehouse_tests.support.lake import HEADER, SampleLake, contract, csv_file

DAY = date(2024, 1, 5)
SOURCE = {"landing": "{arrival_date}/*.csv*", "start_date": "2024-01-01"}
PROMISED = contract(source=SOURCE | {"complete_when": {"manifest": "{arrival_date}/manifest*.json"}})


def line(key: str, amount: int = 1) -> str:
    return f"{key},{amount},2024-01-04T12:00:00Z,2024-01-05T06:00:00Z,insert,,1"


def put(sample: SampleLake, name: str, content: bytes) -> Path:
    path = Path(str(sample.lake.settings.landing), f"{DAY}", name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def entry(name: str, content: bytes, rows: int) -> dict[str, Any]:
    return {"file": name, "bytes": len(content), "rows": rows, "sha256": hashlib.sha256(content).hexdigest()}


def put_manifest(sample: SampleLake, *entries: dict[str, Any], name: str = "manifest.json") -> None:
    put(sample, name, json.dumps({"files": entries}).encode())


@pytest.mark.spark
def test_a_day_is_taken_as_a_whole_once_it_is_as_promised(lake, spark) -> None:
    sample = SampleLake(lake, PROMISED, spark)
    a, b = csv_file([line("a")]), gzip.compress(csv_file([line("b"), "broken", line("c")]))
    put_manifest(sample, entry("a.csv", a, 1), entry("b.csv.gz", b, 3))
    put(sample, "a.csv", a)
    put(sample, "b.csv.gz", b[:-20])
    report = sample.ingest(DAY)
    assert not report.ingested
    assert [held.source_file for held in report.held] == [f"{DAY}/b.csv.gz"]
    assert "the gzip stream breaks off" in str(report.held[0].message)
    assert sample.bronze() == []

    put(sample, "b.csv.gz", b)
    report = sample.ingest(DAY)
    assert [(taken.source_file, taken.rows, taken.malformed) for taken in report.ingested] == [
        (f"{DAY}/a.csv", 1, 0),
        (f"{DAY}/b.csv.gz", 3, 1),
    ]
    assert (report.held, report.waiting) == ([], [])
    assert sample.ingest(DAY).ingested == []

    put(sample, "a.csv", a).unlink()  # the sender tidies up, and sends more with a manifest of its own
    c = csv_file([line("d")])
    put(sample, "c.csv", c)
    assert sample.ingest(DAY).waiting == [f"{DAY}/c.csv: no manifest names it"]
    put_manifest(sample, entry("c.csv", c, 1), name="manifest-2.json")
    assert [taken.source_file for taken in sample.ingest(DAY).ingested] == [f"{DAY}/c.csv"]


@pytest.mark.spark
def test_a_file_that_is_known_by_name_counts_as_there_only_with_the_promised_content(lake, spark) -> None:
    sample = SampleLake(lake, PROMISED, spark)
    first, second = csv_file([line("a")]), csv_file([line("a", 2)])
    put(sample, "a.csv", first)
    put_manifest(sample, entry("a.csv", first, 1))
    assert len(sample.ingest(DAY).ingested) == 1
    put_manifest(sample, entry("a.csv", second, 1), entry("b.csv", first, 1))
    put(sample, "b.csv", first)
    assert sample.ingest(DAY).waiting[0] == f"{DAY}/manifest.json names {DAY}/a.csv, which is not there with that sha256"
    put(sample, "a.csv", second)
    report = sample.ingest(DAY)
    assert [taken.source_file for taken in report.ingested] == [f"{DAY}/a.csv"]
    assert [known.source_file for known in report.redelivered] == [f"{DAY}/b.csv"]


@pytest.mark.spark
def test_a_sensors_run_takes_the_files_that_it_names_and_a_persons_run_all_that_are_ready(lake, spark) -> None:
    sample = SampleLake(lake, contract(source=SOURCE), spark)
    bronze_of_events = bronze_asset(lake, Catalog({"events": sample.contract}), sample.contract)
    for name in ("a.csv", "b.csv"):
        put(sample, name, csv_file([line(name)]))
    states = {file.name: file.state for file in bronze_landing.listing(lake, sample.contract).files}

    def run(**config: Any) -> dict[str, Any]:
        done = dg.materialize(
            [bronze_of_events],
            partition_key=f"{DAY}",
            resources={"spark": dg.ResourceDefinition.hardcoded_resource(Session(spark))},
            run_config={"ops": {"bronze__events": {"config": config}}} if config else None,
        )
        (event,) = (one for one in done.asset_materializations_for_node("bronze__events") if one.asset_key.path[0] == "bronze")
        return {name: value.value for name, value in event.metadata.items()}

    assert run(files={})["left_for_now"].startswith(f"{DAY}/a.csv is left until it is stable, ")
    assert sample.bronze() == []
    told = run(files={name: states[name] for name in [f"{DAY}/b.csv"]})
    assert (told["files_ingested"], told["left_for_now"]) == (1, f"{DAY}/a.csv is left until it is stable")
    told = run()
    assert told["files_ingested"] == 1
    assert "left_for_now" not in told
    assert [row["source_file"] for row in sample.bronze()] == [f"{DAY}/a.csv", f"{DAY}/b.csv"]


class Session:
    """The resource of the assets, with a session that runs already."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    def expect(self, size: int) -> None:
        pass

    def session(self) -> Any:
        return self.spark


def test_a_file_that_grows_while_it_is_read_is_left(lake, monkeypatch) -> None:
    sample = SampleLake(lake, contract(source=SOURCE), None)  # type: ignore[arg-type]
    path = put(sample, "a.csv", csv_file([line("a")]))
    looked = bronze_landing.listing

    def and_then_somebody_wrote(*arguments: Any) -> bronze_landing.Listing:
        found = looked(*arguments)
        with path.open("a") as file:
            file.write(line("b") + "\n")
        return found

    monkeypatch.setattr(bronze_landing, "listing", and_then_somebody_wrote)
    report = Ingest(lake, sample.contract, lambda: pytest.fail("nothing is taken"), "run").day(DAY)
    size = path.stat().st_size
    assert report.waiting == [
        f"{DAY}/a.csv is being written: it has {size} bytes, and had {size - len(line('b')) - 1} just before"
    ]
    assert not [*report.ingested, *report.held]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_rows_are_counted_as_bronze_counts_them(lake, kind: str) -> None:
    source = contract(source=SOURCE | {"format": kind, "landing": "{arrival_date}/*.data"})
    sample = SampleLake(lake, source, None)  # type: ignore[arg-type]
    names, values = HEADER.split(","), line("a").split(",")
    if kind == "csv":
        content = csv_file([line("a"), "", "too,few", line("b")])
    elif kind == "json":
        content = gzip.compress(b'{"id": "a"}\n\nno json\n{"id": "b"}')
    else:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({name: [value] * 3 for name, value in zip(names, values)}), sink)
        content = sink.getvalue().to_pybytes()
    path = put(sample, "a.data", content)
    (file,) = bronze_landing.listing(lake, source).files
    delivery = DeliveredFile(file.name, "id", DAY, lake.now())
    in_bronze = sum(len(batch) for batch in reader.delivery_rows(lake, source, delivery, str(path)))
    assert bronze_landing.count_records(lake, source, file) == in_bronze == 3
