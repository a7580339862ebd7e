"""A series: the numbers of a metric for one kind of period, published as one table, and the columns of a published number.

A series is determined by the metric's contract alone. Each column is defined once: name, type, and origin of the value. The table
and its rows belong to ``gold.numbers.published_table``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.calendar import periods, windows
from lakehouse.calendar.days import reach_ahead, reach_back
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.checks import GoldChecks

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract


class ColumnType(str, Enum):
    """The type of a stored column."""

    TEXT = "text"
    FLAG = "flag"
    NUMBER = "number"
    COUNT = "count"
    DAY = "day"
    TIME = "time"


class Origin(str, Enum):
    """The origin of a column's value.

    ``LINEAGE`` columns record the inputs of the number: they are kept when the same number is published again. ``CANDIDATE``
    columns are only in the table of candidates, which also has a part of the published columns.
    """

    REVISION = "revision"
    DRAFT = "draft"
    LINEAGE = "lineage"
    SIGNATURE = "signature"
    CANDIDATE = "candidate"


class Column(NamedTuple):
    """A column of a published table or of its candidates."""

    name: str
    type: ColumnType
    origin: Origin


#: The columns of a published row, in the order in which they are stored: the first ones have statistics in the table's log.
PUBLISHED = (
    Column("period", ColumnType.TEXT, Origin.REVISION),
    Column("revision", ColumnType.NUMBER, Origin.REVISION),
    Column("is_latest", ColumnType.FLAG, Origin.REVISION),
    Column("state", ColumnType.TEXT, Origin.REVISION),
    Column("due_on", ColumnType.DAY, Origin.REVISION),
    Column("reason", ColumnType.TEXT, Origin.REVISION),
    Column("published_at", ColumnType.TIME, Origin.REVISION),
    Column("superseded_at", ColumnType.TIME, Origin.REVISION),
    Column("restated_on", ColumnType.TIME, Origin.REVISION),
    Column("restatement_reason", ColumnType.TEXT, Origin.REVISION),
    Column("adjustment", ColumnType.NUMBER, Origin.REVISION),
    Column("booked_on", ColumnType.DAY, Origin.DRAFT),
    Column("version_name", ColumnType.TEXT, Origin.REVISION),
    Column("content", ColumnType.TEXT, Origin.DRAFT),
    Column("changed_rows", ColumnType.COUNT, Origin.DRAFT),
    Column("undecided_rows", ColumnType.COUNT, Origin.LINEAGE),
    Column("known_through", ColumnType.DAY, Origin.LINEAGE),
    Column("dataset_version", ColumnType.NUMBER, Origin.REVISION),
    Column("made_from", ColumnType.TEXT, Origin.LINEAGE),
    Column("inputs", ColumnType.TEXT, Origin.LINEAGE),
    Column("inputs_without", ColumnType.TEXT, Origin.LINEAGE),
    Column("dimension_inputs", ColumnType.TEXT, Origin.LINEAGE),
    Column("silver_version", ColumnType.COUNT, Origin.LINEAGE),
    Column("code_version", ColumnType.TEXT, Origin.LINEAGE),
    Column("contract_version", ColumnType.TEXT, Origin.LINEAGE),
    Column("run_id", ColumnType.TEXT, Origin.SIGNATURE),
    Column("signed_off_by", ColumnType.TEXT, Origin.SIGNATURE),
    Column("sign_off_reason", ColumnType.TEXT, Origin.SIGNATURE),
    Column("publication_id", ColumnType.TEXT, Origin.SIGNATURE),
)
_CANDIDATE_ONLY = (
    Column("step", ColumnType.TEXT, Origin.CANDIDATE),
    Column("explanation", ColumnType.TEXT, Origin.DRAFT),
    Column("failed", ColumnType.TEXT, Origin.CANDIDATE),
    Column("proposed_at", ColumnType.TIME, Origin.CANDIDATE),
)
#: The columns of a row of a metric with windows that say why the number of its window changed; empty where it did not.
WINDOW_COLUMNS = (
    Column("window_reason", ColumnType.TEXT, Origin.DRAFT),
    Column("window_changed_rows", ColumnType.COUNT, Origin.DRAFT),
)
_BY_NAME = {column.name: column for column in (*PUBLISHED, *_CANDIDATE_ONLY)}
#: The columns of a candidate, in the order in which they are stored.
CANDIDATE = tuple(
    _BY_NAME[name]
    for name in (
        *("revision", "state", "step", "reason", "explanation", "changed_rows", "undecided_rows", "known_through", "inputs"),
        *("inputs_without", "dimension_inputs", "made_from", "silver_version", "booked_on", "content", "code_version"),
        *("contract_version", "failed", "proposed_at", "run_id"),
    )
)
#: All names that grain columns and measures cannot have, including those of periods and of the row count.
RESERVED = frozenset({"event_date", "period_start", "row_count", *_BY_NAME, *(column.name for column in WINDOW_COLUMNS)})
#: The inputs of a number.
LINEAGE = tuple(column.name for column in PUBLISHED if column.origin is Origin.LINEAGE)


def named(columns: tuple[Column, ...], origin: Origin) -> tuple[str, ...]:
    """The names of the columns whose values have the given origin."""
    return tuple(column.name for column in columns if column.origin is origin)


@dataclass(frozen=True)
class Series:
    """The numbers of a metric for one kind of period, published as one table.

    ``called`` is the table's name if it differs from the metric's: a later dataset version may be served under the first
    version's name.
    """

    metric: MetricContract
    kind: Kind = Kind.DAY
    called: str | None = None

    @property
    def name(self) -> str:
        """The name of the table and of the asset."""
        return f"{self.called or self.metric.name}{self.kind.suffix}"

    @property
    def by(self) -> str:
        """The column with a period's first day, by which the table is partitioned."""
        return self.kind.column

    @property
    def grain(self) -> list[str]:
        """The columns that identify a row within a period; periods longer than a day are not divided into windows."""
        return self.metric.grain if self.kind is Kind.DAY else self.metric.whole.grain

    @property
    def content(self) -> list[str]:
        """The columns by which two numbers are compared, without the columns of the period."""
        return [*self.grain, *self.numbers]

    @property
    def numbers(self) -> list[str]:
        """The columns that count or measure something: the measures and row_count."""
        return [*(measure.name for measure in self.metric.measures), "row_count"]

    @property
    def daily(self) -> Series:
        """The daily series: itself, or the series from which a longer period is computed."""
        return Series(self.metric, Kind.DAY, self.called)

    @property
    def rollups(self) -> list[Series]:
        """The series of longer periods computed from the daily series."""
        kinds = self.metric.publication.rollups if self.kind is Kind.DAY else []
        return [Series(self.metric, Kind(kind), self.called) for kind in kinds]

    @property
    def checks(self) -> GoldChecks:
        """The contract's checks, which apply to days; longer periods have only the checks common to all numbers."""
        return self.metric.checks if self.kind is Kind.DAY else GoldChecks()

    def period(self, day: date) -> Period:
        """The period that contains ``day``."""
        return self.metric.publication.calendar.containing(day, self.kind)

    def periods(self, days: Collection[date]) -> list[Period]:
        """The periods that contain ``days``, in order, without repetition."""
        return self.metric.publication.calendar.covering(days, self.kind)


