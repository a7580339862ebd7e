"""A partner's feed whose numbers are published, and a corrected feed that is staged; for tests of stages."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.contracts.loader import completed
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.orchestration.execution.catch_up import catch_up
from lakehouse.orchestration.execution.in_process import InProcess
from lakehouse.orchestration.execution.stage_promotion import StagePromotion
from lakehouse.stages import staging
from lakehouse.stages.staging import StageRequest
from lakehouse_tests.support.lake import contract, csv_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import dagster as dg
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse.orchestration.execution.stage_promotion import PromotedStage
    from lakehouse.stages.stage_log import Stage

NOW = datetime(2024, 1, 20, 12, tzinfo=timezone.utc)
WEEK = [date(2024, 1, 8) + timedelta(days=number) for number in range(7)]
_PUBLICATION = {"rollups": ["week"], "after_close": "restate"}
_MEASURES = [
    {"name": "total", "sql": "sum(amount)", "type": "long", "additive": True},
    {"name": "sales", "sql": "count(*)", "type": "long", "additive": True},
]


def feed_catalog(source: Mapping[str, Any] | None = None, **metric: Any) -> Catalog:
    """A source and a metric over it, with weeks."""
    fields = {"metric": "totals", "source": "events", "measures": _MEASURES, "publication": _PUBLICATION, "consumers": ["books"]}
    events = contract(**(source or {}))
    made = completed(MetricContract.model_validate({**fields, **metric}), {"events": events})
    return Catalog({"events": events}, {made.name: made})


@dataclass
class PartnerFeed:
    """A lake of one source, driven by runs of its assets."""

    lake: Lake
    instance: dg.DagsterInstance
    spark: SparkSession
    catalog: Catalog = field(default_factory=feed_catalog)

    def deliver(self, arrival: date, rows: Sequence[str], folder: Path | None = None, suffix: str = "") -> None:
        """A file with lines ``key,amount,event day of January``; in landing, or in a folder of a feed."""
        target = folder or Path(f"{self.lake.settings.landing}")
        target.mkdir(parents=True, exist_ok=True)
        lines = []
        for row in rows:
            key, amount, day = row.split(",")
            lines.append(f"{key},{amount},2024-01-{int(day):02}T06:00:00Z,{arrival}T12:00:00Z,insert,,0")
        (target / f"arrival_date={arrival}{suffix}.csv").write_bytes(csv_file(lines))

    def publish(self, *arrivals: date) -> None:
        """Ingest arrival days, and bring silver and gold up to date."""
        import dagster as dg  # noqa: PLC0415

        layers = InProcess(self.lake, self.catalog, self.instance)
        if arrivals:
            layers.run(dg.AssetKey(["bronze", "events"]), list(arrivals))
        catch_up(self.lake, self.catalog, "events", layers)

    def stage(self, name: str, *files: Path, **changes: Any) -> Stage:
        request = StageRequest(name=name, source="events", by="anna", reason="partner feed v1.3", files=files, **changes)
        return staging.create(self.lake, self.catalog, lambda: self.spark, request, "run")

    def promotion(self) -> StagePromotion:
        return StagePromotion(self.lake, self.catalog, self.instance, lambda: self.spark)

    def promote(self, name: str, by: str = "ben", sign_off: str | None = None) -> PromotedStage:
        return self.promotion().promote(name, by, "approved", sign_off)

    def numbers(self, series: Series | None = None) -> dict[date, tuple[int, str, str]]:
        """The newest number of each period: total, reason of its revision, state."""
        wanted = series or Series(*self.catalog.metrics.values())
        columns = [wanted.by, "total", "reason", "state"]
        found = locations.gold(self.lake, wanted).read(columns, {"is_latest": [True]})
        rows = [] if found is None else found.to_pylist()
        return {
            row[wanted.by]: (row["total"], row["reason"], row["state"]) for row in sorted(rows, key=lambda row: row[wanted.by])
        }

    def totals(self, series: Series | None = None) -> list[int]:
        return [number[0] for number in self.numbers(series).values()]

    @property
    def weekly(self) -> Series:
        return Series(*self.catalog.metrics.values()).rollups[0]

    def silver(self) -> list[tuple[Any, ...]]:
        found = locations.silver(self.lake, "events").read(["event_date", "record_key", "amount"])
        return sorted(tuple(row.values()) for row in found.to_pylist()) if found is not None else []


@contextmanager
def polled(read: Callable[[], Any]) -> Iterator[list[Any]]:
    """Read again and again in another thread; yields the different states in the order in which they were seen."""
    states: list[Any] = []
    problems: list[BaseException] = []
    ended = threading.Event()

    def poll() -> None:
        while True:
            last = ended.is_set()  # one more time after the end
            try:
                state = read()
            except BaseException as problem:  # noqa: BLE001 - raised again by the thread of the test
                problems.append(problem)
                return
            if not states or states[-1] != state:
                states.append(state)
            if last:
                return

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield states
    finally:
        ended.set()
        thread.join()
    if problems:
        raise problems[0]
