"""A lake of two sources, a metric over each, and a derived metric of both, driven by runs of its assets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import yaml

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts import Catalog, load_catalog
from lakehouse.contracts.series import Series
from lakehouse.orchestration.execution.catch_up import catch_up
from lakehouse.orchestration.execution.in_process import InProcess

if TYPE_CHECKING:
    from lakehouse.lake import Lake

NOW = datetime(2024, 1, 10, 12, tzinfo=timezone.utc)
MONDAY = date(2024, 1, 8)


def _source(name: str, *fields: str) -> dict[str, Any]:
    return {
        "dataset": name,
        "primary_key": ["id"],
        "model": {"fields": [{"name": one, "type": "int" if one == "amount" else "string"} for one in ("id", *fields)]},
        "source": {"landing": f"{name}_{{arrival_date}}*", "start_date": "2024-01-01"},
        "clocks": {"event": "event_time", "arrival": "arrived_at"},
    }


def _metric(name: str, source: str, measure: dict[str, Any]) -> dict[str, Any]:
    return {"metric": name, "source": source, "grain": ["store"], "measures": [measure], "publication": {"rollups": ["week"]}}


CONTRACTS = {
    "shop": _source("shop", "store", "amount"),
    "web": _source("web", "store"),
    "revenue": _metric("revenue", "shop", {"name": "sales", "sql": "sum(amount)", "type": "long", "additive": True}),
    "sessions": _metric("sessions", "web", {"name": "n", "sql": "count(*)", "type": "long", "additive": True}),
    "conversion": {
        "metric": "conversion",
        "from": ["revenue", "sessions"],
        "grain": ["store"],
        "measures": [{"name": "conversion", "sql": "revenue.sales / sessions.n", "type": "decimal(12,6)"}],
        "publication": {"rollups": ["week"]},
        "consumers": ["board"],
    },
}


def derived_catalog(folder: Path, **changes: dict[str, Any]) -> Catalog:
    """The contracts, written to a folder and loaded; ``changes`` by the name of a metric."""
    folder.mkdir(exist_ok=True)
    for name, content in CONTRACTS.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content | changes.get(name, {}), sort_keys=False), "utf-8")
    return load_catalog(folder, bundled=False)


@dataclass
class DerivedLake:
    """The lake."""

    lake: Lake
    instance: dg.DagsterInstance
    catalog: Catalog = field(init=False)

    def __post_init__(self) -> None:
        self.lake.settings.now = NOW
        self.catalog = derived_catalog(Path(f"{self.lake.settings.landing}").parent / "contracts")

    @property
    def layers(self) -> InProcess:
        """Runs of the assets."""
        return InProcess(self.lake, self.catalog, self.instance)

    def deliver(self, source: str, arrival: int, *rows: str) -> None:
        """A file of a day of January with lines ``key,event day,store`` and, of the shop, the amount; it is ingested."""
        names = {"shop": "id,event_time,store,amount,arrived_at", "web": "id,event_time,store,arrived_at"}
        lines = [names[source]]
        for row in rows:
            key, day, *others = row.split(",")
            lines.append(",".join([key, f"2024-01-{int(day):02}T06:00:00Z", *others, f"2024-01-{arrival:02}T12:00:00Z"]))
        name = f"{source}_2024-01-{arrival:02}_{rows[0].split(',')[0]}.csv"
        Path(f"{self.lake.settings.landing}", name).write_text("\n".join(lines) + "\n", "utf-8")
        self.layers.run(dg.AssetKey(["bronze", source]), [date(2024, 1, arrival)])

    def catch_up(self, source: str) -> dict[str, list[date]]:
        """Bring a source and its metrics up to date; the restated days by metric."""
        return dict(catch_up(self.lake, self.catalog, source, self.layers).restated)

    def published_week(self) -> None:
        """Two days and their week, of both sources."""
        self.deliver("shop", 10, "a,8,north,10", "b,8,south,4", "c,9,north,6")
        self.deliver("web", 10, "x,8,north", "y,8,north", "z,9,north")
        for source in ("shop", "web"):
            self.catch_up(source)

    def series(self, name: str, kind: Kind = Kind.DAY) -> Series:
        """A series of a metric."""
        return Series(self.catalog.metrics[name], kind)

    def numbers(self, name: str = "conversion", kind: Kind = Kind.DAY) -> dict[date, list[tuple[Any, ...]]]:
        """The newest numbers: of each period the revision, and the content of its rows."""
        series = self.series(name, kind)
        found = locations.gold(self.lake, series).read(None, {"is_latest": [True]})
        shown: dict[date, list[tuple[Any, ...]]] = {}
        for row in [] if found is None else sorted(found.to_pylist(), key=lambda row: f"{row['store']}"):
            shown.setdefault(row[series.by], []).append((row["revision"], *(row[column] for column in series.content)))
        return dict(sorted(shown.items()))
