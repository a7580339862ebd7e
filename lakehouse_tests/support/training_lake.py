"""Payments of customers, and labels that come later, in a small lake; and the plain model of the training set made of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts import Catalog, TrainingSetContract
from lakehouse.contracts.loader import completed
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.contracts.source import SourceContract
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import recompute
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs
from lakehouse.silver import update as silver_update

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakehouse.lake import Lake

START = datetime(2024, 2, 1, tzinfo=timezone.utc)
MATURITY = timedelta(days=3)
COLUMNS = {
    "payments": {"payment_id": "string", "customer_id": "string", "country": "string", "amount": "int"},
    "customers": {"customer_id": "string", "tier": "string"},
    "labels": {"payment_id": "string", "is_fraud": "int"},
}
_SET = {
    "training_set": "training_data",
    "entity": {"source": "payments"},
    "features": {
        "columns": ["amount", {"name": "is_large", "sql": "amount > 2", "type": "boolean"}],
        "joins": [{"dimension": "customers", "on": "customer_id", "columns": ["tier"]}],
        "metrics": [{"metric": "spend", "on": {"country": "country"}, "columns": [{"total": "country_total"}]}],
    },
    "label": {"source": "labels", "on": "payment_id", "sql": "max(is_fraud)", "default": 0, "maturity": "P3D"},
    "split": {"fit": "2024-02-01", "test": "2024-02-04"},
}


def moment(days: float) -> datetime:
    """A time, in days since the first of February."""
    return START + timedelta(days=days)


def source(name: str) -> SourceContract:
    """The contract of a source."""
    fields = [{"name": column, "type": kind} for column, kind in COLUMNS[name].items()]
    keys: dict[str, Any] = {
        "dataset": name,
        "primary_key": [next(iter(COLUMNS[name]))],
        "model": {"fields": fields},
        "source": {"landing": f"{name}.arrival_date={{arrival_date}}*", "start_date": "2024-01-01"},
        "clocks": {"event": "at", "arrival": "arrived_at", "max_ahead": "P99D"},
        "changes": {"op": "op"},
    }
    return SourceContract.model_validate(keys | ({"kind": "dimension"} if name == "customers" else {}))


def spend() -> MetricContract:
    """What is paid in a country on a day."""
    measure = {"name": "total", "sql": "sum(amount)", "type": "bigint", "additive": True}
    return MetricContract.model_validate({"metric": "spend", "source": "payments", "grain": ["country"], "measures": [measure]})


def training_set(**changes: Any) -> TrainingSetContract:
    """The contract of the set."""
    return TrainingSetContract.model_validate({**_SET, **changes})


@dataclass(frozen=True)
class Said:
    """A record: at what time in days it happened and arrived, and what it says; a deleted one says nothing."""

    source: str
    key: str
    at: float
    arrives: float
    values: tuple[Any, ...] = ()
    op: str = "insert"


@dataclass
class TrainingLake:
    """Deliveries into a lake, each followed by its publication, and the same as a list."""

    lake: Lake
    spark: Any
    contract: TrainingSetContract = field(default_factory=training_set)
    records: list[Said] = field(default_factory=list)
    published: list[tuple[datetime, dict[date, dict[str, int]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sources = {name: source(name) for name in COLUMNS}
        self.metric = completed(spend(), self.sources)

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.sources, {"spend": self.metric}, {self.contract.name: self.contract})

    def session(self) -> Any:
        return self.spark

    def deliver(self, *records: Said) -> None:
        """Records of one source that arrive at one time: into Bronze and silver, and the numbers are published."""
        name, arrives = records[0].source, moment(records[0].arrives)
        self.lake.settings.now = arrives
        lines = [",".join([*COLUMNS[name], "at", "arrived_at", "op"])]
        for record in records:
            values = [f"{value}" for value in record.values] or [""] * (len(COLUMNS[name]) - 1)
            lines.append(",".join([record.key, *values, moment(record.at).isoformat(), arrives.isoformat(), record.op]))
        path = Path(str(self.lake.settings.landing), f"{name}.arrival_date={arrives.date()}.{len(self.records)}.csv")
        path.write_text("".join(f"{line}\n" for line in lines))
        self.records.extend(records)
        contract = self.sources[name]
        Ingest(self.lake, contract, self.session, "run").day(arrives.date())
        waiting = applied_inputs.pending(self.lake, name)
        if waiting:
            read = [self.metric] if name == "payments" else []
            silver_update.update(self.lake, contract, self.session, waiting, "run", read)
        if name == "payments":
            self.publish(arrives)

    def publish(self, now: datetime) -> None:
        daily, contract = Series(self.metric), self.sources["payments"]
        recompute.remember_contract(self.lake, self.metric, contract)
        pending = find_pending(self.lake, daily)
        restatement_days.restate(self.lake, contract, daily, self.session, pending.starts, Run("run"), pending)
        state: dict[date, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for record in newest(self.of("payments")).values():
            state[moment(record.at).date()][record.values[1]] += record.values[2]
        self.published.append((now, {day: dict(cells) for day, cells in state.items()}))

    def of(self, name: str) -> list[tuple[int, Said]]:
        """The records of a source with their places in the order of arrival."""
        return [(place, record) for place, record in enumerate(self.records) if record.source == name]

    def expected(self, known_at: datetime) -> dict[str, tuple[Any, ...]]:
        """The set by the model: of each payment the time, the part, the features and the label."""
        living, rows = newest(self.of("payments")), {}
        labels = {record.key: record.values[0] for record in newest(self.of("labels")).values()}
        for key in living:
            first = next(record for _, record in self.of("payments") if record.key == key and record.op != "delete")
            at = moment(first.at)
            if at + MATURITY > known_at or at < START:
                continue
            customer, country, amount = first.values
            part = "test" if at >= moment(3) else "fit"
            features = (amount, amount > 2, self.tier(customer, at), self.country_total(country, at))
            rows[key] = (at, part, *features, labels.get(key, 0))
        return rows

    def tier(self, customer: str, at: datetime) -> str | None:
        """What was known at a time of the customer's tier at that time."""
        about: dict[float, tuple[int, Said]] = {}
        for place, record in self.of("customers"):
            if record.key == customer and moment(record.arrives) <= at and moment(record.at) <= at:
                about[record.at] = (place, record)
        held = [record for _, record in about.values() if record.op != "retract"]
        last = max(held, key=lambda record: record.at, default=None)
        return None if last is None or last.op == "delete" else last.values[0]

    def country_total(self, country: str, at: datetime) -> int | None:
        """The number of the newest day that was over and had a number of the country by then, as it was published by then."""
        by_then = [state for published_at, state in self.published if published_at <= at]
        days = {
            day
            for state in by_then
            for day, cells in state.items()
            if country in cells and datetime(day.year, day.month, day.day, tzinfo=timezone.utc) + timedelta(days=1) <= at
        }
        return by_then[-1].get(max(days), {}).get(country) if days else None


def newest(records: Iterable[tuple[int, Said]]) -> dict[str, Said]:
    """Of each key the record that counts, of which there is none if it was deleted."""
    held: dict[str, Said] = {}
    for _, record in records:
        held[record.key] = record
    return {key: record for key, record in held.items() if record.op != "delete"}


def rows_of(table: Any, contract: TrainingSetContract) -> dict[str, tuple[Any, ...]]:
    """The rows of a set as the model has them; no row is there twice."""
    names: Sequence[str] = ["event_ts", "split", *contract.features.names, "label"]
    rows = table.to_pylist()
    found = {row["record_key"]: tuple(row[name] for name in names) for row in rows}
    assert len(found) == len(rows)
    return found
