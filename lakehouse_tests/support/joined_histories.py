"""Facts and changes of customers that arrive in any order, in a real lake, and what is published of them by a plain model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts import Catalog
from lakehouse.contracts.loader import completed
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import recompute, reproduce
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs
from lakehouse.silver import update as silver_update
from lakehouse_tests.support import dimension_lake
from lakehouse_tests.support.dimension_model import DimensionRecord, day, valid_at
from lakehouse_tests.support.joined_lake import TOTAL, facts
from lakehouse_tests.support.lake import HEADER
from lakehouse_tests.support.laws import some

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

JOIN = {"dimension": "customers", "on": "customer", "columns": ["tier", {"email": "mail"}]}
MAILS = {"name": "mails", "sql": "count(distinct mail)", "type": "long"}
RULES = {"final_after": 90}
BY_TIER = {"metric": "by_tier", "joins": [JOIN], "grain": ["tier"], "measures": [TOTAL, MAILS], "publication": RULES}
TWO_DAYS = {
    "metric": "two_days",
    "joins": [{"dimension": "customers", "on": ["customer"], "columns": ["region"]}],
    "measures": [{"name": "total", "sql": "sum(if(region = 'north', amount, 0))", "type": "long"}],
    "publication": RULES,
    "window": 2,
}
CUSTOMERS = dimension_lake.dimension(source={"landing": "customers.arrival_date={arrival_date}*", "start_date": "2024-01-01"})
ARRIVES = date(2024, 1, 12)
#: Per event day what is published: by grain the measures and the number of rows.
Numbers = dict[date, dict[Any, tuple[Any, ...]]]


@dataclass(frozen=True)
class Fact:
    """A fact; of those under a key the newest holds."""

    key: str
    amount: int
    at: datetime
    customer: str
    op: str


Delivery = list[Fact] | list[DimensionRecord]


@st.composite
def fact_records(draw: st.DrawFn) -> Fact:
    at = day(draw(st.integers(0, 5))) + timedelta(hours=draw(st.sampled_from([0, 6, 12])))
    customer = draw(st.sampled_from(["1", "2", "3", ""]))
    return Fact(
        draw(st.sampled_from("abcdef")),
        draw(st.integers(1, 4)),
        at,
        customer,
        draw(st.sampled_from(["insert", "insert", "delete"])),
    )


@st.composite
def deliveries(draw: st.DrawFn) -> list[Delivery]:
    """Files of facts and of changes of customers, in any order; the first has facts on several days."""
    first = [Fact(f"{key}{number}", 1, day(number), key, "insert") for number in range(0, 6, 2) for key in ("1", "2")]
    of_facts = st.lists(fact_records(), min_size=1, max_size=3)
    of_changes = st.lists(dimension_lake.dimension_records(), min_size=1, max_size=3).map(_named)
    return [first, *draw(st.lists(of_facts | of_changes | of_changes, min_size=2, max_size=4))]


def _named(records: list[DimensionRecord]) -> list[DimensionRecord]:
    return dimension_lake.quoted(records)


@dataclass
class JoinedHistory:
    """Deliveries into a lake, and the same by the model."""

    lake: Lake
    spark: Any
    metrics: list[MetricContract] = field(
        default_factory=lambda: [
            MetricContract.model_validate({"source": "events", **definition}) for definition in (BY_TIER, TWO_DAYS)
        ]
    )
    facts: dict[str, Fact] = field(default_factory=dict)
    changes: list[DimensionRecord] = field(default_factory=list)
    delivered: int = 0

    def __post_init__(self) -> None:
        self.sources: dict[str, SourceContract] = {"events": facts(), "customers": CUSTOMERS}
        self.metrics = [completed(definition, self.sources) for definition in self.metrics]
        self.catalog = Catalog(self.sources, {definition.name: definition for definition in self.metrics})

    def session(self) -> Any:
        return self.spark

    def land(self, delivery: Delivery) -> str:
        """Put a delivery into landing, and tell the model; gives the source."""
        self.lake.settings.now = datetime(2024, 1, 13, tzinfo=day(0).tzinfo) + timedelta(minutes=self.delivered)
        self.delivered += 1
        if isinstance(delivery[0], Fact):
            arrival = datetime(2024, 1, 12, tzinfo=day(0).tzinfo) + timedelta(minutes=self.delivered)
            rows = [
                f"{fact.key},{fact.amount},{fact.at.isoformat()},{arrival.isoformat()},{fact.op},,{fact.customer}"
                for fact in delivery
            ]
            self._file(f"arrival_date={ARRIVES}.{self.delivered}.csv", "".join(f"{line}\n" for line in (HEADER, *rows)).encode())
            self.facts |= {fact.key: fact for fact in delivery}
            return "events"
        self._file(f"customers.arrival_date={ARRIVES}.{self.delivered}.csv", dimension_lake.csv_file(delivery))
        self.changes += dimension_lake.in_file(delivery, (ARRIVES, f"{self.delivered}"))
        return "customers"

    def _file(self, name: str, content: bytes) -> None:
        Path(str(self.lake.settings.landing), name).write_bytes(content)

    def apply(self, source: str) -> list[set[date]]:
        """Bring a source up to date, publish what follows; per metric the days that got a new number."""
        contract = self.sources[source]
        Ingest(self.lake, contract, self.session, "run").day(ARRIVES)
        waiting = applied_inputs.pending(self.lake, source)
        if waiting:
            joined = [definition for definition in self.metrics if definition.source == source]
            silver_update.update(self.lake, contract, self.session, waiting, "run", joined)
        return self.publish()

    def publish(self) -> list[set[date]]:
        restated = []
        for definition in self.metrics:
            series, contract = Series(definition), self.sources["events"]
            recompute.remember_contract(self.lake, definition, contract)
            pending = find_pending(self.lake, series)
            done = restatement_days.restate(self.lake, contract, series, self.session, pending.starts, Run("run"), pending)
            restated.append(done.days)
        return restated

    def published(self, definition: MetricContract) -> Numbers:
        """What readers see; a day without facts is left out."""
        numbers = locations.gold(self.lake, Series(definition)).read()
        shown: Numbers = defaultdict(dict)
        names = [*(measure.name for measure in definition.measures), "row_count"]
        for row in [] if numbers is None else numbers.to_pylist():
            if row["is_latest"] and row["row_count"]:
                shown[row["event_date"]][row[definition.grain[0]] if definition.grain else None] = tuple(
                    row[name] for name in names
                )
        return dict(shown)

    def by_tier(self) -> Numbers:
        """By the model: the amounts and the mail addresses by day and tier."""
        groups: dict[date, dict[str | None, list[tuple[Fact, str]]]] = defaultdict(lambda: defaultdict(list))
        for fact in self._living():
            tier, _, mail = self._attributes(fact)
            groups[fact.at.date()][tier].append((fact, mail))
        return {
            start: {
                tier: (sum(fact.amount for fact, _ in own), len({mail for _, mail in own} - {None}), len(own))
                for tier, own in by_tier.items()
            }
            for start, by_tier in groups.items()
        }

    def two_days(self) -> Numbers:
        """By the model: the amounts of the north on each day and the day before it."""
        groups: dict[date, list[int]] = defaultdict(list)
        for fact in self._living():
            for later in (0, 1):
                amount = fact.amount if self._attributes(fact)[1] == "north" else 0
                groups[fact.at.date() + timedelta(days=later)].append(amount)
        return {start: {None: (sum(amounts), len(amounts))} for start, amounts in groups.items()}

    def model(self) -> list[Numbers]:
        return [self.by_tier(), self.two_days()]

    def _living(self) -> Iterable[Fact]:
        return (fact for fact in self.facts.values() if fact.op != "delete")

    def _attributes(self, fact: Fact) -> tuple[Any, Any, Any]:
        found = [interval for interval in valid_at(self.changes, fact.at) if interval.key == fact.customer]
        return (found[0].tier, found[0].region, found[0].email) if found else ("unknown",) * 3

    def revisions(self, definition: MetricContract) -> set[tuple[date, int]]:
        found = locations.gold(self.lake, Series(definition)).read(["event_date", "revision"])
        return set() if found is None else {(row["event_date"], row["revision"]) for row in found.to_pylist()}

    def unlike_published(self) -> list[Any]:
        """Of some revisions of each series, those that are not made again as they were published."""
        unlike = []
        for definition in self.metrics:
            for start, revision in some(sorted(self.revisions(definition)), 4):
                made = reproduce.reproduce(self.lake, self.catalog, Series(definition), start, revision, self.session)
                if not made.equal:
                    unlike.append((definition.name, start, revision, made.differences))
        return unlike
