"""Reconciles a day of a live metric: the stream's numbers, the published numbers, and the causes of each difference, by window.

It works for a day in any state: also while the stream runs, and before the day is final. The result is a function of the tables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.gold.numbers import published_table
from lakehouse.lake import table_io
from lakehouse.live import batches as live_batches
from lakehouse.live import causes, reconciliation_log, row_sets, table
from lakehouse.live.causes import Reconciled, RowSet, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


#: By grain (the window first, if there is one) the values of measures.
_Groups = Mapping[tuple[Any, ...], Mapping[str, Any]]


class DayReconciliation(NamedTuple):
    """The reconciliation of a day, and whether it differs from the recorded one."""

    entries: list[Reconciled]
    is_new: bool


class _LiveState(NamedTuple):
    """The live numbers of a day, and the batches whose rows they count."""

    numbers: _Groups
    query: str | None
    batch: int
    batches: pa.Table


def reconcile(
    session: Callable[[], SparkSession], lake: Lake, metric: MetricContract, contract: SourceContract, day: date
) -> DayReconciliation:
    """Reconcile a day, and record the result if it is new.

    :param session: returns the Spark session.
    :raises IncompleteKeyLogError: when the operational tables were lost and Bronze has to be run again first.
    """
    before = reconciliation_log.newest(lake, metric.name, day)
    live = _live(lake, metric, day)
    revision, books = _books(lake, metric, day)
    sets = _sets(metric, row_sets.measured(session(), lake, metric, contract, day, live.batches))
    expired = _expired(metric, before, live)
    entries = []
    groups = {*live.numbers, *expired, *books, *(group for numbers in sets for group in numbers)}
    for group in sorted(groups, key=in_order):
        stream = live.numbers.get(group, expired.get(group, {}))
        for measure in _compared(metric):
            values = [numbers.get(group, {}).get(measure) for numbers in sets]
            published = books.get(group, {}).get(measure)
            entries.append(_entry(lake, metric, day, group, measure, stream, values, published, live, revision))
    return DayReconciliation(entries, reconciliation_log.record(lake, before, entries))


def _entry(
    lake: Lake,
    metric: MetricContract,
    day: date,
    group: tuple[Any, ...],
    measure: str,
    stream: Mapping[str, Any],
    values: list[Any],
    published: Any,
    live: _LiveState,
    revision: int,
) -> Reconciled:
    gap = causes.difference(stream.get(measure), published)
    grain = dict(zip(metric.grain, group))
    return Reconciled(
        metric=metric.name,
        day=day,
        number=0,
        window_start=grain.pop(WINDOW_START, None),
        grain=grain,
        measure=measure,
        live=_text(stream.get(measure)),
        books=_text(published),
        difference=f"{gap:f}",
        causes={name: f"{value:f}" for name, value in causes.by_cause(stream.get(measure), values, published).items()},
        is_closed=bool(stream.get("is_closed")),
        exceeds=metric.reconcile is not None and causes.exceeds(gap, published, metric.reconcile),
        query=live.query,
        batch=live.batch,
        revision=revision,
        reconciled_at=lake.now(),
    )


def _compared(metric: MetricContract) -> list[str]:
    """The measures that can be subtracted, and the number of rows."""
    return [*(measure.name for measure in metric.measures if measure.is_number), "row_count"]


def _live(lake: Lake, metric: MetricContract, day: date) -> _LiveState:
    """The live numbers and the batches whose numbers are written: read in this order, the reverse of the order in which they are
    written.
    """
    newest = live_batches.newest(lake, metric.name)
    query = newest.query if newest else None
    stored = locations.live(lake, metric.name)
    opened = stored.open()
    written = -1 if query is None else table.written_up_to(opened, query)
    rows = None if opened is None else table_io.read_version(opened, None, {"event_date": [day]})
    batches = live_batches.log(lake).select(None, {"metric": [metric.name]})
    batches = batches.filter(pc.equal(batches["query"], query)) if query else batches.slice(0, 0)
    batches = batches.filter(pc.or_(pc.less_equal(batches["batch"], written), pc.equal(batches["numbers"], 0)))
    watermark = pc.max(batches["watermark"]).as_py()
    numbers = {} if rows is None else _grouped(metric, rows.filter(pc.equal(rows["query"], query)).to_pylist())
    closed = {group: {**row, "is_closed": table.is_closed(row, watermark)} for group, row in numbers.items()}
    return _LiveState(closed, query, written, batches)


def _books(lake: Lake, metric: MetricContract, day: date) -> tuple[int, _Groups]:
    """The newest published revision of a day, 0 if there is none, and its numbers."""
    series = Series(metric)
    where = {series.by: [day], "is_latest": [True]}
    rows = locations.gold(lake, series).read(None, where)
    if rows is None or not len(rows):
        return 0, {}
    content = published_table.latest(rows, series)[day]
    revision: int = pc.max(rows["revision"]).as_py()
    return revision, _grouped(metric, (row for row in content.to_pylist() if row["row_count"]))


def _sets(metric: MetricContract, rows: pa.Table) -> list[_Groups]:
    """The measures over each set of rows, in the order of the sets."""
    by_set: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows.to_pylist():
        by_set[row[row_sets.ROW_SET]].append(row)
    return [_grouped(metric, by_set[step]) for step in RowSet]


def _expired(metric: MetricContract, before: Iterable[Reconciled], live: _LiveState) -> _Groups:
    """The live numbers in the last recorded reconciliation that have expired since."""
    numbers: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(dict)
    for entry in before:
        group = _group(metric, {WINDOW_START: entry.window_start, **entry.grain})
        if entry.query == live.query and entry.live is not None and group not in live.numbers:
            numbers[group] |= {entry.measure: entry.live, "is_closed": entry.is_closed}
    return dict(numbers)


def _grouped(metric: MetricContract, rows: Iterable[dict[str, Any]]) -> _Groups:
    return {_group(metric, row): row for row in rows}


def _group(metric: MetricContract, row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The grain of a row with values that JSON keeps as they are, apart from the first moment of its window."""
    kept = (str, int, float, type(None))
    return tuple(row[name] if name == WINDOW_START or isinstance(row[name], kept) else f"{row[name]}" for name in metric.grain)


def _text(value: Any) -> str | None:
    return None if value is None else f"{causes.number(value):f}"
