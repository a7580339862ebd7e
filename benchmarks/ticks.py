"""What a tick of each sensor and schedule costs: with 1,000 days waiting, and with nothing to do.

    python benchmarks/ticks.py [--days 1000] [--files 10000] [--rounds 5]

Two deployments of the demo's sales are written by delta-rs, with so many published event days, so many landing files that were
taken long ago, and a Dagster home with runs and events of its own. In one of them nothing is to do; in the other as many days
wait for each sensor and schedule that starts runs. Each tick is taken in a fresh process with the cursor that the tick before it
left, and timed from behind the imports to its answer. Printed are medians as a table; a tick that starts a JVM is an error.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import yaml
from deltalake import write_deltalake
from pyspark import SparkContext

from lakehouse import locations
from lakehouse.contracts import Catalog, load_catalog
from lakehouse.contracts.loader import bundled_folder
from lakehouse.contracts.series import Series
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.publication import revisions
from lakehouse.gold.publication.candidates import Draft
from lakehouse.gold.publication.revisions import Signature
from lakehouse.lake import Lake, table_io
from lakehouse.ledger import applied_inputs, decisions, ingestions, publications
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.publications import Restatement
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.orchestration.build import definitions_of
from lakehouse.orchestration.resources import LakeTables
from lakehouse.settings import Settings

FIRST = date(2021, 1, 1)
LONG_AGO = datetime(2025, 1, 1, tzinfo=timezone.utc)
SALES_A_DAY = 20
AUTOMATION = "late_partitions"
#: What starts runs for data, and what looks at everything; others tell consumers, or look after tables.
MEASURED = ("landing", "reconcile", "stewards", "restate", "close", AUTOMATION, "alerts")
TIMES = ("seconds", "cpu")


def main() -> None:
    """Build both deployments and measure each tick; or, in a process of its own, take the one that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=1000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--take", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.take:
        print(json.dumps(taken(arguments.take, arguments.folder)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        waiting, idle = Path(scratch, "waiting"), Path(scratch, "idle")
        for folder in (waiting, idle):
            Built(folder, arguments.days, arguments.files, waiting=folder == waiting)
            print(f"{folder.name}: built", file=sys.stderr)
        print("| tick | days wait: seconds (CPU) | it asks for | nothing to do: seconds (CPU) |\n| --- | --- | --- | --- |")
        for name in (one for one in ticks(idle) if one.startswith(MEASURED)):
            some, none = (measured(name, folder, arguments.rounds) for folder in (waiting, idle))
            if none["asks"]:
                sys.exit(f"{name} should have nothing to do, and asks for {none['asks']}")
            told = [f"{one['seconds']:.2f} ({one['cpu']:.2f})" for one in (some, none)]
            print(f"| `{name}` | {told[0]} | {some['asks']} | {told[1]} |", flush=True)


def deployment(folder: Path) -> tuple[Lake, Catalog]:
    """The lake and contracts of a deployment."""
    lake = Lake(Settings(root=f"{folder}/lake", landing=f"{folder}/landing", contracts=folder / "contracts", reconcile_seconds=0))
    return lake, load_catalog(lake.settings.contracts, bundled=False)


def ticks(folder: Path) -> list[str]:
    """The names of all that ticks."""
    definitions = definitions_of(*deployment(folder))
    return [one.name for one in (*(definitions.sensors or ()), *(definitions.schedules or ()))]


def measured(name: str, folder: Path, rounds: int) -> dict[str, Any]:
    """The medians of some ticks; the first one of a file's two looks, and the first of a new deployment, are not among them."""
    ticks = []
    for _ in range(rounds + 1):
        command = [sys.executable, __file__, "--take", name, "--folder", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name} failed: {done.stderr[-2000:]}")
        ticks.append(json.loads(done.stdout.splitlines()[-1]))
    return ticks[-1] | {one: statistics.median(tick[one] for tick in ticks[1:]) for one in TIMES}


def taken(name: str, folder: Path) -> dict[str, Any]:
    """Take one tick in this process."""
    definitions = definitions_of(*deployment(folder))
    memory = folder / f"{name}.cursor"
    with dg.DagsterInstance.from_config(str(folder / "dagster_home")) as instance, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == AUTOMATION:
            tick = automation_taken(definitions, instance, touched(folder) if folder.name == "waiting" else [])
        elif name == "close":
            now, whole = datetime.now(timezone.utc), definitions.get_repository_def()
            schedule = definitions.get_schedule_def(name)
            tick = timed(schedule.evaluate_tick, dg.build_schedule_context(instance, now, repository_def=whole))
        else:
            cursor = memory.read_text() if memory.is_file() else None
            sensor = definitions.get_sensor_def(name)
            resources = {"tables": LakeTables()}
            context = dg.build_sensor_context(instance, cursor, definitions=definitions, resources=resources)
            tick = timed(sensor.evaluate_tick, context)
            memory.write_text(tick.pop("cursor") or "")
    if SparkContext._gateway is not None:
        sys.exit(f"{name} has started a JVM")
    return tick


def timed(evaluate: Any, context: Any) -> dict[str, Any]:
    """What a tick answered, and what it took."""
    start, cpu = time.perf_counter(), time.process_time()
    data = evaluate(context)
    times = dict(zip(TIMES, (time.perf_counter() - start, time.process_time() - cpu)))
    runs = data.run_requests or []
    about = sum(len(of_asset["config"]["days"]) for run in runs for of_asset in run.run_config["ops"].values())
    asks = f"{len(runs)} runs, {about} partitions" if runs else ""
    return {**times, "asks": asks, "cursor": getattr(data, "cursor", None)}


def touched(folder: Path) -> list[date]:
    """The event days of the deployment."""
    found = deployment(folder)[0].table("silver", "sales").read(["event_date"])
    return sorted(set(found["event_date"].to_pylist()))


def automation_taken(definitions: dg.Definitions, instance: dg.DagsterInstance, days: list[date]) -> dict[str, Any]:
    """Evaluate the policies once to know what there is, let arrivals touch ``days``, and time the next evaluation."""
    first = dg.evaluate_automation_conditions(definitions, instance)
    for day in days:
        instance.report_runless_asset_event(dg.AssetMaterialization(["arrivals", "sales"], partition=f"{day}"))
    start, cpu = time.perf_counter(), time.process_time()
    second = dg.evaluate_automation_conditions(definitions, instance, cursor=first.cursor)
    times = dict(zip(TIMES, (time.perf_counter() - start, time.process_time() - cpu)))
    return {**times, "asks": f"{second.total_requested} partitions" if second.total_requested else ""}


class Built:
    """A deployment with ``days`` published event days and ``files`` known landing files; all of it ``waiting``, or not."""

    def __init__(self, folder: Path, days: int, files: int, *, waiting: bool) -> None:
        self.random = random.Random(7)
        self.days = [FIRST + timedelta(days=number) for number in range(days)]
        self._contracts(folder)
        self.lake, self.catalog = deployment(folder)
        self.home = folder / "dagster_home"
        self.sales = self.catalog.sources["sales"]
        self.daily = Series(self.catalog.metrics["revenue"])
        Path(str(self.lake.settings.landing)).mkdir(parents=True)
        self.home.mkdir()
        self.known_files(files)
        self.silver(0)
        self.gold(1, State.LIVE if waiting else State.FINAL, [self.daily, *self.daily.rollups])
        self.follow()
        self.dagster()
        if waiting:
            self.new_files()
            self.ingestions_without_silver()
            self.decisions()
            self.silver(1)
            self.gold(2, State.LIVE, [self.daily])

    def _contracts(self, folder: Path) -> None:
        (folder / "contracts").mkdir(parents=True)
        for name in ("sales", "revenue"):
            said = yaml.safe_load((bundled_folder() / f"{name}.yaml").read_text())
            if "source" in said and isinstance(said["source"], dict):
                said["source"]["start_date"] = FIRST
            (folder / "contracts" / f"{name}.yaml").write_text(yaml.safe_dump(said))

    def _file(self, name: str) -> tuple[int, datetime]:
        path = Path(str(self.lake.settings.landing), name)
        path.write_text(name)
        os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
        return path.stat().st_size, LONG_AGO

    def _entries(self, entries: list[Ingestion], commits: int) -> None:
        """Written in some commits: each delivery has one of its own, and the ledger is compacted now and then."""
        share = max(1, len(entries) // commits)
        for begin in range(0, len(entries), share):
            ingestions.log(self.lake).append(entries[begin : begin + share])

    def _ingestion(self, number: int, touched: list[date], **about: Any) -> Ingestion:
        said = {"source": "sales", "ingestion_id": f"i{number}", "content_hash": f"h{number}", "bytes": 10, "modified": LONG_AGO}
        said |= {"status": "ingested", "run_id": "run", "recorded_at": LONG_AGO, "rows": len(touched), "source_file": f"{number}"}
        said |= {"arrival_date": self.days[number % len(self.days)], "touched_days": touched, "touched_rows": [1] * len(touched)}
        return Ingestion(**said | about)

    def known_files(self, files: int) -> None:
        """Files that were taken long ago, each about three event days, which silver has applied."""
        entries = []
        for number in range(files):
            arrival = self.days[number % len(self.days)]
            name = f"arrival_date={arrival}.{number}.csv"
            size, modified = self._file(name)
            touched = sorted(self.random.sample(self.days, 3))
            entries.append(self._ingestion(number, touched, source_file=name, bytes=size, modified=modified))
        self._entries(entries, 80)
        for begin in range(0, files, max(1, files // 80)):
            own = entries[begin : begin + max(1, files // 80)]
            days = {day for entry in own for day in entry.touched_days}
            ids = [entry.ingestion_id for entry in own]
            applied_inputs.record(self.lake, "sales", run_id="run", days=days, ingestion_ids=ids, method="merge")

    def new_files(self) -> None:
        for day in self.days:
            self._file(f"arrival_date={day}.new.csv")

    def ingestions_without_silver(self) -> None:
        """One for each event day, with a name that landing does not know, so that the landing sensor has its own work only."""
        self._entries([self._ingestion(10**6 + number, [day]) for number, day in enumerate(self.days)], 20)

    def decisions(self) -> None:
        for begin in range(0, len(self.days), 20):
            decided = [
                Decision(
                    f"i{number}",
                    2,
                    f"s{number}",
                    StewardVerdict.ACCEPT,
                    "anna",
                    f"seen {begin}",
                    LONG_AGO,
                    touched_days=[self.days[number]],
                )
                for number in range(begin, min(begin + 20, len(self.days)))
            ]
            decisions.record(self.lake, "sales", decided)

    def silver(self, version: int) -> None:
        """Some sales on each day, as a rebuild of all days would write them: a file a day."""
        schema = arrow_schema(silver_columns(self.sales))
        rows = []
        for day in self.days:
            at = datetime.combine(day, datetime.min.time(), timezone.utc)
            for sale in range(SALES_A_DAY if version == 0 else 1):
                key = f"{version}-{day}-{sale}"
                rows.append(
                    {"record_key": key, "sale_id": key, "store": "north", "event_ts": at, "event_date": day, "line_number": 2}
                )
        stored = locations.silver(self.lake, "sales")
        properties = {"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "100"}
        table = pa.Table.from_pylist(rows, schema=schema)
        write_deltalake(
            stored.address,
            table,
            mode="append",
            partition_by=["event_date"],
            configuration=properties if version == 0 else None,
        )

    def gold(self, number: int, state: State, series: list[Series]) -> None:
        """Publish a number of each period; where days are alone in it, their weeks and months wait."""
        for followed in series:
            starts = sorted({followed.period(day).start for day in self.days})
            numbers = {name: pa.array([number]) for name in ("sales", "customers", "row_count")}
            rows = pa.table({"revenue": pa.array([number], pa.decimal128(18, 2)), **numbers})
            drafts = [Draft(start, rows, state, PublishAction.REVISION, RevisionReason.LATE_DATA) for start in starts]
            table = locations.gold(self.lake, followed).snapshot()
            existing = None if table is None else table_io.read_version(table)
            revisions.publish(self.lake, followed, table, existing, drafts, Signature("run", "code", "contract", "id", LONG_AGO))

    def follow(self) -> None:
        """Remember that gold and its roll-ups have followed."""
        followed = locations.silver(self.lake, "sales").version()
        for one in (self.daily, *self.daily.rollups):
            version = locations.gold(self.lake, one).version()
            publications.record_restatement(self.lake, Restatement(one.name, "run", LONG_AGO, followed, version, self.days))
            followed = locations.gold(self.lake, self.daily).version()

    def dagster(self) -> None:
        """A year of runs, and what arrivals and silver were told."""
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            for number in range(2000):
                tags = {"lakehouse/lands/sales": f"sales:{self.days[number % len(self.days)]}:{number}", "dagster/partition": "x"}
                selection = frozenset({dg.AssetKey(["bronze", "sales"])})
                instance.add_run(
                    dg.DagsterRun(
                        job_name="__ASSET_JOB", tags=tags, asset_selection=selection, status=dg.DagsterRunStatus.SUCCESS
                    )
                )
            for layer in ("arrivals", "silver"):
                for day in self.days:
                    instance.report_runless_asset_event(dg.AssetMaterialization([layer, "sales"], partition=f"{day}"))


if __name__ == "__main__":
    main()
