"""A lake whose numbers are published day by day, and reproduced afterwards; for tests of rule R10."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import recompute, reproduce
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.silver import rebuild as silver_rebuild
from lakehouse_tests.support.lake import SampleLake, contract, csv_file

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.reproduction.reproduce import Reproduced
    from lakehouse.lake import Lake

TOTAL = {"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}
BIGGEST = {"name": "biggest", "sql": "max(amount)", "type": "long"}
KEYS = {"name": "keys", "sql": "count(distinct id)", "type": "long"}
WEEK_WATERMARK: dict[str, Any] = {"lateness": {"watermark": "P7D", "beyond": "quarantine"}}


def metric(name: str, *measures: dict[str, Any], **changes: Any) -> MetricContract:
    return MetricContract.model_validate({"metric": name, "source": "events", "measures": [*measures], **changes})


METRICS = [
    metric("total", TOTAL, BIGGEST),
    metric("trailing", TOTAL, KEYS, window=3),
    metric("by_colour", TOTAL, BIGGEST, grain=["colour"]),
]
#: Every feature in two.
TWO_METRICS = [METRICS[0], metric("trailing_by_colour", TOTAL, KEYS, BIGGEST, window=2, grain=["colour"])]


def source_with_colour(**changes: Any) -> SourceContract:
    """The lake's source with a column for a grain."""
    names = {"id": "string", "amount": "int", "colour": "string"}
    fields = [{"name": name, "type": kind, "column": "seq" if name == "colour" else None} for name, kind in names.items()]
    return contract(model={"fields": fields}, **changes)


@dataclass
class ReproducibleLake:
    """A lake whose numbers are published day by day."""

    sample: SampleLake
    metrics: list[MetricContract] = field(default_factory=lambda: METRICS)

    @property
    def lake(self) -> Lake:
        return self.sample.lake

    @property
    def catalog(self) -> Catalog:
        return Catalog({"events": self.sample.contract}, {one.metric: one for one in self.metrics})

    def at(self, day: int, hour: int = 23) -> None:
        self.lake.settings.now = datetime.combine(date(2024, 2, 1), time(hour), timezone.utc) + timedelta(days=day - 1)

    def deliver(self, day: int, *lines: str) -> None:
        """Lines ``key,amount,event day of February,op,corrects,colour`` that arrive on a day of February."""
        self.at(day)
        rows = []
        for line in lines:
            key, amount, event, op, corrects, colour = line.split(",")
            when = f"2024-02-{int(event):02}T06:00:00Z" if event else ""
            rows.append(f"{key},{amount},{when},2024-02-{day:02}T12:00:00Z,{op},{corrects},{colour}")
        self.sample.deliver(date(2024, 2, day), csv_file(rows), f".{lines[0].replace(',', '-')}.csv")
        self.sample.ingest(date(2024, 2, day))

    def publish(self, days: Collection[date] | None = None) -> None:
        """Bring silver up to date on some days, by default all that wait, and publish what that changed."""
        waiting = set(self.sample.pending()) if days is None else set(days)
        if waiting:
            self.sample.update(waiting)
        for one in self.metrics:
            series = Series(one)
            recompute.remember_contract(self.lake, one, self.sample.contract)
            pending = find_pending(self.lake, series)
            asked = {*pending.starts, *find_due(self.lake, self.sample.contract, series)}
            restatement_days.restate(
                self.lake, self.sample.contract, series, lambda: self.sample.spark, asked, Run("run"), pending
            )

    def rebuild(self, changed: SourceContract) -> silver_rebuild.PlannedRebuild:
        """Judge all rows again under a changed contract."""
        self.sample.contract = changed
        year = silver_rebuild.RebuildRange(date(2024, 1, 1), date(2024, 12, 31))
        return silver_rebuild.plan_rebuild(
            self.lake, self.sample.contract, lambda: self.sample.spark, year, reason="mended", runner_id="anna"
        )

    def revisions(self, metric: MetricContract) -> list[tuple[date, int, int | None]]:
        found = locations.gold(self.lake, Series(metric)).read(["event_date", "revision", "adjustment"])
        return sorted({tuple(row.values()) for row in found.to_pylist()}, key=str) if found is not None else []

    def reproduce(self, metric: MetricContract, day: date, revision: int, adjustment: int | None = None) -> Reproduced:
        return reproduce.reproduce(self.lake, self.catalog, Series(metric), day, revision, lambda: self.sample.spark, adjustment)

    def reproduce_all(self) -> list[Reproduced]:
        return [self.reproduce(one, *revision) for one in self.metrics for revision in self.revisions(one)]

    def vacuum(self) -> None:
        """Take everything away but the newest version of each table, and all of it but Bronze."""
        tables = [path.parent for path in Path(self.lake.root).glob("*/*/_delta_log") if path.parent.name != "events_keys"]
        keys = DeltaTable(self.lake.table("ops", "events_keys").address)
        keys.optimize.compact()
        keys.vacuum(0, enforce_retention_duration=False, dry_run=False)
        for path in tables:
            if path != Path(self.lake.table("bronze", "events").address):
                DeltaTable(path).vacuum(0, enforce_retention_duration=False, dry_run=False)


def reproducible_lake(lake: Lake, spark: Any, metrics: list[MetricContract] | None = None, **changes: Any) -> ReproducibleLake:
    return ReproducibleLake(SampleLake(lake, source_with_colour(**changes), spark), metrics or METRICS)
