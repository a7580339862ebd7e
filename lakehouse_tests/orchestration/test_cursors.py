"""A sensor with a cursor requests what one without requests, whatever happens to tables; when idle it reads only logs."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Literal

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.contracts import load_catalog
from lakehouse.contracts.loader import Catalog
from lakehouse.contracts.series import Series
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.publication import held_numbers, revisions
from lakehouse.gold.publication.candidates import Draft
from lakehouse.gold.publication.revisions import Signature
from lakehouse.lake import Lake, Table, table_io
from lakehouse.ledger import applied_inputs, decisions, ingestions, publications
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.publications import Restatement
from lakehouse.orchestration.automation.looks import Cursor
from lakehouse.settings import Settings
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.sensor_ticks import SensorTicks

BUNDLED = load_catalog(None)
SALES, REVENUE = BUNDLED.sources["sales"], BUNDLED.metrics["revenue"]
AT = datetime(2024, 11, 9, tzinfo=timezone.utc)
SENSORS = ("landing_sales", "reconcile_sales", "stewards_sales", "restate_revenue", "restate_revenue_weekly")
TABLES = (
    "ops/ingestions",
    "ops/applications",
    "ops/restatements",
    "bronze/sales_decisions",
    "silver/sales",
    "gold/revenue",
    "ops/reverts",
)
DAYS = [date(2024, 11, 4) + timedelta(days=number) for number in range(4)]


@dataclass
class Deployment:
    """Tables that things happen to, written as the product writes them; every name of :data:`HAPPENINGS` is a method."""

    lake: Lake
    kept: Path
    first: date = DAYS[0]
    count: int = 0
    days: list[date] = field(default_factory=lambda: list(DAYS))

    @property
    def catalog(self) -> Catalog:
        source = SALES.source.model_copy(update={"start_date": self.first})
        return Catalog({"sales": SALES.model_copy(update={"source": source})}, {"revenue": REVENUE})

    @property
    def daily(self) -> Series:
        return Series(self.catalog.metrics["revenue"])

    def day(self) -> date:
        self.count += 1
        return self.days[self.count % len(self.days)]

    def file(self) -> None:
        Path(str(self.lake.settings.landing), f"arrival_date={self.day()}.csv").write_text(f"{self.count}")

    def held(self) -> None:
        self.taken("held")

    def taken(self, status: Literal["ingested", "held"] = "ingested") -> None:
        """The ledger knows a file that lies in landing, or one that does not any more."""
        day = self.day()
        path = Path(str(self.lake.settings.landing), f"arrival_date={day}.csv")
        landed = path.stat() if path.is_file() else None
        entry = Ingestion(
            source="sales",
            ingestion_id=f"i{self.count}",
            content_hash=f"h{self.count}",
            arrival_date=day,
            source_file=path.name,
            bytes=landed.st_size if landed else 1,
            modified=datetime.fromtimestamp(landed.st_mtime, timezone.utc) if landed else None,
            status=status,
            run_id="run",
            recorded_at=AT,
            rows=1,
            touched_days=[day],
            touched_rows=[1],
        )
        ingestions.record(self.lake, entry)

    def applied(self) -> None:
        waiting = applied_inputs.pending(self.lake, "sales")
        ids = set().union(*waiting.values())
        applied_inputs.record(self.lake, "sales", run_id="run", days=waiting, ingestion_ids=ids, method="merge")

    def decided(self) -> None:
        day = self.day()
        decisions.record(
            self.lake, "sales", [Decision(f"i{self.count}", 1, "s", "accept", "anna", "seen", AT, touched_days=[day])]
        )

    def changed(self) -> None:
        day = self.day()
        row = {"record_key": f"{self.count}", "event_date": day, "event_ts": AT, "line_number": 1}
        rows = pa.Table.from_pylist([row], schema=arrow_schema(silver_columns(SALES)))
        exists = Path(locations.silver(self.lake, "sales").address).exists()
        write_deltalake(
            locations.silver(self.lake, "sales").address,
            rows,
            mode="append",
            partition_by=["event_date"],
            configuration=None if exists else {"delta.enableChangeDataFeed": "true"},
        )

    def compacted(self) -> None:
        """A commit that changes no row."""
        table = locations.silver(self.lake, "sales").open()
        if table is not None:
            table.optimize.compact()

    def followed(self) -> None:
        self._followed(self.daily, locations.silver(self.lake, "sales"))

    def followed_by_weeks(self) -> None:
        self._followed(self.daily.rollups[0], locations.gold(self.lake, self.daily))

    def _followed(self, series: Series, table: Table) -> None:
        publications.record_restatement(self.lake, Restatement(series.name, "run", AT, table.version(), 0, []))

    def published(self) -> None:
        day = self.day()
        counts = {name: pa.array([self.count]) for name in ("sales", "customers", "row_count")}
        rows = pa.table({"revenue": pa.array([self.count], pa.decimal128(18, 2)), **counts})
        table = locations.gold(self.lake, self.daily).snapshot()
        existing = None if table is None else table_io.read_version(table, None, {"event_date": [day]})
        drafts = [Draft(day, rows, State.LIVE, PublishAction.REVISION, RevisionReason.LATE_DATA)]
        revisions.publish(self.lake, self.daily, table, existing, drafts, Signature("run", "code", "contract", "id", AT))

    def released(self) -> None:
        """A day that was put back to an earlier revision may follow silver again."""
        held_numbers.keep_periods(self.lake, self.daily.name, {self.day(): "r1"}, "anna", "wrong feed")
        held_numbers.release_periods(self.lake, self.daily.name, self.days, "anna", "right after all")

    def another_contract(self) -> None:
        self.first = DAYS[-1] if self.first == DAYS[0] else DAYS[0]

    def keep(self) -> None:
        shutil.rmtree(self.kept, ignore_errors=True)
        if Path(self.lake.root).exists():
            shutil.copytree(self.lake.root, self.kept)

    def put_back(self) -> None:
        if self.kept.exists():
            shutil.rmtree(self.lake.root)
            shutil.copytree(self.kept, self.lake.root)

    def happens(self, happening: str) -> None:
        """One of :data:`HAPPENINGS`; a table's name is its loss."""
        if happening in TABLES:
            shutil.rmtree(Path(self.lake.root, happening), ignore_errors=True)
        else:
            getattr(self, happening)()


