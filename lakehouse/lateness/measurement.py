"""The lateness of a source's rows, measured on Bronze by event type with their dispositions, and the arrival curve of its days.

Ranges are arrival days, whose rows never change. Rows that came as history (``historical_rows``) are not measured. This is the
Arrow side of ``rules``, which defines when a row is late, and of ``calendar.days``, which defines the lateness of a row.

The arrival curve has event days by age; ``completeness`` estimates from it. It is read from the key log. A row counts at the
first arrival of its key on its day: a correction makes a day no more complete. The rows of a backfill plan, and event days before
the source was followed, came as history: they are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse import locations
from lakehouse.calendar.days import end_of_day, span
from lakehouse.delta.columns import distinct_values
from lakehouse.lake import table_io, table_parts
from lakehouse.lateness import historical_rows
from lakehouse.lateness.completeness import Ages, Arrivals
from lakehouse.lateness.rules import propose, rows_within, tiers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lateness.rules import Proposal, TierLateness

_SECOND = 1_000_000
#: The columns by which the lateness of a row is measured.
_CLOCKS = ("event_ts", "event_date", "arrival_ts", "malformed_reason")
Seconds = NDArray[np.int64]


@dataclass(frozen=True)
class EventTypeLateness:
    """The rows of one event type: ``seconds`` has the lateness of each in begun seconds, sorted; ``late`` counts those beyond
    ``expected``.
    """

    event_type: str
    seconds: Sequence[int]
    late: int

    @property
    def rows(self) -> int:
        """The number of rows with a lateness."""
        return len(self.seconds)

    @property
    def on_time(self) -> int:
        """The number of rows within the lateness that the contract expects."""
        return self.rows - self.late

    @property
    def latest(self) -> int:
        """The greatest lateness of a row, in seconds."""
        return int(self.seconds[-1])

    def beyond(self, watermark: timedelta | None) -> int | None:
        """The number of rows that came later than ``watermark``; None without one."""
        return None if watermark is None else self.rows - rows_within(self.seconds, watermark)


#: The dispositions of rows that count, or have counted, and of those that wait; all others do not count.
ACCEPTED, WAITING = ("applied", "superseded", "duplicate"), ("quarantined",)


def sums_of(dispositions: Mapping[str, int]) -> dict[str, int]:
    """The number of rows that were accepted, wait for a steward, and were dropped or rejected; malformed rows count in none of
    these.
    """
    accepted = sum(dispositions.get(name, 0) for name in ACCEPTED)
    waiting = sum(dispositions.get(name, 0) for name in WAITING)
    others = sum(count for name, count in dispositions.items() if name not in {*ACCEPTED, *WAITING, "malformed"})
    return {"accepted": accepted, "quarantined": waiting, "dropped": others}


@dataclass(frozen=True)
class LatenessMeasurement:
    """The rows of a range of arrival days. ``dispositions`` counts all of them.

    :param unclocked: the number of well-formed rows without an event time.
    :param skewed: the number of rows with an event ahead of its arrival; they are in no percentile and no share.
    :param historical: the number of rows that came as history, see ``historical_rows``; they count in
        ``dispositions`` and nowhere else.
    """

    source: str
    first: date
    last: date
    types: list[EventTypeLateness] = field(default_factory=list)
    unclocked: int = 0
    dispositions: Counter[str] = field(default_factory=Counter)
    skewed: int = 0
    historical: int = 0

    @property
    def rows(self) -> int:
        """The number of rows with a lateness."""
        return sum(one.rows for one in self.types)

    @property
    def late(self) -> int:
        """The number of rows that came later than the contract expects of their event type."""
        return sum(one.late for one in self.types)

    @property
    def largest_first(self) -> list[EventTypeLateness]:
        """The event types, those with most rows first."""
        return sorted(self.types, key=lambda rows: (-rows.rows, rows.event_type))

    @property
    def next_day(self) -> date:
        """The day after the last measured arrival day; the watermark in force is that of this day."""
        return self.last + timedelta(days=1)


def newest_arrival(lake: Lake, source: str, until: date = date.max) -> date | None:
    """The newest arrival day with rows in Bronze through ``until``, from the partitions of the dispositions."""
    table = locations.dispositions(lake, source).open()
    days = [] if table is None else table_parts.files(table)
    return max((day for day in days if day <= until), default=None)


def version(lake: Lake, source: str) -> Hashable:
    """The versions of the dispositions and of the history; equal versions give equal measurements."""
    dispositions = locations.dispositions(lake, source).version()
    return dispositions, historical_rows.of_source(lake, source).state


def measure(lake: Lake, contract: SourceContract, first: date, last: date) -> LatenessMeasurement:
    """The lateness of the rows that arrived from ``first`` through ``last``; rows are read in pieces, and only their lateness is
    kept.

    Rows that came as history are counted, and left out of everything else.
    """
    where: table_io.Where = {"arrival_date": list(span(first, last))}
    by = contract.event_type_column
    columns = columns_measured(contract, by)
    seconds, late, dispositions = defaultdict[str, list[Seconds]](list), Counter[str](), Counter[str]()
    unclocked = skewed = historical = 0
    known_history = historical_rows.of_source(lake, contract.dataset)
    for piece in locations.dispositions(lake, contract.dataset).pieces(["disposition"], where):
        for row in piece.group_by("disposition").aggregate([([], "count_all")]).to_pylist():
            dispositions[row["disposition"]] += row["count_all"]
    for piece in locations.bronze(lake, contract.dataset).pieces(columns, where):
        own = measured_rows(contract, piece)
        rows = known_history.left_out(own)
        historical += len(own) - len(rows)
        every_lag = lags(rows, contract)
        lag = without_skewed(rows, every_lag)
        unclocked, skewed = unclocked + every_lag.null_count, skewed + lag.null_count - every_lag.null_count
        by_type = pa.table({"type": pc.fill_null(rows[by].cast(pa.string()), ""), "lag": lag})
        for kind, part in table_io.split(by_type.filter(pc.is_valid(lag)), "type").items():
            expected = microseconds(contract.lateness.of_type(kind).expected)
            late[kind] += pc.sum(are_late(part["lag"], expected)).as_py() or 0
            seconds[kind].append(_seconds(part["lag"]).to_numpy())
    types = [EventTypeLateness(kind, _sorted(parts), late[kind]) for kind, parts in sorted(seconds.items())]
    return LatenessMeasurement(contract.dataset, first, last, types, unclocked, dispositions, skewed, historical)


def late_dispositions(lake: Lake, contract: SourceContract, first: date, last: date) -> Counter[str]:
    """The dispositions of the rows from ``first`` through ``last`` that came later than the contract expects, counted; without
    history.
    """
    where: table_io.Where = {"arrival_date": list(span(first, last))}
    by, key = contract.event_type_column, ["ingestion_id", "line_number"]
    columns = columns_measured(contract, by, *key)
    known_history = historical_rows.of_source(lake, contract.dataset)
    late: list[pa.Table] = []
    for piece in locations.bronze(lake, contract.dataset).pieces(columns, where):
        rows = known_history.left_out(measured_rows(contract, piece))
        expected = _expected(pc.cast(rows[by], pa.string()).combine_chunks(), contract)
        bounds = expected if isinstance(expected, int) else pa.chunked_array([expected])
        late.append(rows.select(key).filter(are_late(sound_lags(rows, contract), bounds)))
    counts = Counter[str]()
    ids = pa.concat_tables(late) if late else None
    dispositions = locations.dispositions(lake, contract.dataset).pieces([*key, "disposition"], where)
    for piece in dispositions if ids is not None else ():
        of_late = piece.join(ids, key, join_type="left semi").group_by("disposition").aggregate([([], "count_all")])
        counts.update({row["disposition"]: row["count_all"] for row in of_late.to_pylist()})
    return counts


def by_day(lake: Lake, contract: SourceContract, first: date, last: date) -> dict[date, Sequence[int]]:
    """The lateness of the rows of each arrival day in begun seconds, sorted; days without rows are left out."""
    return of_days(lake, contract, span(first, last))


def of_days(lake: Lake, contract: SourceContract, days: Iterable[date]) -> dict[date, Sequence[int]]:
    """The lateness of the rows of each of ``days``, in the form of :func:`by_day`."""
    return _grouped(lake, contract, days, lambda rows: rows["arrival_date"])


def by_hour(
    lake: Lake, contract: SourceContract, first: date, last: date, clock: Literal["event", "arrival"]
) -> dict[int, Sequence[int]]:
    """The lateness of the rows of each hour of the day in begun seconds, sorted; hours without rows are left out.

    :param clock: the hour of the event or of the arrival, in the contract's time zone. An event of which only the day is known
        has no hour.
    """
    local = pa.timestamp("us", contract.clocks.timezone)
    return _grouped(lake, contract, span(first, last), lambda rows: pc.hour(rows[f"{clock}_ts"].cast(local)))


def _grouped(
    lake: Lake, contract: SourceContract, days: Iterable[date], group: Callable[[pa.Table], pa.ChunkedArray]
) -> dict[Any, Sequence[int]]:
    """The lateness of the rows of ``days`` in begun seconds, sorted, by ``group``; without history and rows of no group."""
    columns, known_history = columns_measured(contract), historical_rows.of_source(lake, contract.dataset)
    where: table_io.Where = {"arrival_date": list(days)}
    seconds = defaultdict[Any, list[Seconds]](list)
    for piece in locations.bronze(lake, contract.dataset).pieces(columns, where):
        rows = known_history.left_out(measured_rows(contract, piece))
        lag = pa.table({"group": group(rows), "seconds": _seconds(sound_lags(rows, contract))})
        judged = lag.filter(pc.and_(pc.is_valid(lag["seconds"]), pc.is_valid(lag["group"])))
        for key, part in table_io.split(judged, "group").items():
            seconds[key].append(part["seconds"].to_numpy())
    return {key: _sorted(parts) for key, parts in sorted(seconds.items())}


def lags(rows: pa.Table, contract: SourceContract) -> pa.ChunkedArray:
    """Lateness in microseconds, as ``calendar.days.lateness`` gives it for one row; NULL without an event time.

    :param rows: of Bronze, with ``event_ts``, ``event_date``, ``arrival_ts``.
    """
    time, zone = pa.timestamp("us", "UTC"), ZoneInfo(contract.clocks.timezone)
    # Only these: the end of the calendar's last day does not exist.
    days = pc.unique(rows["event_date"].filter(pc.is_null(rows["event_ts"])))
    ends = pa.array([None if day is None else end_of_day(day, zone) for day in days.to_pylist()], time)
    event = pc.coalesce(rows["event_ts"].cast(time), ends.take(pc.index_in(rows["event_date"], days)))
    return pc.subtract(rows["arrival_ts"].cast(time).cast(pa.int64()), event.cast(pa.int64()))


def judged(rows: pa.Table, contract: SourceContract) -> tuple[pa.Array, pa.Array]:
    """The lateness of each row in microseconds (at least 0), and whether it is later than the contract expects."""
    lag = pc.max_element_wise(pc.fill_null(lags(rows, contract), 0), 0).combine_chunks()
    return lag, are_late(lag, _expected(rows[contract.event_type_column].combine_chunks(), contract))


def _expected(types: pa.Array, contract: SourceContract) -> pa.Array | int:
    """The lateness that the contract expects of each event type, in microseconds."""
    if contract.lateness.by is None:
        return microseconds(contract.lateness.expected)
    distinct, which = distinct_values(types)
    bounds = [contract.lateness.of_type(None if kind is None else str(kind)).expected for kind in distinct.to_pylist()]
    of_none = microseconds(contract.lateness.of_type(None).expected)
    return pc.fill_null(pa.array(map(microseconds, bounds), pa.int64()).take(which), of_none)


def are_skewed(rows: pa.Table, lag: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether the event of each row lies ahead of its arrival (clock skew); never where only the day of the event is known."""
    return pc.and_(pc.is_valid(rows["event_ts"]), pc.fill_null(pc.less(lag, 0), False))


