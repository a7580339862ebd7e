"""The contract of a metric: what it reads or derives from, its grain, its measures in Spark SQL, and its speed layer.

A metric reads silver tables, or derives from other metrics. A derived metric leaves out the keys that its inputs decide; its
rules that concern the contracts of the inputs belong to ``derived``.

``live`` and ``reconcile`` state how the speed layer computes the metric, and which difference is an alert. Belongs here: the
keys, their defaults, and what a streaming aggregation cannot do. The rows that the stream counts are defined in ``live.stream``.
"""

from __future__ import annotations

import re
from datetime import (
    date,
    timedelta,
)
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AliasChoices, Field, PrivateAttr, model_validator

from lakehouse.contracts import metric_sources, windows
from lakehouse.contracts.alerts import MetricAlerts, misfits
from lakehouse.contracts.base import Documented, Name, SparkType, Strict
from lakehouse.contracts.checks import ChangeBounds, GoldChecks, problems
from lakehouse.contracts.derived import DerivedInput  # noqa: TC001 (pydantic reads it)
from lakehouse.contracts.metric_sources import Join, MetricSource, brought_by, clashes
from lakehouse.contracts.publication import (
    FinalNeeds,
    LateEvents,
    PublicationRules,
)
from lakehouse.contracts.series import RESERVED
from lakehouse.contracts.sql_expressions import Aggregate, cast, null_if_zero
from lakehouse.contracts.windows import WINDOW_START, SessionWindow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.windows import EventWindow


#: Functions that Spark refuses in a streaming aggregation, by a pattern of the expression.
_REFUSED = {
    r"\bdistinct\b": "counts distinct values, which Spark refuses over a stream; take approx_count_distinct",
    r"\bwithin\s+group\b": "sorts the rows of a group, which Spark refuses over a stream",
}


class SpeedLayer(Strict):
    """The settings of a metric's stream."""

    watermark: timedelta = Field(
        timedelta(minutes=10),
        ge=timedelta(0),
        validation_alias=AliasChoices("open_for", "watermark"),
        description="How long after the newest event a window stays open; later rows are dropped by the stream.",
    )
    trigger: timedelta = Field(timedelta(seconds=5), ge=timedelta(0), description="The time between two batches of the stream.")
    max_files_per_trigger: int = Field(1000, ge=1, description="A batch reads at most so many files of Bronze.")
    keep: timedelta = Field(
        timedelta(days=7), ge=timedelta(0), description="How long live rows of a closed window are kept after reconciliation."
    )

    managed: bool = Field(False, description="Whether Dagster runs the stream, and starts it again when it has ended.")

    @model_validator(mode="after")
    def _in_milliseconds(self) -> SpeedLayer:
        if self.watermark % timedelta(milliseconds=1):
            msg = "open_for: Spark counts in milliseconds; write whole ones, such as PT10M"
            raise ValueError(msg)
        return self


class ReconciliationTerms(Strict):
    """The bound on the difference between a day's live and published numbers beyond which it is an alert."""

    threshold: float = Field(
        ge=0,
        description="Alert when a window's live number differs from the published one by more than this share.",
    )


def with_live_defaults(content: Any) -> Any:
    """Replace ``live: true`` in a metric's file by a speed layer with all defaults; ``false`` means none."""
    if isinstance(content, dict) and isinstance(content.get("live"), bool):
        return {**content, "live": {} if content["live"] else None}
    return content


def live_problems(metric: MetricContract) -> Iterator[str]:
    """The mistakes in a metric's speed layer, each as ``field: what to do``."""
    if metric.live is None:
        if metric.reconcile is not None:
            yield "reconcile: compares live numbers with published ones; add 'live: true', or leave the key out"
        for key in ("live_state", "live_unread_after"):
            if getattr(metric.alerts, key) is not None:
                yield f"alerts.{key}: is about the stream of the metric; add 'live: true', or leave the key out"
        return
    unfit = {
        "a derived metric reads no rows, so there is nothing to stream; make its inputs live": metric.is_derived,
        "the stream reads one source, and this metric has several; leave the key out": metric.sources,
        "the stream does not join dimensions; leave the key out, or count in another metric without 'joins'": metric.joins,
        f"the stream has no windows of {metric.trailing_days} days; leave the key out, or the window": metric.trailing_days > 1,
        "the stream has no sessions; leave the key out, or count by windows such as 'window: {size: PT1H}'": isinstance(
            metric.window, SessionWindow
        ),
    }
    yield from (f"live: {text}" for text, is_so in unfit.items() if is_so)
    for measure in metric.measures:
        for pattern, text in _REFUSED.items():
            if re.search(pattern, measure.sql, re.IGNORECASE):
                yield f"live: the measure {measure.name} {text}"