HAPPENINGS = (
    *("file", "taken", "held", "applied", "decided", "changed", "compacted", "followed", "followed_by_weeks", "published"),
    "released",
    *("another_contract", "keep", "put_back", *TABLES),
)


BETWEEN_TICKS = st.lists(st.sampled_from(HAPPENINGS), min_size=1, max_size=4)


@pytest.mark.merge
@law(100)
@example([["taken", "applied"], ["ops/ingestions", "taken"]])  # another table that has come as far
@example([["taken", "applied", "keep", "held"], ["put_back", "taken"]])  # the same one has, again
@example([["taken", "decided", "applied"], ["ops/applications"]])  # what was applied is forgotten
@example([["another_contract", "file"], ["another_contract"]])
@example([["file"], ["decided", "bronze/sales_decisions"]])  # decisions that are only in the journal
@example([["changed", "published", "followed"], ["released"]])
# Weeks follow days; then no row changes, what was followed is forgotten, and the numbers are lost.
@example([["changed", "published", "followed", "followed_by_weeks"], ["compacted"], ["ops/restatements", "gold/revenue"]])
@given(st.lists(BETWEEN_TICKS, max_size=5))
def test_memory_hides_nothing(happenings: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as scratch, dg.DagsterInstance.ephemeral() as instance:
        (Path(scratch) / "landing").mkdir()
        lake = Lake(Settings(root=f"{scratch}/lake", landing=f"{scratch}/landing", settle_seconds=0, reconcile_seconds=0))
        deployment = Deployment(lake, Path(scratch, "kept"))
        cursors = dict.fromkeys(SENSORS, "")
        for between_ticks in happenings:
            for happening in between_ticks:
                deployment.happens(happening)
            for name in SENSORS:
                remembering = SensorTicks(lake, deployment.catalog, name, instance, cursors[name])
                seen, found = remembering.tick(), SensorTicks(lake, deployment.catalog, name, instance).tick()
                assert (seen.run_requests, seen.skip_message) == (found.run_requests, found.skip_message)
                cursors[name] = remembering.cursor or ""


@pytest.mark.merge
def test_an_idle_tick_opens_logs_and_reads_nothing_more(deployment: Lake, instance: dg.DagsterInstance, tmp_path: Path) -> None:
    lived = Deployment(deployment, tmp_path / "kept")
    for happening in ("taken", "decided", "changed", "published", "applied", "followed", "compacted", "followed_by_weeks"):
        lived.happens(happening)
    sensors = [SensorTicks(deployment, lived.catalog, name, instance) for name in SENSORS]
    told = [sensor.skip_message() for sensor in sensors]
    for file in Path(deployment.root).rglob("*.parquet"):
        if "_delta_log" not in file.parts:
            file.unlink()
    assert [sensor.skip_message() for sensor in sensors] == told
    for name in SENSORS:
        assert re.search(r"(?i)no such file|not found", SensorTicks(deployment, lived.catalog, name, instance).skip_message())


def test_the_memory_of_another_release_is_read_as_none() -> None:
    for text in (None, "", "17", "[]", "not json", '{"seen": {"yesterday": "x"}}', '{"seen": 3}', "null"):
        assert Cursor.read(text) == Cursor()


def test_compaction_alone_is_nothing_to_follow(deployment: Lake, instance: dg.DagsterInstance, tmp_path: Path) -> None:
    lived = Deployment(deployment, tmp_path / "kept")
    for _ in range(9):
        lived.changed()
    lived.followed()
    sensor = SensorTicks(deployment, lived.catalog, "restate_revenue", instance)
    assert sensor.skip_message() == "gold follows silver"
    before = DeltaTable(locations.silver(deployment, "sales").address).version()
    lived.compacted()
    assert DeltaTable(locations.silver(deployment, "sales").address).version() > before
    assert sensor.skip_message() == "gold follows silver"
    lived.changed()
    assert len(sensor.run_requests()) == 1


def test_each_release_of_a_day_is_a_cause_of_its_own(deployment: Lake, instance: dg.DagsterInstance, tmp_path: Path) -> None:
    lived = Deployment(deployment, tmp_path / "kept")
    for happening in ("changed", "published", "followed"):
        lived.happens(happening)
    sensor = SensorTicks(deployment, lived.catalog, "restate_revenue", instance)
    assert sensor.skip_message() == "gold follows silver"
    lived.released()
    (first,) = sensor.run_requests()
    held_numbers.follow_reverts(deployment, "revenue", lived.days)
    assert sensor.skip_message() == "gold follows silver"
    lived.released()
    (second,) = sensor.run_requests()
    assert first.run_key != second.run_key
    assert first.tags["lakehouse/follows_silver/revenue"] == "revenue:0.2"
