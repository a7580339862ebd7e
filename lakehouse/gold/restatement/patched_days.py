"""A day's number from its published number and what changed since: the windows, or the rows, that a change of Silver touches.

By windows, those in which a changed row lies or lay are computed. The other windows are taken from the published number, which
was computed from silver when the metric last followed it. Days for which that is not certain, days that a person has materialized
again without a change of silver, and metrics that read more than one table, are left to ``metric_query``.

By rows, the published number is patched with the Silver rows changed since, without reading the other rows. This is exact if
every measure is additive, an integer or a decimal, and 0 over no rows; other metrics are computed from all rows. The contract
limits how many changed rows a patch may have (``publication.patch_up_to``).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from decimal import localcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts.publication import LateAction
from lakehouse.contracts.series import source_days
from lakehouse.contracts.sql_expressions import places_of_sums
from lakehouse.contracts.windows import WINDOW_START, EventWindow
from lakehouse.delta import change_feed, provenance
from lakehouse.delta.columns import arrow_type
from lakehouse.gold import isolation
from lakehouse.gold.numbers import history
from lakehouse.gold.publication import candidates, held_numbers
from lakehouse.gold.restatement import lineage, metric_query
from lakehouse.gold.restatement import silver_rows as rows_read
from lakehouse.lake import table_io
from lakehouse.late_events import counters, left_out
from lakehouse.ledger import failures, redactions
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

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
            return rows.where(rows_read.lie_within(starts, window.size))
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


def numbers_of_windows(
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
    of_contract = versions_of(before, _of_present_code(before, days))
    adjusted = {day for day, published in before.published_states.items() if published.restated}
    unsettled = {candidate.start for candidate in candidates.held(lake, series, days)} | adjusted
    unsettled |= failures.failing(lake, series.name, days).keys()
    unsettled |= held_numbers.find_refused(lake, series, before.existing, days).keys()
    unsettled |= held_numbers.released_periods(lake, series.name).keys()
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
    return rows_read.with_windows(rows, window).select(WINDOW_START).distinct().toArrow()


def _spliced(metric: MetricContract, published: pa.Table, touched: Touched, computed: pa.Table | None) -> pa.Table:
    """The rows of a day: unaffected windows as published, the others as computed."""
    kept = published.filter(pc.and_(pc.greater(published["row_count"], 0), pc.invert(touched.is_of(published))))
    rows = kept if computed is None else pa.concat_tables([kept, computed.select(kept.column_names).cast(kept.schema)])
    return rows.sort_by([(name, "ascending") for name in metric.grain])


_Numbers = dict[tuple[Any, ...], list[Any]]


def may_be_patched(metric: MetricContract) -> bool:
    """Whether the contract allows patches, and a number adds up row by row.

    A metric with late events allows patches by the action ``update``.
    """
    terms = metric.late_events
    allowed = terms.action is LateAction.UPDATE if terms else bool(metric.publication.patch_up_to)
    return allowed and metric.adds_up_row_by_row


def _any_rounds(metric: MetricContract, columns: pa.Schema) -> bool:
    """Whether a measure may be rounded: the sum of two rounded numbers is not the rounded number of both."""
    known = {
        column.name: getattr(column.type, "scale", 0)
        for column in columns
        if pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)
    }
    for measure in metric.measures:
        kind, places = arrow_type(measure.type), places_of_sums(measure.sql, known)
        if places is None or places > getattr(kind, "scale", 0):
            return True
    return False


def numbers(
    session: Callable[[], SparkSession],
    lake: Lake,
    before: SeriesSnapshot,
    days: Collection[date],
    made_from: lineage.SilverInputs | None = None,
) -> dict[date, pa.Table]:
    """The numbers of the days that can be patched, equal to those of ``metric_query.numbers``; other days are left out.

    :param made_from: the inputs of the present version of Silver, if they are already known.
    """
    metric = before.series.metric
    since = versions_of(before, days) if may_be_patched(metric) else {}
    since = _without_much_late(lake, before, since, made_from) if metric.late_events else since
    # Published numbers are masked before Silver is (see ``stewardship.redact``): until then they do not match.
    masked = set().union(*redactions.touched(lake, metric.source).values()) if since else set()
    since = {day: version for day, version in since.items() if day not in masked}
    table = locations.silver_read(lake, metric).open()
    if not since or table is None or _any_rounds(metric, pa.schema(table.schema().to_arrow())):
        return {}
    try:
        feed = change_feed.feed_of(table, min(since.values()) + 1, table.version())
    except change_feed.ForgottenFeedError:
        return {}
    changes_by_day = {day: rows for day, rows in table_io.split(feed, "event_date").items() if day in since}
    newer = {day: rows.filter(pc.greater(rows["_commit_version"], since[day])) for day, rows in changes_by_day.items()}
    at_most = lake.settings.held_rows if metric.late_events else metric.publication.patch_up_to
    small = {day: rows for day, rows in newer.items() if len(rows) <= at_most}
    nothing = metric_query.nothing(session, lake, metric) if small else None
    if nothing is None or any(nothing[measure.name][0].as_py() != 0 for measure in metric.measures):
        return {}
    try:
        values_by_day = _patches(session(), before, small)
        return {
            day: _as_table(metric, values, before.latest[day].schema) if values else nothing
            for day, values in values_by_day.items()
            if all(counts[-1] >= 0 for counts in values.values())
        }
    except Exception as problem:
        if not isolation.is_of_a_value(problem):
            raise
        return {}  # the changed rows cannot be computed; all rows of a day may, or fail day by day


def _patches(spark: SparkSession, before: SeriesSnapshot, changes: Mapping[date, pa.Table]) -> dict[date, _Numbers]:
    """The new values of each day, from its changes of Silver."""
    metric, rows = before.series.metric, pa.concat_tables(changes.values())
    after = pc.is_in(rows["_change_type"], pa.array(change_feed.AFTER))
    columns = [name for name in rows.column_names if not name.startswith("_")]
    sides = [
        metric_query.of_days(dataframes.local(spark, side.select(columns)), metric, changes)
        for side in (rows.filter(after), rows.filter(pc.invert(after)))
    ]
    return {day: _added(metric, before.latest[day], sides[0].get(day), sides[1].get(day)) for day in changes}


def versions_of(before: SeriesSnapshot, days: Collection[date]) -> dict[date, int]:
    """The Silver version of the newest number of each day that was computed under the present contract."""
    if before.existing is None:
        return {}
    newest = before.existing.filter(before.existing["is_latest"])
    contract = provenance.of_contract(before.series.metric)
    named = newest.select([before.series.by, "silver_version", "contract_version"]).to_pylist()
    known = {row[before.series.by]: row["silver_version"] for row in named if row["contract_version"] == contract}
    return {day: version for day, version in known.items() if version is not None and day in days}


def _without_much_late(
    lake: Lake, before: SeriesSnapshot, since: Mapping[date, int], made_from: lineage.SilverInputs | None
) -> dict[date, int]:
    """The days with a small share of late rows whose published number and new number both contain all rows of Silver."""
    metric, read = before.series.metric, before.series.metric.late_source
    few = [day for day in since if counters.is_below_limit(lake, metric, day, before.latest[day])]
    if read is None or before.existing is None or not few:
        return {}
    newest = before.existing.filter(before.existing["is_latest"]).select([before.series.by, "inputs", "inputs_without"])
    then = {row[before.series.by]: (row["inputs"], row["inputs_without"]) for row in newest.to_pylist() if row["inputs"]}
    concerned, now = set[date](), made_from or lineage.of_late_source(lake, read)
    for day in few:
        of_then = lineage.ids_by_day(lake, metric.source, *then[day], [day]) if day in then else {}
        for named in (now.by_day([day]), of_then):
            late = left_out.on_days(lake, metric, read, named, named.get(day, ())) if named else None
            concerned |= {day} if late is not None or not named else set()
    return {day: since[day] for day in few if day not in concerned}


def _added(metric: MetricContract, published: pa.Table, plus: pa.Table | None, minus: pa.Table | None) -> _Numbers:
    """The published values plus new minus old values by grain, without grain values that have no rows left."""
    names = [*(measure.name for measure in metric.measures), "row_count"]
    sums: _Numbers = defaultdict(lambda: [0 for _ in names])
    for rows, sign in ((published, 1), (plus, 1), (minus, -1)):
        for row in [] if rows is None else rows.to_pylist():
            if rows is published and not row["row_count"]:
                continue  # the row of an empty day
            values = sums[tuple(row[name] for name in metric.grain)]
            with localcontext(history.EXACT):
                for position, name in enumerate(names):
                    values[position] += sign * row[name]
    return {grain: values for grain, values in sums.items() if values[-1]}


def _as_table(metric: MetricContract, values: Mapping[tuple[Any, ...], list[Any]], schema: pa.Schema) -> pa.Table:
    names = [*metric.grain, *(measure.name for measure in metric.measures), "row_count"]
    rows = [dict(zip(names, [*grain, *own])) for grain, own in values.items()]
    made = pa.Table.from_pylist(rows, schema=pa.schema([schema.field(name) for name in names]))
    return made.sort_by([(name, "ascending") for name in metric.grain]) if metric.grain else made
