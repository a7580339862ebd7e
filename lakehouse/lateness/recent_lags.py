"""The lags of a source's newest arrivals, from Bronze, by the data's own clocks (rule R5).

Only facts are read here; the alerts based on them are in ``operations.alerts.rules``. Only arrival days with arrivals of the
requested time are read, by the statistics of their files, and of these only a few narrow columns. Rows are judged by the
contract's present watermark: the key log records the judgement at the time of arrival, and no lag.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.lake import table_io, table_parts
from lakehouse.lake.delta_rs_internals import listed_files
from lakehouse.lateness import historical_rows, measurement
from lakehouse.lateness.rules import ArrivalCount, LagPercentile, nearest_rank

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

_TIME = pa.timestamp("us", "UTC")
_DAY = timedelta(days=1)
_AT_ONCE = 1000


@dataclass(frozen=True)
class RecentArrivals:
    """The well-formed rows of Bronze that arrived in a number of days through ``newest``.

    :param rows: ``arrival_ts``; ``lag`` in microseconds, empty without an event time and for a skewed row; ``late``, beyond the
        cutoff; ``unexpected``, later than the contract expects.
    """

    newest: datetime
    rows: pa.Table

    def by_time(self) -> Iterator[ArrivalCount]:
        """The rows by the second in which they arrived, the newest first."""
        seconds = pc.floor_temporal(self.rows["arrival_ts"], unit="second")
        counted = pa.table({"at": seconds, "late": self.rows["late"].cast(pa.int64())})
        found = counted.group_by("at").aggregate([("late", "count"), ("late", "sum")]).sort_by([("at", "descending")])
        for batch in found.select(["at", "late_count", "late_sum"]).to_batches(_AT_ONCE):
            yield from map(ArrivalCount, *(column.to_pylist() for column in batch.columns))

    def seconds(self, after: datetime, through: datetime) -> Sequence[int]:
        """The lateness of the rows that arrived after ``after`` and through ``through``, in begun seconds, sorted."""
        return measurement.sorted_seconds(self._lags(after, through))

    def late(self, after: datetime, through: datetime) -> tuple[int, int]:
        """The number of rows that arrived after ``after`` and through ``through``, and of those beyond the cutoff."""
        late = self._arrived("late", after, through)
        return len(late), pc.sum(late).as_py() or 0

    def unexpected(self, after: datetime, through: datetime) -> int:
        """The number of rows that arrived after ``after`` and through ``through``, and later than expected."""
        return pc.sum(self._arrived("unexpected", after, through)).as_py() or 0

    def _arrived(self, column: str, after: datetime, through: datetime) -> pa.ChunkedArray:
        """A column of the rows that arrived after ``after`` and through ``through``."""
        there = self.rows["arrival_ts"]
        return self.rows[column].filter(pc.and_(pc.greater(there, _scalar(after)), pc.less_equal(there, _scalar(through))))

    def _lags(self, after: datetime, through: datetime) -> pa.Array:
        """The lags of the rows that arrived after ``after`` and through ``through``."""
        return self._arrived("lag", after, through).drop_null().combine_chunks()

    def p99(self, after: datetime, through: datetime) -> LagPercentile:
        """The 99th percentile (nearest rank) of the lags of the rows that arrived after ``after`` and through ``through``."""
        lags = self._lags(after, through)
        if not len(lags):
            return LagPercentile(0, None)
        place = nearest_rank(len(lags), "0.99")
        at_place = pc.partition_nth_indices(lags, pivot=place)[place].as_py()
        return LagPercentile(len(lags), timedelta(microseconds=lags[at_place].as_py()))


def newest(lake: Lake, contract: SourceContract, days: int) -> RecentArrivals | None:
    """The arrivals of the last ``days + 1`` days up to the newest one; None if there are none.

    Rows that arrive after the clock's time, and rows that came as history, are left out.
    """
    table = locations.bronze(lake, contract.dataset).open()
    now = lake.now()
    if table is None:
        return None
    columns = measurement.columns_measured(contract, *([contract.lateness.by.column] if contract.lateness.by else []))
    rows = measurement.measured_rows(
        contract, table_io.read_version(table, columns, {"arrival_date": _arrival_days(table, now, days)})
    )
    rows = rows.filter(pc.less_equal(rows["arrival_ts"].cast(_TIME), _scalar(now)))
    rows = historical_rows.of_source(lake, contract.dataset).left_out(rows)
    arrived = rows["arrival_ts"].cast(_TIME)
    through = pc.max(arrived).as_py()
    if through is None:
        return None
    lags = measurement.sound_lags(rows, contract)
    late, unexpected = (measurement.are_late(lags, bounds) for bounds in _bounds(rows, contract))
    found = pa.table({"arrival_ts": arrived, "lag": lags, "late": late, "unexpected": unexpected})
    return RecentArrivals(through, found.filter(pc.greater(arrived, _scalar(through - timedelta(days=days + 1)))))


def _arrival_days(table: DeltaTable, now: datetime, days: int) -> set[object]:
    """The arrival days in files with arrivals of the requested time.

    A file without statistics is selected by its arrival days; one without bounds of these, too, may have any.
    """
    files = listed_files(table)
    spans = table_parts.spans(table, files)
    first_day, last_day = (
        pa.array([span[end] for span in spans], pa.date32()).cast(pa.timestamp("us")).cast(_TIME) for end in (0, 1)
    )
    nothing = pa.nulls(len(files), _TIME)
    first, last = (
        files[name].cast(_TIME) if name in files.column_names else nothing for name in ("min.arrival_ts", "max.arrival_ts")
    )
    # Statistics are truncated by less than a day.
    last = pc.add(pc.coalesce(last, last_day, _scalar(now)), pa.scalar(_DAY, pa.duration("us")))
    known = files.append_column("first", pc.coalesce(first, first_day, _scalar(now))).append_column("last", last)
    known = known.filter(pc.less_equal(known["first"], _scalar(now)))
    if not len(known):
        return set()
    newest_day = min(pc.max(known["last"]).as_py(), now)
    found = known.filter(pc.greater_equal(known["last"], _scalar(newest_day - timedelta(days=days + 2))))
    return {day for _, days_of_file in table_parts.rows_of_files(table, found) for day in days_of_file}


def _bounds(rows: pa.Table, contract: SourceContract) -> Iterator[pa.ChunkedArray]:
    """The cutoff of each row in microseconds, by its event type and arrival day, NULL without one; and what is expected of it."""
    bounds = contract.lateness
    days = pc.unique(rows["arrival_date"])
    types = rows[bounds.by.column].cast(pa.string()) if bounds.by else pa.chunked_array([pa.nulls(len(rows), pa.string())])
    words = pc.unique(types)
    own = [bounds.as_of(word, day) for word in words.to_pylist() for day in days.to_pylist()]
    places = pc.add(pc.multiply(pc.index_in(types, words), len(days)), pc.index_in(rows["arrival_date"], days))
    for spans in ([each.watermark for each in own], [each.expected for each in own]):
        numbers = [None if span is None else measurement.microseconds(span) for span in spans]
        yield pa.chunked_array([pa.array(numbers, pa.int64())]).take(places)


def _scalar(moment: datetime) -> pa.Scalar:
    return pa.scalar(moment, _TIME)
