"""A derived metric of two inputs with given numbers, for tests without sources; and its contracts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts import derived as derived_contracts
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.publication import write_audit_publish
from lakehouse.gold.publication.candidates import DraftTerms, NumberLineage, draft_period
from lakehouse.gold.publication.write_audit_publish import PublishResult, Run
from lakehouse.gold.restatement import derived
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

SALES = {"name": "sales", "sql": "sum(amount)", "type": "long", "additive": True}
BIGGEST = {"name": "biggest", "sql": "max(amount)", "type": "long"}
VISITS = {"name": "n", "sql": "count(1)", "type": "long", "additive": True}
RATIO = {"name": "conversion", "sql": "revenue.sales / sessions.n", "type": "decimal(12,6)"}
TERMS: dict[str, Any] = {"preliminary_after": 1, "final_after": 5, "rollups": ["week"]}
MONDAY = date(2024, 2, 5)
_TYPES = {"bigint": pa.int64(), "string": pa.string()}
#: Of an input: the grain, sales or visits, and the row count.
Rows = list[dict[str, Any]]


def metric(name: str, *measures: dict[str, Any], **changes: Any) -> MetricContract:
    """A metric of the source ``events``, or a derived one if ``changes`` name what it is made of."""
    content: dict[str, Any] = {"metric": name, "measures": [*measures], "publication": TERMS}
    return MetricContract.model_validate(content | ({} if "from" in changes else {"source": "events"}) | changes)


def adjusting(name: str = "sessions") -> MetricContract:
    """Sessions that book what changes after the close as adjustments."""
    terms = {**TERMS, "final_after": 2, "after_close": "adjust"}
    return metric(name, VISITS, grain=["store", "channel"], publication=terms)


def metrics(*changed: MetricContract) -> dict[str, MetricContract]:
    """Revenue by store, sessions by store and channel, and the conversion of a store; others in addition or in their place."""
    known = [
        metric("revenue", SALES, BIGGEST, grain=["store"]),
        metric("sessions", VISITS, grain=["store", "channel"]),
        metric("conversion", RATIO, grain=["store"], **{"from": ["revenue", "sessions"]}),
    ]
    by_name = {one.name: one for one in (*known, *changed)}
    done, mistakes = derived_contracts.resolved(by_name)
    assert not mistakes, mistakes
    return by_name | done


def day(number: int) -> date:
    """A day of the week that begins with :data:`MONDAY`, from 1."""
    return MONDAY + timedelta(days=number - 1)


@dataclass
class DerivedNumbers:
    """A lake of published numbers."""

    lake: Lake
    spark: SparkSession
    known: dict[str, MetricContract] = field(default_factory=metrics)

    def at(self, number: int, hour: int = 12) -> None:
        """Set the clock to a day of the week."""
        self.lake.settings.now = datetime.combine(day(number), datetime.min.time(), timezone.utc) + timedelta(hours=hour)

    def series(self, name: str = "conversion", kind: Kind = Kind.DAY) -> Series:
        """A series of a metric."""
        return Series(self.known[name], kind)

    def session(self) -> SparkSession:
        """The session."""
        return self.spark

    def publish(
        self,
        name: str,
        numbers: Mapping[date, Rows],
        kind: Kind = Kind.DAY,
        run: Run = Run("input"),  # noqa: B008 (frozen)
        at_most: State = State.FINAL,
        **lineage: Any,
    ) -> PublishResult:
        """Publish numbers of an input through the audit; an empty list is the number of an emptied period."""
        series, today = self.series(name, kind), self.lake.now().date()
        before = write_audit_publish.read(self.lake, series, sorted(numbers))
        drafts = []
        for start, rows in sorted(numbers.items()):
            draft = draft_period(before, start, self._table(series, rows), DraftTerms(today, at_most), requested=run.reason)
            if draft is not None:
                drafts.append(draft)
        drafts = [replace(draft, lineage=NumberLineage(**lineage)) for draft in drafts]
        return write_audit_publish.publish(self.lake, before, drafts, run, {})

    def follow(self, name: str = "conversion", kind: Kind = Kind.DAY, starts: Collection[date] = ()) -> PublishResult:
        """Restate what is pending or due of a derived series, as its run does; without any there is none."""
        series = self.series(name, kind)
        pending = find_pending(self.lake, series)
        wanted = {*pending.starts, *find_due(self.lake, contract(), series), *starts}
        if not wanted:
            return PublishResult()
        return derived.restate(self.lake, series, self.session, wanted, Run("follow"), pending)

    def published(self, name: str = "conversion", kind: Kind = Kind.DAY) -> list[dict[str, Any]]:
        """All published rows of a series, in order."""
        found = locations.gold(self.lake, self.series(name, kind)).read()
        rows = [] if found is None else found.to_pylist()
        return sorted(rows, key=lambda row: (row[kind.column], row["revision"], row["adjustment"] or 0, f"{row.get('store')}"))

    def latest(self, name: str = "conversion", kind: Kind = Kind.DAY) -> dict[date, list[tuple[Any, ...]]]:
        """The newest number of each period as readers see it: its content without the names."""
        series, shown = self.series(name, kind), dict[date, list[tuple[Any, ...]]]()
        for row in self.published(name, kind):
            if row["is_latest"]:
                shown.setdefault(row[series.by], []).append(tuple(row[column] for column in series.content))
        return shown

    def _table(self, series: Series, rows: Rows) -> pa.Table:
        types = dict.fromkeys(series.metric.grain, pa.string()) | {
            measure.name: _TYPES[measure.type] for measure in series.metric.measures
        }
        content = rows or [dict.fromkeys(types) | {"row_count": 0}]
        return pa.Table.from_pylist(content, schema=pa.schema([*types.items(), ("row_count", pa.int64())]))


def revenue(**by_store: int) -> Rows:
    """Revenue by store; of two rows each."""
    return [{"store": store, "sales": sales, "biggest": sales, "row_count": 2} for store, sales in by_store.items()]


def sessions(**by_store: int) -> Rows:
    """Visits by store, all but one of them in the channel ``web``."""
    return [
        {"store": store, "channel": channel, "n": count, "row_count": count}
        for store, visits in by_store.items()
        for channel, count in (("app", 1), ("web", visits - 1))
        if count > 0
    ]
