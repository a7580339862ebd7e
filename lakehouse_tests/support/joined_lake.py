"""A small lake whose facts belong to customers; metrics count the facts by attributes of the customers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.contracts import Catalog
from lakehouse.contracts.loader import completed
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.contracts.source import SourceContract
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import recompute
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse_tests.support import interval_tables
from lakehouse_tests.support.lake import SampleLake, contract, csv_file

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lakehouse.gold.publication.write_audit_publish import PublishResult
    from lakehouse.gold.restatement.pending import PendingRestatement
    from lakehouse.lake import Lake

FIRST = date(2024, 2, 1)
#: Tier, region and level of a customer.
Attributes = tuple[str | None, str | None, int | None]
TOTAL = {"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}
JOIN = {"dimension": "customers", "on": "customer", "columns": ["tier"]}


def facts(**changes: Any) -> SourceContract:
    """Events with an amount and a customer."""
    names = {"id": "string", "amount": "int", "customer": "string"}
    fields = [{"name": name, "type": kind, "column": "seq" if name == "customer" else None} for name, kind in names.items()]
    return contract(model={"fields": fields}, **changes)


def dimension(name: str, **fields: str) -> SourceContract:
    """A dimension whose key is its first field."""
    return SourceContract.model_validate(
        {
            "dataset": name,
            "kind": "dimension",
            "primary_key": [next(iter(fields))],
            "model": {"fields": [{"name": field, "type": kind} for field, kind in fields.items()]},
            "source": {"start_date": "2024-01-01"},
            "clocks": {"event": "changed_at", "arrival": "arrived_at"},
            "dimension": {"buckets": 4},
        }
    )


CUSTOMERS = dimension("customers", customer_id="string", tier="string", region="string", level="int")
REGIONS = dimension("regions", region_id="string", manager="string")


def metric(name: str = "spend", **changes: Any) -> MetricContract:
    fields = {"metric": name, "source": "events", "joins": [JOIN], "grain": ["tier"], "measures": [TOTAL]}
    return MetricContract.model_validate({**fields, **changes})


def moment(day: float) -> datetime:
    """A time on a day of February, from 1."""
    return datetime(2024, 2, 1, tzinfo=timezone.utc) + timedelta(days=day - 1)


@dataclass
class JoinedLake:
    """Facts in a lake, and the intervals of dimensions written by hand."""

    sample: SampleLake
    metrics: list[MetricContract]
    dimensions: list[SourceContract] = field(default_factory=lambda: [CUSTOMERS, REGIONS])
    delivered: int = 0

    def __post_init__(self) -> None:
        self.metrics = [completed(definition, self.sources) for definition in self.metrics]

    @property
    def lake(self) -> Lake:
        return self.sample.lake

    @property
    def sources(self) -> dict[str, SourceContract]:
        return {"events": self.sample.contract, **{definition.dataset: definition for definition in self.dimensions}}

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.sources, {definition.name: definition for definition in self.metrics})

    def session(self) -> Any:
        return self.sample.spark

    def deliver(self, arrives: int, *lines: str) -> None:
        """Facts ``key,amount,day of February,customer`` (days with a fraction) that arrive on a day of February."""
        self.lake.settings.now = moment(arrives + 0.9) + timedelta(minutes=self.delivered)
        self.delivered += 1
        rows = []
        for line in lines:
            key, amount, event, customer, *op = line.split(",")
            when = moment(float(event)).isoformat().replace("+00:00", "Z")
            rows.append(f"{key},{amount},{when},{moment(arrives + 0.5).isoformat()},{op[0] if op else ''},,{customer}")
        arrival = moment(arrives).date()
        self.sample.deliver(arrival, csv_file(rows), f".{self.delivered}.csv")
        self.sample.ingest(arrival)
        self.sample.update()

    def customer(self, key: str, *changes: tuple[float, Attributes | None]) -> None:
        """Write the intervals of a customer: from which day on it has which attributes; None ends the customer."""
        ends = [moment(day) for day, _ in changes[1:]] + [None]
        rows = [
            {"customer_id": key, **dict(zip(("tier", "region", "level"), value)), "valid_from": moment(day), "valid_to": end}
            for (day, value), end in zip(changes, ends)
            if value is not None
        ]
        interval_tables.write(self.lake, CUSTOMERS, key, rows)

    def region(self, key: str, *changes: tuple[float, str]) -> None:
        """Write the intervals of a region: from which day on who manages it."""
        ends = [moment(day) for day, _ in changes[1:]] + [None]
        rows = [
            {"region_id": key, "manager": manager, "valid_from": moment(day), "valid_to": end}
            for (day, manager), end in zip(changes, ends)
        ]
        interval_tables.write(self.lake, REGIONS, key, rows)

    def pending(self, definition: MetricContract | None = None) -> PendingRestatement:
        return find_pending(self.lake, Series(definition or self.metrics[0]))

    def publish(self, days: Collection[date] = ()) -> list[set[int]]:
        """Publish what is pending, or some more days; per metric the days of February that got a new number."""
        return [{day_of(start) for start in done.days} for done in self.publications(days)]

    def publications(self, days: Collection[date] = ()) -> list[PublishResult]:
        done = []
        for definition in self.metrics:
            recompute.remember_contract(self.lake, definition, self.sample.contract)
            pending, series = self.pending(definition), Series(definition)
            wanted = {*pending.starts, *days}
            source = self.sample.contract
            done.append(restatement_days.restate(self.lake, source, series, self.session, wanted, Run("run"), pending))
        return done

    def published(self, definition: MetricContract | None = None, measure: str = "total") -> dict[int, dict[Any, Any]]:
        """What readers see: per day of February and grain the measure."""
        definition = definition or self.metrics[0]
        numbers = locations.gold(self.lake, Series(definition)).read()
        shown: dict[int, dict[Any, Any]] = {}
        for row in [] if numbers is None else numbers.to_pylist():
            if row["is_latest"] and row["row_count"]:
                grain = tuple(row[name] for name in definition.grain)
                shown.setdefault(day_of(row["event_date"]), {})[grain[0] if len(grain) == 1 else grain] = row[measure]
        return shown


def day_of(start: date) -> int:
    return (start - FIRST).days + 1


def joined_lake(lake: Lake, spark: Any, *metrics: MetricContract, **source: Mapping[str, Any]) -> JoinedLake:
    return JoinedLake(SampleLake(lake, facts(**source), spark), [*metrics] or [metric()])
