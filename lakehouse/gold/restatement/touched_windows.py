"""A day's number from its published windows and from newly computed windows: those in which a changed row lies or lay.

The other windows are taken from the published number, which was computed from silver when the metric last followed it. Days for
which that is not certain, days that a person has materialized again without a change of silver, and metrics that read more than
one table, are left to ``metric_query``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts.series import source_days
from lakehouse.contracts.windows import WINDOW_START, EventWindow
from lakehouse.delta import change_feed, provenance
from lakehouse.gold.publication import candidates, reverted_periods
from lakehouse.gold.publication.held_numbers import find_refused
from lakehouse.gold.restatement import metric_query, patched_days
from lakehouse.gold.rows_read import rows as rows_read
from lakehouse.gold.rows_read import windows
from lakehouse.ledger import failed_numbers, redactions
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import date, datetime

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.gold.publication.write_audit_publish import SeriesSnapshot
    from lakehouse.gold.restatement.pending import PendingRestatement
    from lakehouse.lake import Lake


#: With more changed rows, windows or keys, all rows of the days are read.
_MOST_ROWS = 100_000
_MOST_PARTS = 1_000


@dataclass(frozen=True)
class Touched:
    """The parts of days that changed rows concern: windows by their first moment, or sessions by their key.

    :param parts: a row for each, with the columns that identify the rows of a number.
    """

    metric: MetricContract
    parts: pa.Table

    @property
    def starts(self) -> list[datetime | None] | None:
        """The first moments of the windows; None for sessions: all sessions of a key are computed."""
        return self.parts[WINDOW_START].to_pylist() if WINDOW_START in self.parts.column_names else None

    def rows(self, rows: DataFrame) -> DataFrame:
        """Those silver ``rows`` that can lie in these windows or sessions."""
        window, starts = self.metric.event_window, self.starts
        if starts is not None and isinstance(window, EventWindow):
            return rows.where(windows.lie_within(starts, window.size))
        keys = dataframes.local(rows.sparkSession, self.parts).select(*(F.col(name).alias(f"_{name}") for name in self._columns))
        same = [rows[name].eqNullSafe(keys[f"_{name}"]) for name in self._columns]
        return rows.join(F.broadcast(keys), same, "left_semi")

    def is_of(self, numbers: pa.Table) -> pa.Array:
        """Whether each row of a day's number belongs to these windows or sessions."""
        wanted = {tuple(row.values()) for row in self.parts.to_pylist()}
        found = numbers.select(self._columns).to_pylist()
        return pa.array([tuple(row.values()) in wanted for row in found], pa.bool_())

    @property
    def _columns(self) -> list[str]:
        return list(self.parts.schema.names)


def may_be_spliced(metric: MetricContract) -> bool:
    """Whether the number of a window depends only on the rows of one silver table that lie in it.

    With late events, other rows may count in a window although no row of silver has changed.
    """
    return metric.event_window is not None and not (metric.joins or metric.sources or metric.late_events)


def numbers(
    session: Callable[[], SparkSession],
    lake: Lake,
    before: SeriesSnapshot,
    days: Collection[date],
    follows: PendingRestatement | None,
) -> dict[date, pa.Table]:
    """The numbers of the days that can be computed in this way, equal to those of ``metric_query.numbers``; other days are left
    out.

    A day without any remaining window has a number without rows.

    :param follows: the changes of silver that the run responds to.
    """
    metric = before.series.metric
    if follows is None or not may_be_spliced(metric):
        return {}
    settled = _settled(lake, before, [day for day in days if day in follows.starts])
    if not settled:
        return {}
    spark = session()
    touched = find_touched(spark, lake, metric, settled, follows)
    if touched is None:
        return {}
    rows = touched.rows(rows_read.silver_rows(spark, lake, metric, settled))
    computed = metric_query.of_days(rows, metric, settled, touched.starts)
    return {day: _spliced(metric, before.latest[day], touched, computed.get(day)) for day in settled}


def _settled(lake: Lake, before: SeriesSnapshot, days: Collection[date]) -> list[date]:
    """The days whose published number was computed from the version of silver that the metric has followed."""
    metric, series = before.series.metric, before.series
    of_contract = patched_days.versions_of(before, _of_present_code(before, days))
    adjusted = {day for day, published in before.published_states.items() if published.restated}
    unsettled = {candidate.start for candidate in candidates.held(lake, series, days)} | adjusted
    unsettled |= failed_numbers.failing(lake, series.name, days).keys()
    unsettled |= find_refused(lake, series, before.existing, days).keys() | reverted_periods.released(lake, series.name).keys()
    # Published numbers are masked before Silver is (see ``stewardship.redact``): until then they do not match.
    unsettled |= set().union(*redactions.touched(lake, metric.source).values())
    return [day for day in sorted(of_contract) if unsettled.isdisjoint({day, *source_days(metric, [day])})]


def _of_present_code(before: SeriesSnapshot, days: Collection[date]) -> set[date]:
    """The days whose number was computed by the present code: results of other code are not reused."""
    if before.existing is None:
        return set()
    newest = before.existing.filter(before.existing["is_latest"]).select([before.series.by, "code_version"])
    of_code = newest.filter(pc.equal(newest["code_version"], provenance.code()))
    return set(of_code[before.series.by].to_pylist()).intersection(days)


def find_touched(
    spark: SparkSession, lake: Lake, metric: MetricContract, days: Collection[date], follows: PendingRestatement
) -> Touched | None:
    """The windows or sessions of rows that changed since the metric followed silver; None if there are many, or the feed
    is gone.
    """
    table = locations.silver_read(lake, metric).open()
    if table is None or metric.event_window is None or follows.since < 0:
        return None
    of_sessions = [name for name in metric.event_window.columns if name != WINDOW_START]
    try:
        changed = change_feed.feed_at_most(
            table, follows.since, table.version(), ["event_date", "event_ts", *of_sessions], _MOST_ROWS
        )
    except change_feed.ForgottenFeedError:
        return None
    if changed is None:
        return None
    of_days = changed.filter(pc.is_in(changed["event_date"], pa.array(source_days(metric, days), pa.date32())))
    parts = of_days.select(of_sessions) if of_sessions else _starts(spark, metric, of_days)
    parts = parts.group_by(parts.column_names).aggregate([])
    return Touched(metric, parts) if len(parts) <= _MOST_PARTS else None


def _starts(spark: SparkSession, metric: MetricContract, changed: pa.Table) -> pa.Table:
    """The first moments of the windows in which ``changed`` rows lie."""
    window = metric.event_window
    if window is None or not len(changed):
        return pa.table({WINDOW_START: pa.nulls(0, pa.timestamp("us", "UTC"))})
    rows = dataframes.local(spark, changed.select(["event_date", "event_ts"]))
    return windows.with_windows(rows, window).select(WINDOW_START).distinct().toArrow()


def _spliced(metric: MetricContract, published: pa.Table, touched: Touched, computed: pa.Table | None) -> pa.Table:
    """The rows of a day: unaffected windows as published, the others as computed."""
    kept = published.filter(pc.and_(pc.greater(published["row_count"], 0), pc.invert(touched.is_of(published))))
    rows = kept if computed is None else pa.concat_tables([kept, computed.select(kept.column_names).cast(kept.schema)])
    return rows.sort_by([(name, "ascending") for name in metric.grain])