def not_derived(metric: MetricContract) -> list[str]:
    """The keys that a derived metric cannot have, each as ``field: what to do``; empty for other metrics."""
    if not metric.is_derived:
        return []
    names, terms = metric.derived_from, metric.publication
    twice = sorted({name for name in names if names.count(name) > 1})
    in_grain = sorted({*names}.intersection(metric.grain))
    mistakes = {
        f"from: name each metric once: {', '.join(twice)}": twice,
        f"from: {', '.join(in_grain)} is also a column of the grain; an expression could not distinguish them": in_grain,
        "window: a derived metric has none; give one to its inputs": metric.window != 1,
        "rows: a derived metric reads no rows of a source; leave the key out": metric.rows,
        "publication.after_close: a derived number changes with its inputs; let these 'adjust', and leave the key out here": (
            terms.after_close == "adjust"
        ),
        "publication.final_needs: a derived number becomes final after its inputs; leave the key out": (
            terms.final_needs != FinalNeeds()
        ),
        "publication.closes_with: a derived number becomes final after its inputs; leave the key out": terms.closes_with,
        "publication.patch_up_to: a derived number is computed from published numbers; leave the key out": terms.patch_up_to,
    }
    return [text for text, is_wrong in mistakes.items() if is_wrong]


_EXACT = ("int", "bigint", "decimal")
#: A star that means rows, and a star that means columns; any other star multiplies.
_COUNT_OF_ROWS = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)
_ALL_COLUMNS = re.compile(r"(?:[(,.]|\bdistinct|\ball)\s*\*", re.IGNORECASE)
#: Functions that turn other values into a time, or a day into its first moment.
_MAKES_TIMES = re.compile(r"timestamp|unixtime|date_trunc|interval|hour|minute|second", re.IGNORECASE)
_CALL = re.compile(r"\w\s*\(|::")


class Measure(Strict):
    """One number: an aggregate expression over the silver rows of a day, cast to ``type``."""

    name: Name
    sql: Aggregate
    type: SparkType
    additive: bool = Field(False, description="Whether values of disjoint sets of rows add up to the value of both.")
    description: str | None = None

    @property
    def computed_sql(self) -> str:
        """The expression with its type, as Spark computes it. Division by zero gives NULL."""
        return cast(null_if_zero(self.sql), self.type)

    @property
    def checked_sql(self) -> str:
        """The same, where an infinity or a NaN that shall become a decimal is an error. Spark makes NULL of it."""
        if not self.type.startswith("decimal"):
            return self.computed_sql
        fails = cast(cast(null_if_zero(self.sql), "bigint"), self.type)
        return f"coalesce({self.computed_sql}, {fails})"

    @property
    def is_number(self) -> bool:
        """Whether its values can be subtracted."""
        return self.type == "double" or self.is_exact

    @property
    def is_exact(self) -> bool:
        """Whether its values are added without rounding."""
        return self.type.startswith(_EXACT)

    def columns_read(self, columns: Collection[str]) -> set[str]:
        """The columns in ``columns`` that the expression may read; all of them if it reads ``*``."""
        if _ALL_COLUMNS.search(_COUNT_OF_ROWS.sub("1", self.sql)):
            return set(columns)
        words = set(re.findall(r"\w+", self.sql.lower()))
        return {name for name in columns if name.lower() in words}


