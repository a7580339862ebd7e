"""The same project on a cluster and an object store: the tables are those of one machine and a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse.delta import row_writer
from lakehouse.lake import Table
from lakehouse_tests.support.cli import lakehouse_command
from lakehouse_tests.support.s3_server import s3_server
from lakehouse_tests.support.spark_cluster import spark_cluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.merge, pytest.mark.spark, pytest.mark.proof]

FIRST, LOADED, LATER = date(2024, 1, 1), date(2024, 1, 20), date(2024, 1, 21)
SOURCE = f"""
dataset: readings
primary_key: [reading_id]
source: {{landing: "{{arrival_date}}/*.csv", format: csv, start_date: {LOADED}}}
clocks: {{event: measured_at, arrival: received_at, start_date: {FIRST}}}
model:
  fields:
    - {{name: reading_id, type: string, required: true}}
    - {{name: region, type: string, required: true}}
    - {{name: kwh, type: "decimal(12,3)", required: true}}
quality:
  row_rules: [{{name: plausible, sql: kwh < 90, severity: quarantine}}]
"""
METRIC = """
metric: consumption
source: readings
grain: [region]
measures:
  - {name: kwh, sql: sum(kwh), type: "decimal(18,3)", additive: true}
  - {name: readings, sql: count(*), type: bigint, additive: true}
"""


def csv(arrived: date, numbers: range, plus: int = 0) -> bytes:
    """Readings of the days before an arrival; every hundredth line is malformed."""
    lines = ["reading_id,region,kwh,measured_at,received_at"]
    for number in numbers:
        measured = datetime(2024, 1, 1 + number % 15, number % 24, tzinfo=timezone.utc) + timedelta(seconds=number % 3_600)
        amount = "much" if number % 100 == 99 else f"{(number + plus) % 100}.5"
        lines.append(f"r{number:07},{'ns'[number % 2]},{amount},{measured:%Y-%m-%dT%H:%M:%SZ},{arrived}T06:00:00Z")
    return "\n".join([*lines, ""]).encode()


#: More than LOCAL_ROWS, so that tasks of the cluster parse, merge and read them; then corrections and new rows.
LOCAL_ROWS = "1000"
FILES = {
    f"{LOADED}/a.csv": csv(LOADED, range(15_000)),
    f"{LOADED}/b.csv": csv(LOADED, range(15_000, 30_000)),
    f"{LATER}/late.csv": csv(LATER, range(29_000, 30_500), plus=1),
}
TABLES = {
    "bronze/readings": ["source_file", "line_number", "record_key", "kwh", "malformed_reason"],
    "silver/readings": ["record_key", "event_date", "region", "kwh"],
    "ops/readings_dispositions": ["source_file", "line_number", "disposition", "because"],
    "gold/consumption": ["event_date", "region", "revision", "is_latest", "kwh", "readings"],
}


def tables(root: str, options: dict[str, str]) -> dict[str, list[tuple[Any, ...]]]:
    content = {}
    for name, columns in TABLES.items():
        rows = Table(f"{root}/{name}", options).read(columns, None)
        assert rows is not None
        content[name] = sorted(map(repr, rows.select(columns).to_pylist()))
    return content


@pytest.mark.timeout(900)
def test_a_replay_on_a_cluster_and_an_object_store_gives_the_same_tables(tmp_path: Path) -> None:
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    (contracts / "readings.yaml").write_text(SOURCE)
    (contracts / "consumption.yaml").write_text(METRIC)
    ours = {"LAKEHOUSE_CONTRACTS": f"{contracts}", "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
    for name, content in FILES.items():
        path = tmp_path / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    done = lakehouse_command(tmp_path, "replay", "readings", **ours, LAKEHOUSE_LANDING=f"{tmp_path}/landing")
    assert done.returncode == 0, done.stderr
    with s3_server(tmp_path) as store, spark_cluster(tmp_path, workers=2) as master:
        for name, content in FILES.items():
            store.put(f"landing/{name}", content)
        remote = {"LAKEHOUSE_ROOT": "s3://lake/tables", "LAKEHOUSE_LANDING": "s3://lake/landing"}
        remote |= {"LAKEHOUSE_STORAGE_OPTIONS": json.dumps(store.options), "LAKEHOUSE_LOCAL_ROWS": LOCAL_ROWS}
        done = lakehouse_command(tmp_path, "replay", "readings", "--json", **ours, **remote, LAKEHOUSE_SPARK_MASTER=master)
        assert done.returncode == 0, done.stderr
        days = [json.loads(line)["object_store"] for line in done.stdout.splitlines()]
        assert all({"listings", "commits"} <= day["ops/ingestions"].keys() for day in days), (
            "what is done in the store is counted"
        )
        assert tables("s3://lake/tables", store.options) == tables(f"{tmp_path}/lake", {})
    assert all(list((tmp_path / f"work{number}").glob("app-*/*/stderr")) for number in range(2)), "both workers had an executor"


APPENDS = """
import sys
from pyspark.sql import SparkSession
from lakehouse.lake import Lake
from lakehouse.spark import commits
from lakehouse.spark.session import local_options

lake, writer = Lake.open(), sys.argv[1]
builder = SparkSession.builder
for name, value in local_options(lake).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
for number in range(10):
    frame = spark.range(number, number + 1).selectExpr("id as number", f"'{writer}' as writer").coalesce(1)
    appended = lake.table("bronze", "appended")
    commits.append_alone(frame, appended, f"{writer}:{number}", appended.version(), {})
"""


@pytest.mark.timeout(600)
def test_two_drivers_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    with s3_server(tmp_path) as store:
        path, schema = "s3://lake/tables/bronze/appended", pa.schema([("number", pa.int64()), ("writer", pa.string())])
        row_writer.open_or_create(Table(path, store.options), schema, ["writer"])
        ours = {"LAKEHOUSE_ROOT": "s3://lake/tables", "LAKEHOUSE_SPARK_MASTER": "local[1]"}
        ours["LAKEHOUSE_STORAGE_OPTIONS"] = json.dumps(store.options)
        drivers = [subprocess.Popen([sys.executable, "-c", APPENDS, name], env=os.environ | ours) for name in ("one", "other")]
        assert [driver.wait() for driver in drivers] == [0, 0]
        rows = Table(path, store.options).read(["writer", "number"], None)
        assert rows is not None
        expected = [(name, number) for name in ("one", "other") for number in range(10)]
        assert sorted((row["writer"], row["number"]) for row in rows.to_pylist()) == expected
        leases = Table(f"{path}/_commit_lease", store.options).open()
        assert leases is not None
        assert leases.version() >= 40, "each commit took a lease and gave it back"