def sound_lags(rows: pa.Table, contract: SourceContract) -> pa.ChunkedArray:
    """The :func:`lags` for percentiles, shares and proposals: NULL also for skewed rows."""
    return without_skewed(rows, lags(rows, contract))


def without_skewed(rows: pa.Table, lag: pa.ChunkedArray) -> pa.ChunkedArray:
    """``lag``, with NULL for skewed rows."""
    return pc.if_else(are_skewed(rows, lag), pa.scalar(None, pa.int64()), lag)


def clocked(contract: SourceContract, rows: pa.Table, sound: pa.ChunkedArray) -> pa.Table:
    """The input of the event-time watermark: the columns ``happened_at``, ``is_skewed`` and ``is_marker``.

    An event ahead of its arrival is taken to have happened when it arrived; an event of which only the day is known, at the end
    of that day. NULL for malformed rows and those without an event time.

    :param rows: of Bronze, with the columns of :func:`lags`, and the column of the contract's marker.
    :param sound: whether each row is well formed.
    """
    time = pa.timestamp("us", "UTC")
    lag = pc.if_else(sound, lags(rows, contract), pa.scalar(None, pa.int64()))
    arrived = rows["arrival_ts"].cast(time)
    happened = pc.subtract(arrived.cast(pa.int64()), pc.max_element_wise(lag, 0, skip_nulls=False)).cast(time)
    marked = pa.chunked_array([pa.repeat(False, len(rows))])
    if contract.marker:
        marked = pc.and_(pc.is_valid(lag), _has_marker(rows[contract.marker.column], contract.marker.value))
    return pa.table({"happened_at": happened, "is_skewed": are_skewed(rows, lag), "is_marker": marked})


