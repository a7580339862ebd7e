"""The numbers of rows that came on time, late and accepted, and late and not counted: by metric, delivery or source.

Belongs here: the counts and their rates, from the counts of deliveries that ``follow`` keeps. A late row counts for each metric
that has late events, because each has its own windows and terms. Rows that a backfill plan brought are history: they are counted
apart, whatever became of them. Which of them count since their days are closed is decided in ``gold.publication.late_at_close``.

The action ``update`` patches or recomputes a published number by the share of late rows in each of its windows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar import windows
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.late_events import late_rows
from lakehouse.late_events.left_out import terms_of
from lakehouse.lateness import historical_rows
from lakehouse.lateness.rules import late_share

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    import pyarrow as pa

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake, table_io


_COUNTS = ("on_time", "late_accepted", "late_dropped")
#: The two parts of ``late_dropped``.
_PARTS = ("late_counted_at_close", "late_not_counted")


@dataclass(frozen=True)
class LateCounts:
    """The well-formed rows of a metric's source, by lateness.

    :param late_accepted: late, and counted in the metric at once; :param late_dropped: late, and not counted at once.
    :param late_counted_at_close: those of ``late_dropped`` that count since their days are closed.
    :param historical: rows that a backfill plan brought; they are not among the others.
    """

    metric: str
    on_time: int = 0
    late_accepted: int = 0
    late_dropped: int = 0
    late_counted_at_close: int = 0
    historical: int = 0

    @property
    def rows(self) -> int:
        """The number of all rows without history."""
        return self.on_time + self.late_accepted + self.late_dropped

    @property
    def late_not_counted(self) -> int:
        """The number of rows that do not count: they wait for the close of their days, or never count."""
        return self.late_dropped - self.late_counted_at_close

    @property
    def rates(self) -> dict[str, float]:
        """Each count as a share of all rows, 0 without any."""
        return {name: late_share(getattr(self, name), self.rows) for name in (*_COUNTS, *_PARTS)}

    def as_json(self) -> dict[str, object]:
        """The counts and rates in the form that the API and the commands give."""
        counts = {name: getattr(self, name) for name in (*_COUNTS, *_PARTS)}
        rates = {f"{name}_rate": rate for name, rate in self.rates.items()}
        return {"metric": self.metric, "rows": self.rows, **counts, "historical": self.historical, **rates}


def of_metric(lake: Lake, metric: MetricContract, arrivals: Collection[date] | None = None) -> LateCounts:
    """The counts of a metric with late events, as if no day were closed.

    :param arrivals: only of deliveries of these arrival days.
    """
    return of_source(lake, metric.source, [metric], arrivals)[0]


def of_source(
    lake: Lake, source: str, metrics: Collection[MetricContract], arrivals: Collection[date] | None = None
) -> list[LateCounts]:
    """The :func:`of_metric` counts of each of ``metrics`` that has late events, in their order."""
    table, names = locations.late_deliveries(lake, source), [metric.name for metric in metrics if metric.late_events]
    where: table_io.Where = {"metric": names, **({} if arrivals is None else {"arrival_date": arrivals})}
    rows = table.read(["metric", "ingestion_id", *_COUNTS], where) if names else None
    if rows is None:
        return [LateCounts(name) for name in names]
    is_history = _are_history(lake, source, rows)
    usual, historical = _sums(rows.filter(pc.invert(is_history))), _sums(rows.filter(is_history))
    none = dict.fromkeys(_COUNTS, 0)
    return [LateCounts(name, **usual.get(name, none), historical=sum(historical.get(name, none).values())) for name in names]


def _late_rows(lake: Lake, metric: MetricContract, columns: list[str], where: table_io.Where) -> pa.Table | None:
    """``columns`` of the late rows of a metric without history; None if there is no table of them yet."""
    table, where = locations.late_rows(lake, metric.source), {"metric": [metric.name], **where}
    rows = table.read(["ingestion_id", *columns], where)
    return None if rows is None else rows.filter(pc.invert(_are_history(lake, metric.source, rows)))


def _are_history(lake: Lake, source: str, rows: pa.Table) -> pa.ChunkedArray:
    """Whether each row is of a delivery that a backfill plan brought."""
    return pc.is_in(rows["ingestion_id"], value_set=historical_rows.brought_by_plans(lake, source))


def _sums(rows: pa.Table) -> dict[str, dict[str, int]]:
    sums = rows.group_by("metric").aggregate([(name, "sum") for name in _COUNTS])
    return {row["metric"]: {name: row[f"{name}_sum"] for name in _COUNTS} for row in sums.to_pylist()}


def total(counts: Collection[LateCounts], name: str) -> LateCounts:
    """The sum of ``counts``, such as those of all metrics of a source."""
    return LateCounts(name, *(sum(getattr(entry, field) for entry in counts) for field in (*_COUNTS, _PARTS[0], "historical")))


def newest_arrival(lake: Lake, metric: MetricContract) -> date | None:
    """The newest arrival day of which deliveries are counted for a metric; those of backfill plans are history."""
    table, where = locations.late_deliveries(lake, metric.source), {"metric": [metric.name]}
    rows = table.read(["ingestion_id", "arrival_date"], where)
    if rows is None:
        return None
    usual = rows.filter(pc.invert(_are_history(lake, metric.source, rows)))
    newest: date | None = pc.max(usual["arrival_date"]).as_py()
    return newest


def dropped_by_day(lake: Lake, metric: MetricContract, arrivals: Collection[date] | None = None) -> dict[date, int]:
    """The number of rows that do not count in a metric at once, by event day.

    :param arrivals: only of deliveries of these arrival days.
    """
    of_arrivals: table_io.Where = {} if arrivals is None else {"arrival_date": arrivals}
    rows = _late_rows(lake, metric, ["event_date"], {"counts": [False], **of_arrivals})
    if rows is None:
        return {}
    numbers = rows.filter(pc.is_valid(rows["event_date"])).group_by("event_date").aggregate([([], "count_all")])
    return dict(zip(numbers["event_date"].to_pylist(), numbers["count_all"].to_pylist()))


def by_event_day(lake: Lake, metric: MetricContract, days: Collection[date]) -> dict[date, LateCounts]:
    """The late rows of ``days`` in a metric; rows on time are not counted here. Days without late rows are left out."""
    rows = _late_rows(lake, metric, ["event_date", "counts"], {"event_date": days})
    if rows is None:
        return {}
    numbers = rows.group_by(["event_date", "counts"]).aggregate([([], "count_all")]).to_pylist()
    by_day: dict[date, dict[str, int]] = {}
    for row in numbers:
        by_day.setdefault(row["event_date"], {})["late_accepted" if row["counts"] else "late_dropped"] = row["count_all"]
    return {day: LateCounts(metric.name, **counts) for day, counts in by_day.items()}


def is_below_limit(lake: Lake, metric: MetricContract, day: date, published: pa.Table) -> bool:
    """Whether in every window of a day the late rows that count are a smaller share of its rows than ``patch.below``.

    :param published: the content of the newest published number of the day.
    """
    late = late_rows_by_window(lake, metric, day)
    rows = _rows_by_window(metric, day, published)
    limit = terms_of(metric).patch.below
    return all(late_share(count, max(rows[window], count)) < limit for window, count in late.items())


def late_rows_by_window(lake: Lake, metric: MetricContract, day: date) -> Counter[str]:
    """The number of late rows of an event day that count, by name of the window."""
    late = late_rows.read(lake, metric.source, {"metric": [metric.name], "event_date": [day], "counts": [True]})
    counts = pc.value_counts(pc.list_flatten(late["windows"].combine_chunks()))
    return Counter(dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist())))


def _rows_by_window(metric: MetricContract, day: date, published: pa.Table) -> Counter[str]:
    """The number of rows that the published number contains, by name of the window."""
    window, rows = metric.event_window, Counter[str]()
    starts = published[WINDOW_START].to_pylist() if window else [None] * len(published)
    for start, count in zip(starts, published["row_count"].to_pylist()):
        rows[windows.name(start, window.zone) if window and start else f"{day}"] += count
    return rows