class MetricContract(Documented):
    """One metric: one file, no code."""

    metric: Name
    source: Name = Field(
        "",
        description="The source whose silver table it reads, the first of several; of a derived metric, that of its first input.",
    )
    sources: list[MetricSource] = Field(
        default_factory=list, description="In place of one source: several, whose rows of a day make one number."
    )
    deduplicate_by: list[Name] = Field(
        default_factory=list,
        description="With several sources: a row does not count if an earlier source has these values on the same event day.",
    )
    joins: list[Join] = Field(
        default_factory=list, description="Dimensions whose attributes, as of the event time, the grain and the measures may use."
    )
    derived_from: list[Name] = Field(
        default_factory=list,
        validation_alias=AliasChoices("from", "derived_from"),
        description="In place of a source: the metrics whose published numbers it is made of.",
    )
    inputs: list[DerivedInput] = Field(default_factory=list, description="What it reads of them; set when contracts are loaded.")
    grain: list[Name] = Field(
        default_factory=list,
        description="Columns besides the event day: of Silver or brought by a join; in a derived metric, those of each input.",
    )
    measures: list[Measure] = Field(min_length=1)
    rows: Literal["newest", "all"] | None = Field(
        None,
        description="Of a source under 'append': whether each key counts once, by its newest row (the default), or every row.",
    )
    window: windows.Window = Field(
        1,
        description="How many days, the last one included, a day's number covers; windows of event time; or sessions of a key.",
    )
    late_events: LateEvents | None = Field(
        None, description="What becomes of rows that come after their window; without it every one counts."
    )
    live: SpeedLayer | None = Field(
        None, description="Live numbers in addition to published ones: 'true', or how their stream runs."
    )
    reconcile: ReconciliationTerms | None = Field(
        None, description="Which difference between live and published numbers is an alert."
    )
    publication: PublicationRules = Field(default_factory=PublicationRules)
    checks: GoldChecks = Field(default_factory=GoldChecks)
    alerts: MetricAlerts = Field(default_factory=MetricAlerts)
    dataset_version: int = Field(
        1, ge=1, description="Raised with the logic; versions above 1 have their own table until promoted."
    )
    deprecated_on: date | None = Field(None, description="The day from which nobody should read this dataset version.")
    consumers: list[str] = Field(default_factory=list, description="Who reads the numbers: dashboards, exports, later models.")
    materiality: dict[str, dict[Name, ChangeBounds]] = Field(
        default_factory=dict,
        description="By consumer and measure: no notice is sent about a restatement within these bounds.",
    )
    _contracts: dict[str, SourceContract] = PrivateAttr(default_factory=dict)
    _zone: str = PrivateAttr(default="UTC")
    _times: frozenset[str] = PrivateAttr(default=frozenset())

    @property
    def dimensions(self) -> dict[str, SourceContract]:
        """The contracts of the dimensions that the metric joins, by name; empty until :meth:`with_contracts`."""
        return {join.dimension: self._contracts[join.dimension] for join in self.joins if join.dimension in self._contracts}

    @property
    def source_contracts(self) -> dict[str, SourceContract]:
        """The contracts of the metric's sources, if several, by name in their order; empty until :meth:`with_contracts`."""
        return {entry.source: self._contracts[entry.source] for entry in self.sources if entry.source in self._contracts}

    @property
    def late_source(self) -> SourceContract | None:
        """The contract of the silver table, if the metric has late events; None until :meth:`with_contracts`."""
        contract = self._contracts.get(self.source) if self.late_events else None
        return None if contract is None else self.read[0].read_of(contract)

    def contract_of_silver(self, name: str) -> SourceContract | None:
        """The contract that governs the rows of the silver table ``name``; None until :meth:`with_contracts`."""
        return next((self._contracts.get(entry.source) for entry in self.read if entry.silver == name), None)

    @property
    def further_sources(self) -> dict[str, SourceContract]:
        """The contracts of the sources after the first one, by name; empty until :meth:`with_contracts`."""
        return {name: contract for name, contract in self.source_contracts.items() if name != self.source}

    def with_contracts(self, sources: Mapping[str, SourceContract]) -> MetricContract:
        """A copy of the contract that knows its zone and the contracts of its sources and dimensions.

        :param sources: the contracts of the deployment, by name.
        """
        zone = sources[self.source].clocks.timezone if self.source in sources else self._zone
        own = [self.source] if self.source in sources else []
        if not (self.joins or self.sources or own or zone != self._zone):
            return self
        names = [*own, *(join.dimension for join in self.joins), *(entry.source for entry in self.sources)]
        copy = self.model_copy()
        copy._contracts = {name: sources[name] for name in names}  # noqa: SLF001 (of the same class)
        copy._zone = zone  # noqa: SLF001
        copy._times = _times(self, sources)  # noqa: SLF001
        return copy

    @property
    def zone(self) -> str:
        """The zone of the event days, in which expressions see hours and days; UTC until :meth:`with_contracts`."""
        return self._zone

    @property
    def zone_of_numbers(self) -> str:
        """The zone, if the numbers may differ from UTC because an expression reads or makes a time; else an empty text."""
        makes_times = _CALL if self.is_derived else _MAKES_TIMES
        depends = any(makes_times.search(measure.sql) or measure.columns_read(self._times) for measure in self.measures)
        return self.zone if depends and self.zone != "UTC" else ""

    @property
    def as_in_utc(self) -> MetricContract:
        """A copy of the contract that computes hours and days in UTC, as earlier releases did."""
        copy = self.model_copy()
        copy._zone = "UTC"  # noqa: SLF001 (of the same class)
        return copy

    @property
    def deprecation(self) -> str | None:
        """The warning about a dataset version that nobody should read from some day on; None without such a day."""
        if self.deprecated_on is None:
            return None
        return f"{self.metric} v{self.dataset_version} is deprecated: nobody should read it from {self.deprecated_on} on"

    @property
    def read(self) -> list[MetricSource]:
        """The tables and columns read from each source; empty for a derived metric."""
        return self.sources or ([] if self.is_derived else [MetricSource(source=self.source, rows=self.rows)])

    @property
    def sources_read(self) -> list[str]:
        """The names of the sources of :attr:`read`, for a look at hundreds of metrics."""
        return [entry.source for entry in self.sources] or ([] if self.is_derived else [self.source])

    @property
    def sources_named(self) -> list[str]:
        """The names of the sources that the metric reads and joins."""
        return [*self.sources_read, *(join.dimension for join in self.joins)]

    @property
    def event_window(self) -> EventWindow | SessionWindow | None:
        """The event-time windows or sessions of a day; None if a number covers whole days."""
        return None if isinstance(self.window, int) else self.window

    @property
    def trailing_days(self) -> int:
        """The number of days that a day's number covers, including the day itself."""
        return self.window if isinstance(self.window, int) else 1

    @property
    def days_before(self) -> int:
        """The number of preceding days whose rows a day's number may also use."""
        return self.trailing_days - 1 + (self.event_window.days_before if self.event_window else 0)

    @property
    def days_behind(self) -> int:
        """The number of following days whose rows a day's number may also use, because its windows extend into them."""
        return self.event_window.days_behind if self.event_window else 0

    @property
    def windows_overlap(self) -> bool:
        """Whether the metric has event-time windows that overlap, so that a row lies in several."""
        return self.event_window is not None and self.event_window.overlaps

    @property
    def whole(self) -> MetricContract:
        """The metric over whole periods, not divided into windows; the metric itself if it has no windows."""
        if self.event_window is None:
            return self
        grain = [name for name in self.grain if name not in self.event_window.columns]
        return self.model_copy(update={"window": 1, "grain": grain})

    @property
    def counts_rows_of_its_day(self) -> bool:
        """Whether a day's number counts exactly the rows of that day."""
        return not (self.days_before or self.days_behind)

    @property
    def adds_up_row_by_row(self) -> bool:
        """Whether a change of a day's rows can be added to its number: every measure adds up exactly, and the number depends
        only on the day's rows of one table.
        """
        exact = all(measure.additive and measure.is_exact for measure in self.measures)
        return exact and self.counts_rows_of_its_day and not self.joins and not self.sources

    @property
    def joined_on(self) -> list[tuple[str, ...]]:
        """The lists of silver columns on which joins join, each list once."""
        own = [tuple(join.on) for join in self.joins if brought_by(self.joins, join) is None]
        return list(dict.fromkeys(own))

    def day_zone(self, join: Join) -> ZoneInfo:
        """The zone for joining facts that have a day but no time: the day counts as a day of the dimension.

        A join on columns of an earlier join uses the first dimension's zone, so that both joins use the same moment.
        """
        earlier = brought_by(self.joins, join)
        return ZoneInfo(self.dimensions[join.dimension].clocks.timezone) if earlier is None else self.day_zone(earlier)

    def columns_read(self, columns: Collection[str]) -> list[str]:
        """The columns in ``columns`` that the numbers may depend on, in the same order.

        :param columns: the columns of the (first) source's silver table.
        """
        read = {"event_date", *self.grain, *self.deduplicate_by, *(name for on in self.joined_on for name in on)}
        read |= {"event_ts"} if self.joins or self.event_window else set()  # a fact is joined as of its event time
        read = read.union(*(measure.columns_read(columns) for measure in self.measures))
        return [name for name in columns if name in read]

    @property
    def fact_indexes(self) -> list[tuple[str, tuple[str, ...]]]:
        """The silver tables, each with its columns on which a join joins."""
        return [(entry.silver, tuple(map(entry.column, on))) for entry in self.read for on in self.joined_on]

    @property
    def name(self) -> str:
        """The name of the daily table: the metric's own, or ``revenue_v2`` for a later dataset version."""
        return self.metric if self.dataset_version == 1 else f"{self.metric}_v{self.dataset_version}"

    @property
    def reads_newest(self) -> bool:
        """Whether the metric reads the newest row per key of its (first) source instead of the main silver table."""
        return any(entry.rows == "newest" for entry in self.read[:1])

    @property
    def is_derived(self) -> bool:
        """Whether the metric is computed from published numbers of other metrics, without a silver table."""
        return bool(self.derived_from)

    @property
    def additive(self) -> list[str]:
        """The measures that add up over the grain and over periods; none if windows overlap."""
        return [] if self.windows_overlap else [measure.name for measure in self.measures if measure.additive]

    @model_validator(mode="before")
    @classmethod
    def _first_source(cls, content: Any) -> Any:
        return with_live_defaults(windows.with_start_in_grain(metric_sources.with_first_source(content)))

    @model_validator(mode="after")
    def _consistent(self) -> MetricContract:
        names = [*RESERVED, *self.grain, *(measure.name for measure in self.measures)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"measures: these names are used twice or reserved: {', '.join(twice)}"
            raise ValueError(msg)
        if not (self.source or self.derived_from):
            msg = "source: is missing; name the source that it reads, or with 'from:' the metrics that it is made of"
            raise ValueError(msg)
        measured = [measure.name for measure in self.measures]
        unread = metric_sources.problems(self.sources, self.deduplicate_by, self.derived_from)
        unread += clashes(self.joins, [*RESERVED, *measured])
        if unread:
            raise ValueError(unread[0])
        types = {measure.name: measure.type for measure in self.measures}
        unfit = (
            problems(self.checks, types, self.grain)
            + misfits(self.alerts, types, self.grain, self.publication.rollups)
            + self._immaterial(types)
        )
        unfit += [*not_derived(self), *windows.unfit(self), *live_problems(self)]
        if unfit:
            raise ValueError(unfit[0])
        inexact = [measure.name for measure in self.measures if not measure.is_exact]
        if self.publication.after_close == "adjust" and inexact:
            msg = (
                f"publication.after_close: adjustments are exact differences, and {', '.join(inexact)} cannot have any; "
                "give a decimal or an integer type, or restate"
            )
            raise ValueError(msg)
        return self

    def _immaterial(self, types: Mapping[str, str]) -> list[str]:
        """The materiality bounds that do not fit the metric, each as ``field: what to do``."""
        known = ", ".join(self.consumers) or "nobody"
        unfit = [
            f"materiality: {consumer!r} is not among the consumers, which are {known}"
            for consumer in self.materiality
            if consumer not in self.consumers
        ]
        numbers = [measure.name for measure in self.measures if measure.is_number]
        for consumer, bounds in self.materiality.items():
            for name in bounds:
                if name not in types:
                    unfit.append(f"materiality: {consumer}: no measure is called {name!r}; there are {', '.join(types)}")
                elif name not in numbers:
                    unfit.append(f"materiality: {consumer}: {name!r} is a {types[name]}; only numbers have bounds")
        return unfit


def _times(metric: MetricContract, sources: Mapping[str, SourceContract]) -> frozenset[str]:
    """The columns with times that the expressions of a metric may read."""
    names = {"event_ts", "arrival_ts", "ends_at", WINDOW_START}
    for contract in (sources[name] for name in metric.sources_named if name in sources):
        names.update(field.name for field in contract.typed_fields if field.type == "timestamp")
    brought = {name for join in metric.joins for column, name in join.attributes if column in names}
    return frozenset(names | brought)
