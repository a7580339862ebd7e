"""Orders of three sources that arrive in any order, in a real lake, and what is published of them by a plain model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts import Catalog
from lakehouse.contracts.loader import completed
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.contracts.source import SourceContract
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import recompute, reproduce
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.laws import some

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakehouse.lake import Lake

FIRST = date(2024, 1, 1)
ARRIVES = date(2024, 1, 12)
TOTAL = {"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}
ORDERS = {"name": "orders", "sql": "count(distinct order_id)", "type": "long"}
SOURCES = [
    "web",
    {"source": "mobile", "columns": {"amount": "total", "store": "shop"}},
    {"source": "partner", "columns": {"amount": "net"}, "required": False},
]
RULES = {"final_after": 90}
#: Published by day and week: each order once, by the first source that has it.
REVENUE = {
    "metric": "revenue",
    "sources": SOURCES,
    "deduplicate_by": ["order_id"],
    "grain": ["store"],
    "measures": [TOTAL, ORDERS],
    "publication": {**RULES, "rollups": ["week"]},
}
#: Every row of all sources, on its day and the day after.
TWO_DAYS = {"metric": "two_days", "sources": SOURCES, "measures": [TOTAL], "window": 2, "publication": RULES}
#: By source the names of its columns, in the order of the fields of :class:`Order`.
COLUMNS = {
    "web": {"id": "string", "order_id": "string", "amount": "int", "store": "string"},
    "mobile": {"id": "string", "order_id": "string", "total": "bigint", "shop": "string"},
    "partner": {"id": "string", "order_id": "string", "net": "int", "store": "string", "amount": "string"},
}
#: By first day what is published: by grain the measures and the number of rows.
Numbers = dict[date, dict[Any, tuple[Any, ...]]]


def source(name: str, **changes: Any) -> SourceContract:
    """The contract of a source; that of the partner is under ``append``, whose newest rows count."""
    keys: dict[str, Any] = {
        "dataset": name,
        "primary_key": ["id"],
        "model": {"fields": [{"name": column, "type": kind} for column, kind in COLUMNS[name].items()]},
        "source": {"landing": f"{name}.arrival_date={{arrival_date}}*", "start_date": "2024-01-01"},
        "clocks": {"event": "at", "arrival": "arrived_at"},
    }
    if name == "partner":
        keys["materialization"] = {"reprocess_policy": "append"}
    else:
        keys["changes"] = {"op": "op"}
    return SourceContract.model_validate(keys | changes)


@dataclass(frozen=True)
class Order:
    """A row of a source; of those under a key of one source the newest holds."""

    source: str
    key: str
    order: str
    amount: int
    store: str
    day: int
    op: str = "insert"

    @property
    def at(self) -> date:
        return FIRST + timedelta(days=self.day)


@st.composite
def orders(draw: st.DrawFn, name: str) -> Order:
    return Order(
        name,
        draw(st.sampled_from("abc")),
        draw(st.sampled_from(["1", "2", "3", ""])),
        draw(st.integers(1, 4)),
        draw(st.sampled_from(["north", "south"])),
        draw(st.integers(0, 8)),
        draw(st.sampled_from(["insert", "insert", "delete"])) if name != "partner" else "insert",
    )


@st.composite
def deliveries(draw: st.DrawFn) -> list[list[Order]]:
    """Files, each of one source, in any order; the first two have the same orders on several days."""
    first = [[Order(name, f"{number}", f"{number}", 1, "north", number) for number in (0, 2, 7)] for name in ("web", "mobile")]
    files = st.sampled_from(["web", "mobile", "partner"]).flatmap(lambda name: st.lists(orders(name), min_size=1, max_size=3))
    return [*draw(st.permutations(first)), *draw(st.lists(files, min_size=2, max_size=4))]


@dataclass
class UnitedLake:
    """Deliveries of the sources into a lake, and the same by the model."""

    lake: Lake
    spark: Any
    metrics: list[MetricContract] = field(default_factory=lambda: [metric(), metric(TWO_DAYS)])
    sources: dict[str, SourceContract] = field(default_factory=lambda: {name: source(name) for name in COLUMNS})
    rows: dict[tuple[str, str], Order] = field(default_factory=dict)
    delivered: int = 0
    arrives: date = ARRIVES

    def __post_init__(self) -> None:
        self.metrics = [completed(definition, self.sources) for definition in self.metrics]

    @property
    def catalog(self) -> Catalog:
        return Catalog(self.sources, {definition.name: definition for definition in self.metrics})

    def session(self) -> Any:
        return self.spark

    def land(self, delivery: Sequence[Order]) -> str:
        """Put a file into landing, and tell the model; gives the source."""
        name, now = delivery[0].source, datetime(2024, 1, 13, tzinfo=timezone.utc)
        self.lake.settings.now = now + timedelta(minutes=self.delivered)
        self.delivered += 1
        arrived = now - timedelta(days=1) + timedelta(minutes=self.delivered)
        lines = [",".join([*COLUMNS[name], "at", "arrived_at", "op"])]
        for order in delivery:
            own = [order.key, order.order, f"{order.amount}", order.store, *(["text"] if name == "partner" else [])]
            lines.append(",".join([*own, f"{order.at}T12:00:00Z", arrived.isoformat(), order.op]))
            self.rows[name, order.key] = order
        path = Path(str(self.lake.settings.landing), f"{name}.arrival_date={ARRIVES}.{self.delivered}.csv")
        path.write_text("".join(f"{line}\n" for line in lines))
        return name

    def update(self, name: str) -> None:
        """Bring bronze and silver of a source up to date."""
        Ingest(self.lake, self.sources[name], self.session, "run").day(self.arrives)
        waiting = applied_inputs.pending(self.lake, name)
        if waiting:
            read = self.catalog.metrics_of(name)
            silver_update.update(self.lake, self.sources[name], self.session, waiting, "run", read)

    def apply(self, name: str) -> list[set[date]]:
        """Bring a source up to date, publish what follows; per metric the days that got a new number."""
        self.update(name)
        return self.publish()

    def deliver(self, *delivery: Order) -> list[set[date]]:
        return self.apply(self.land(delivery))

    def publish(self) -> list[set[date]]:
        restated = []
        for definition in self.metrics:
            daily, contract = Series(definition), self.sources[definition.source]
            recompute.remember_contract(self.lake, definition, contract)
            pending = find_pending(self.lake, daily)
            done = restatement_days.restate(self.lake, contract, daily, self.session, pending.starts, Run("run"), pending)
            restated.append(done.days)
            for rollup in daily.rollups:
                follows = find_pending(self.lake, rollup)
                starts = follows.starts
                rollups.restate(self.lake, contract, rollup, self.session, starts, Run("run"), follows)
        return restated

    def published(self, series: Series) -> Numbers:
        """What readers see; a period without rows is left out."""
        numbers = locations.gold(self.lake, series).read()
        shown: Numbers = defaultdict(dict)
        for row in [] if numbers is None else numbers.to_pylist():
            if row["is_latest"] and row["row_count"]:
                grain = row[series.metric.grain[0]] if series.metric.grain else None
                shown[row[series.by]][grain] = tuple(row[name] for name in series.numbers)
        return dict(shown)

    def revisions(self, series: Series) -> set[tuple[date, int]]:
        found = locations.gold(self.lake, series).read([series.by, "revision"])
        return set() if found is None else {(row[series.by], row["revision"]) for row in found.to_pylist()}

    def unlike_published(self) -> list[Any]:
        """Of some revisions of each series, those that are not made again as they were published."""
        unlike = []
        for definition in self.metrics:
            for series in (Series(definition), *Series(definition).rollups):
                for start, revision in some(sorted(self.revisions(series)), 4):
                    made = reproduce.reproduce(self.lake, self.catalog, series, start, revision, self.session)
                    if not made.equal:
                        unlike.append((series.name, start, revision, made.differences))
        return unlike

    def counting(self) -> list[Order]:
        """By the model: the rows of which no earlier source has the order on the same day."""
        living, names = [row for row in self.rows.values() if row.op != "delete"], list(COLUMNS)
        first: dict[tuple[date, str], int] = {}
        for row in living:
            place = names.index(row.source)
            first[row.at, row.order] = min(place, first.get((row.at, row.order), place))
        return [row for row in living if not row.order or names.index(row.source) == first[row.at, row.order]]

    def revenue(self, starts: Mapping[date, date] | None = None) -> Numbers:
        """By the model: amount, orders and rows by day and store, or by longer periods, given by day."""
        groups: dict[date, dict[str, list[Order]]] = defaultdict(lambda: defaultdict(list))
        for row in self.counting():
            groups[row.at if starts is None else starts[row.at]][row.store].append(row)
        return {start: {store: _numbers(own) for store, own in stores.items()} for start, stores in groups.items()}

    def weekly(self) -> Numbers:
        days = [FIRST + timedelta(days=number) for number in range(30)]
        return self.revenue({day: day - timedelta(days=day.weekday()) for day in days})

    def two_days(self) -> Numbers:
        """By the model: the amounts of all rows on each day and the day before it."""
        groups: dict[date, list[int]] = defaultdict(list)
        for row in self.rows.values():
            for later in (0, 1) if row.op != "delete" else ():
                groups[row.at + timedelta(days=later)].append(row.amount)
        return {start: {None: (sum(amounts), len(amounts))} for start, amounts in groups.items()}

    def model(self) -> list[Numbers]:
        return [self.revenue(), self.two_days()]


def metric(definition: Mapping[str, Any] | None = None, **changes: Any) -> MetricContract:
    return MetricContract.model_validate({**(definition or REVENUE), **changes})


def _numbers(rows: Iterable[Order]) -> tuple[int, int, int]:
    own = list(rows)
    return sum(row.amount for row in own), len({row.order for row in own} - {""}), len(own)