def are_marker_records(contract: SourceContract, rows: pa.Table) -> pa.ChunkedArray:
    """Whether each row is a marker record, which counts in no number; see ``SourceContract.marker_field``.

    :param rows: of Bronze, with the column of the marker.
    """
    if contract.marker is None or contract.marker_field is None:
        return pa.chunked_array([pa.repeat(False, len(rows))])
    return _has_marker(rows[contract.marker.column], contract.marker.value)


def _has_marker(values: pa.ChunkedArray, marker: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(values.cast(pa.string()), marker), False)


def measured_rows(contract: SourceContract, rows: pa.Table) -> pa.Table:
    """The rows of Bronze that have a lateness of their own: well-formed ones that are not marker records."""
    return rows.filter(pc.and_not(pc.is_null(rows["malformed_reason"]), are_marker_records(contract, rows)))


def columns_measured(contract: SourceContract, *more: str) -> list[str]:
    """The columns of Bronze that measuring needs."""
    of_marker = [contract.marker.column] if contract.marker else []
    return list(dict.fromkeys([*_CLOCKS, *historical_rows.COLUMNS, *of_marker, *more]))


def are_late(lags: pa.ChunkedArray, bounds: pa.ChunkedArray | int | None) -> pa.ChunkedArray:
    """The Arrow form of ``lateness.rules.is_late``: whether each row came later than its bound; never NULL.

    :param lags: see :func:`lags`.
    :param bounds: the bound of each row in microseconds, NULL for none; or one for all rows.
    """
    return pc.fill_null(pc.greater(lags, bounds), False)


