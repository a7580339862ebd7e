"""Reconciles the days of a live metric: the stream's numbers, the published numbers, and the cause of each difference, by window.

A day can be reconciled in any state: while the stream runs, and before the day is final. The result is a function of the tables.
Closed days are reconciled when they are due; a check judges each, and their live numbers then expire. The causes of a difference
are determined in ``causes``, the results are stored in ``batches``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.gold import isolation
from lakehouse.gold.numbers import published_table
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.lake import table_io
from lakehouse.ledger import failures
from lakehouse.live import batches, causes, row_sets, table
from lakehouse.live import batches as live_batches
from lakehouse.live.causes import Reconciled, RowSet
from lakehouse.quality.check_rules import CheckResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
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


class _ComparedMeasure(NamedTuple):
    """A measure of a group: in the stream, whose watermark may have passed it, over each set of rows, and as published."""

    name: str
    live: Any
    is_closed: bool
    of_sets: list[Any]
    books: Any


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
    before = batches.newest_reconciliation(lake, metric.name, day)
    live = _live(lake, metric, day)
    revision, books = _books(lake, metric, day)
    sets = _sets(metric, row_sets.measured(session(), lake, metric, contract, day, live.batches))
    expired = _expired(metric, before, live)
    entries = []
    groups = {*live.numbers, *expired, *books, *(group for numbers in sets for group in numbers)}
    for group in sorted(groups, key=causes.in_order):
        stream = live.numbers.get(group, expired.get(group, {}))
        is_closed = bool(stream.get("is_closed"))
        for measure in _compared(metric):
            values = [numbers.get(group, {}).get(measure) for numbers in sets]
            compared = _ComparedMeasure(measure, stream.get(measure), is_closed, values, books.get(group, {}).get(measure))
            entries.append(_entry(lake, metric, day, group, compared, live, revision))
    return DayReconciliation(entries, batches.record_reconciliation(lake, before, entries))


def _entry(
    lake: Lake,
    metric: MetricContract,
    day: date,
    group: tuple[Any, ...],
    compared: _ComparedMeasure,
    live: _LiveState,
    revision: int,
) -> Reconciled:
    gap = causes.difference(compared.live, compared.books)
    grain = dict(zip(metric.grain, group))
    return Reconciled(
        metric=metric.name,
        day=day,
        number=0,
        window_start=grain.pop(WINDOW_START, None),
        grain=grain,
        measure=compared.name,
        live=_text(compared.live),
        books=_text(compared.books),
        difference=f"{gap:f}",
        causes={name: f"{value:f}" for name, value in causes.by_cause(compared.live, compared.of_sets, compared.books).items()},
        is_closed=compared.is_closed,
        exceeds=metric.reconcile is not None and causes.exceeds(gap, compared.books, metric.reconcile),
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


LIVE_EQUALS_BOOKS = "live_equals_books"


def check_names(metric: MetricContract) -> dict[str, str]:
    """The check of a live metric's days, with its description; none for other metrics."""
    text = "The live numbers of the day are within the threshold of the published ones, and each difference has its causes."
    return {LIVE_EQUALS_BOOKS: text} if metric.live else {}


def due(lake: Lake, metric: MetricContract, days: Collection[date]) -> list[date]:
    """Those of ``days`` that are published, past the state live, and not reconciled at their newest revision.

    Days for which the stream has never had a number are not among them.
    """
    if metric.live is None or not days:
        return []
    series = Series(metric)
    where = {series.by: days, "is_latest": [True]}
    rows = locations.gold(lake, series).read([series.by, "revision", "state"], where)
    if rows is None:
        return []
    published = rows.group_by([series.by, "revision", "state"]).aggregate([]).to_pylist()
    revisions = {row[series.by]: row["revision"] for row in published if row["state"] != State.LIVE.value}
    streamed = set(table.days(lake, metric))
    reconciled = {day: batches.newest_reconciliation(lake, metric.name, day) for day in revisions}
    return [
        day
        for day, revision in sorted(revisions.items())
        if (day in streamed or reconciled[day]) and {entry.revision for entry in reconciled[day]} != {revision}
    ]


def reconcile_due(
    session: Callable[[], SparkSession],
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    days: Collection[date],
) -> list[CheckResult]:
    """Reconcile those of ``days`` that are due, and remove live numbers that are reconciled and past their time."""
    outcomes = [_reconciled(session, lake, metric, contract, day) for day in due(lake, metric, days)]
    expire(lake, metric)
    return outcomes


def check_reconciled(
    session: Callable[[], SparkSession],
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    days: Collection[date],
) -> list[CheckResult]:
    """The check of those ``days`` that have been reconciled, or are due, in their present state."""
    wanted = sorted({*due(lake, metric, days), *(day for day in days if batches.newest_reconciliation(lake, metric.name, day))})
    return [_reconciled(session, lake, metric, contract, day) for day in wanted]


def _reconciled(
    session: Callable[[], SparkSession], lake: Lake, metric: MetricContract, contract: SourceContract, day: date
) -> CheckResult:
    """The check of a day; a day whose rows cannot be computed fails the check and does not stop other days."""
    try:
        return checked(day, reconcile(session, lake, metric, contract, day).entries)
    except Exception as problem:
        if not isolation.is_of_a_value(problem):
            raise
        explanation = f"{metric.name} of {day} cannot be reconciled with its stream: {failures.reason(problem)}"
        return CheckResult(LIVE_EQUALS_BOOKS, day, passed=False, explanation=explanation, warns=True)


def checked(day: date, entries: Sequence[Reconciled]) -> CheckResult:
    """The check of a reconciled day."""
    closed = [entry for entry in entries if entry.is_closed]
    beyond = [entry for entry in closed if entry.exceeds]
    unexplained = [entry for entry in entries if causes.UNEXPLAINED in entry.causes]
    numbers = {"numbers": len(entries), "closed": len(closed), "different": sum(bool(entry.gap) for entry in closed)}
    numbers |= {"beyond_threshold": len(beyond), "unexplained": len(unexplained)}
    explanation = None
    if beyond:
        worst = max(beyond, key=_share)
        at = f" at {worst.window_start:%H:%M} UTC" if worst.window_start else ""
        explanation = f"{worst.measure}{at} was {worst.live or 'nothing'} and is {worst.books or 'nothing'}: {_named(worst)}"
    elif unexplained:
        explanation = (
            "the stream counted other rows than the rule says; compute the live numbers again with 'lakehouse live rebuild'"
        )
    return CheckResult(LIVE_EQUALS_BOOKS, day, not (beyond or unexplained), numbers, explanation, warns=True)


def expire(lake: Lake, metric: MetricContract) -> int:
    """Remove the live numbers of closed windows that are reconciled and past their time; returns their number."""
    if metric.live is None:
        return 0
    newest = batches.newest(lake, metric.name)
    if newest is None or newest.watermark is None:
        return 0
    ended_by = min(lake.now() - metric.live.keep, newest.watermark)
    known = set(table.days(lake, metric))
    old = [day for day in known if day <= ended_by.date()]
    return table.expire(lake, metric, [day for day in old if batches.newest_reconciliation(lake, metric.name, day)], ended_by)


def _share(entry: Reconciled) -> Decimal:
    """The size of a difference as a share of the published number."""
    books = abs(causes.number(entry.books))
    return abs(entry.gap) / books if books else Decimal("Infinity")


def _named(entry: Reconciled) -> str:
    return ", ".join(f"{cause} {value}" for cause, value in entry.causes.items())