def read_period(metric: MetricContract, text: str) -> tuple[Period, datetime | None]:
    """Parse a period as a person writes it; for a window, its day and its first moment.

    :raises UnknownPeriodError: if the text names no period.
    :raises UnknownWindowError: if the metric does not have the window.
    """
    calendar = metric.publication.calendar
    if not windows.is_name(text):
        return calendar.read(text), None
    if metric.event_window is None:
        msg = f"{text!r} is no period: {metric.name} has no windows of a day; periods are named as in {periods.KNOWN_NAMES}"
        raise windows.UnknownWindowError(msg)
    day, start = metric.event_window.start_of(text)
    return calendar.containing(day, Kind.DAY), start


def source_read(metric: MetricContract, contract: SourceContract) -> SourceContract:
    """The contract of the silver table that a metric reads from the source of ``contract``."""
    entries = {entry.source: entry for entry in metric.read}
    entry = entries.get(contract.dataset, next(iter(entries.values()), None))
    return contract if entry is None else entry.read_of(contract)


def source_days(metric: MetricContract, days: Collection[date]) -> list[date]:
    """The silver days from which the numbers of ``days`` are computed.

    Overlapping windows and sessions belong to the day on which they begin, and cover rows of the next day.
    """
    return sorted(reach_back(days, 1 + metric.days_before) | reach_ahead(days, 1 + metric.days_behind))


def days_reached(metric: MetricContract, days: Collection[date]) -> set[date]:
    """The days whose numbers are computed from any of the silver days ``days``."""
    return reach_ahead(days, 1 + metric.days_before) | reach_back(days, 1 + metric.days_behind)