def microseconds(span: timedelta) -> int:
    """A duration in the unit of :func:`lags`."""
    return span // timedelta(microseconds=1)


def _seconds(lag: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lateness in begun seconds; NULL without an event time."""
    return pc.ceil(pc.divide(lag.cast(pa.float64()), float(_SECOND))).cast(pa.int64())


def sorted_seconds(lag: pa.Array) -> Sequence[int]:
    """Lateness in begun seconds, sorted; rows without a lateness are left out.

    :param lag: see :func:`lags`.
    """
    return _sorted([_seconds(pa.chunked_array([lag.drop_null()])).to_numpy()])


def _sorted(parts: Sequence[Any]) -> Sequence[int]:
    return cast("Sequence[int]", np.sort(np.concatenate(parts))) if parts else []


def together(types: Iterable[EventTypeLateness]) -> Sequence[int]:
    """The lateness of the rows of all ``types``, sorted."""
    parts = [entry.seconds for entry in types]
    return parts[0] if len(parts) == 1 else _sorted(parts)


def pools(contract: SourceContract, measured: LatenessMeasurement) -> dict[str | None, Sequence[int]]:
    """The lateness of rows, sorted, by event type with its own bounds; under None that of all other event types together."""
    own = sorted(contract.lateness.by.values) if contract.lateness.by else []
    found: dict[str | None, Sequence[int]] = {None: together(one for one in measured.types if one.event_type not in own)}
    return found | {kind: together(one for one in measured.types if one.event_type == kind) for kind in own}


def proposals(contract: SourceContract, measured: LatenessMeasurement, on: date | None = None) -> dict[str | None, Proposal]:
    """The watermarks that are proposed for each of the :func:`pools`.

    :param on: the arrival day whose watermark they are compared with; default: the day after the measured ones.
    """
    day = on or measured.next_day
    proposed: dict[str | None, Proposal] = {}
    for kind, seconds in pools(contract, measured).items():
        terms = contract.lateness.as_of(kind, day)
        proposed[kind] = propose(seconds, terms.watermark, terms.tuning)
    return proposed


def beyond_tiers(contract: SourceContract, measured: LatenessMeasurement) -> list[TierLateness]:
    """The rows of all event types beyond each tier of the contract."""
    return tiers_of(contract.lateness.tiers, together(measured.types))


def window(newest: date, days: int) -> tuple[date, date]:
    """The first and the last of the ``days`` arrival days that end with ``newest``."""
    return newest - timedelta(days=days - 1), newest


#: The number of event days that are read; older days do not show the present behaviour of a source.
_DAYS = 400
_HOUR = 3600
_COLUMNS = ["record_key", "kind", "event_date", "arrival_ts", "arrival_date", "standing"]


def curve_version(lake: Lake, source: str) -> Hashable:
    """The versions that the curve depends on, of the key log and of the history; equal versions give equal curves."""
    claims = locations.key_log(lake, source).version()
    return claims, historical_rows.of_source(lake, source).state


def read_curve(lake: Lake, contract: SourceContract) -> Arrivals | None:
    """The arrival curve of the newest event days; None where nothing has arrived."""
    known = historical_rows.of_source(lake, contract.dataset)
    columns = [*_COLUMNS, *(["ingestion_id"] if len(known.planned) else [])]
    claims = locations.key_log(lake, contract.dataset).read(columns, None)
    if claims is not None and len(known.planned):
        claims = claims.filter(pc.invert(pc.is_in(claims["ingestion_id"], value_set=known.planned)))
    if claims is None or not len(claims):
        return None
    first, newest = pc.min(claims["arrival_date"]).as_py(), pc.max(claims["arrival_ts"]).as_py()
    oldest = max(first, newest.date() - timedelta(days=_DAYS))
    lives = pc.and_(pc.is_in(claims["kind"], pa.array(["insert", "correct"])), pc.equal(claims["standing"], "admitted"))
    recent = pc.greater_equal(claims["event_date"], pa.scalar(oldest, pa.date32()))
    rows = claims.filter(pc.fill_null(pc.and_kleene(lives, recent), False))
    first_arrivals = rows.group_by(["record_key", "event_date"]).aggregate([("arrival_ts", "min")])
    return Arrivals(oldest, newest, _ages(first_arrivals, ZoneInfo(contract.clocks.timezone)))


def _ages(first_arrivals: pa.Table, zone: ZoneInfo) -> dict[date, Ages]:
    """Per event day, how many rows arrived at each age."""
    days = pc.unique(first_arrivals["event_date"])
    ends = pa.array([end_of_day(day, zone) for day in days.to_pylist()], pa.timestamp("us", "UTC"))
    end = ends.cast(pa.int64()).take(pc.index_in(first_arrivals["event_date"], days))
    age = pc.subtract(first_arrivals["arrival_ts_min"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), end)
    hours = pc.ceil(pc.divide(age.cast(pa.float64()), float(_HOUR * 1_000_000))).cast(pa.int64())
    by_age = pa.table({"day": first_arrivals["event_date"], "hour": hours}).group_by(["day", "hour"])
    ages: dict[date, dict[int, int]] = defaultdict(dict)
    for row in by_age.aggregate([([], "count_all")]).to_pylist():
        ages[row["day"]][row["hour"]] = row["count_all"]
    return {day: Ages.counted(rows) for day, rows in ages.items()}
