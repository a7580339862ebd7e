"""Reproduces a published number from the inputs that its revision names, and compares both (rule R10).

Nothing is written, and no older version of a table is read: only Bronze, decisions, and the logs in ``ops``. :func:`known_at` and
:func:`from_inputs` compute, in the same way, a number as of a time, or from any set of inputs, published or not. Recomputing
belongs to ``recompute``.

The comparison gives the cells that differ, and the columns that can no longer be compared. It uses only Arrow tables and the
metric's contract.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.series import Series, source_days, source_read
from lakehouse.delta import provenance
from lakehouse.dispositions.living_rows import Slice
from lakehouse.gold.numbers.published_table import content_of, digest
from lakehouse.gold.reproduction import recompute
from lakehouse.gold.restatement import metric_query
from lakehouse.gold.restatement import silver_rows as rows_read
from lakehouse.ledger import ingestions
from lakehouse.snapshots import input_sets
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import date, datetime

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake

#: The relative difference of doubles that counts as rounding: four steps of a double.
ROUNDING = 1e-15
#: The same for numbers from before sums were exact: the last digits of their sums depend on the order of the rows.
ROUNDING_BEFORE = 1e-12
#: The number of differing cells that a report of a reproduction lists.
LISTED = 50
_Cells = dict[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Difference:
    """One cell that differs: its grain, the stored value, and the recomputed one."""

    grain: dict[str, Any]
    column: str
    stored: Any
    again: Any


@dataclass(frozen=True)
class Compared:
    """The columns that identify rows, and the values that are compared.

    :param summed: whether several rows are added up, because a column of the grain is redacted or adjustments are included.
    """

    grain: list[str]
    values: list[str]
    summed: bool = False


def comparable(series: Series, hidden: Collection[str], *, summed: bool = False) -> Compared:
    """The parts of a metric's rows that can be compared if the fields ``hidden`` of Silver were redacted since.

    A measure that may read such a field cannot be compared; if a column of the grain is redacted, only sums are compared.
    """
    metric, grain = series.metric, [name for name in series.grain if name not in hidden]
    summed = summed or len(grain) < len(series.grain)
    fit = [one.name for one in metric.measures if not one.columns_read(hidden) and (one.additive or not summed)]
    counts = set(hidden).isdisjoint(metric.deduplicate_by)  # else other rows may count
    return Compared(grain, [*fit, "row_count"] if counts else [], summed)


def differences_between(
    stored: pa.Table, again: pa.Table, how: Compared, tolerance: float = ROUNDING
) -> tuple[list[Difference], list[str]]:
    """The cells that differ, and the columns that are equal except for the last digits of doubles."""
    published, made = _cells(stored, how), _cells(again, how)
    differences, close = [], set()
    for key in [*published, *(key for key in made if key not in published)]:
        before, after = published.get(key, {}), made.get(key, {})
        for name in how.values:
            before_value, after_value = before.get(name), after.get(name)
            if (key in published) != (key in made) or not _alike(before_value, after_value, tolerance):
                differences.append(Difference(dict(zip(how.grain, key)), name, before_value, after_value))
            elif isinstance(before_value, float) and repr(before_value) != repr(after_value):
                close.add(name)
    return differences, sorted(close)


def _cells(rows: pa.Table, how: Compared) -> _Cells:
    cells: _Cells = {}
    for row in rows.select([*how.grain, *how.values]).to_pylist():
        key = tuple(row[name] for name in how.grain)
        values = {name: row[name] for name in how.values}
        if how.summed:
            before = cells.get(key, {})
            values = {name: (value or 0) + before.get(name, 0) for name, value in values.items()}
        cells[key] = values
    return {key: values for key, values in cells.items() if any(values.values())} if how.summed else cells


def _alike(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other) or math.isclose(one, other, rel_tol=tolerance)
    return bool(one == other)


@dataclass(frozen=True)
class Reproduced:
    """A reproduced number.

    :param hidden: per key the fields that were redacted since; columns that depend on them are not among ``compared``.
    :param close: columns that are equal except for the last digits of doubles.
    :param certain: whether the source's contract is known to be the one of that time.
    """

    name: str
    rows: pa.Table
    differences: list[Difference]
    compared: list[str]
    close: list[str]
    hidden: dict[str, list[str]]
    code_then: str
    code_now: str
    contract_then: str
    contract_now: str
    certain: bool

    @property
    def equal(self) -> bool:
        """Whether all compared columns are equal."""
        return not self.differences


def reproduce(
    lake: Lake,
    catalog: Catalog,
    series: Series,
    start: date,
    revision: int,
    session: Callable[[], SparkSession],
    adjustment: int | None = None,
) -> Reproduced:
    """Recompute one revision of a period and compare it with what was published.

    :param adjustment: an adjustment of the closed revision: compare the closed number plus the adjustment.
    :raises recompute.ReproduceError: for a revision that was never published, or that names no inputs.
    :raises UnknownInputsError: if its inputs are not recorded.
    :raises ForgottenContractError: if its contract is not stored.
    """
    lake = lake.cached()
    published = locations.gold(lake, series).read(None, {series.by: [start]})
    row = _told(series, start, published, revision, adjustment)
    now = recompute.HistoricalContracts(series.metric, catalog.sources[series.metric.source])
    then = recompute.contract_of_then(lake, now, row, catalog.sources)
    series_then = Series(then.metric, series.kind, called=series.called or series.metric.name)
    read = source_read(then.metric, then.source)
    made = recompute.computed(lake, read, series_then, start, row, session)
    stored = _stored(series_then, published, revision, adjustment)
    fields = set().union(*made.hidden.values()) if made.hidden else set()
    how = comparable(series_then, fields, summed=adjustment is not None)
    exact = adjustment is None and digest(stored) == row["content"]
    cells, close = differences_between(stored, made.rows, how, ROUNDING if exact else ROUNDING_BEFORE)
    if not fields:
        known = {row["content"]}
        digests = [("content", content_of(made.rows, known))] if not (cells or close) else []
        digests += [("content as stored", content_of(stored, known))] if adjustment is None else []
        cells += [Difference({}, name, row["content"], other) for name, other in digests if other != row["content"]]
    return Reproduced(
        name=row["version_name"],
        rows=made.rows,
        differences=cells,
        compared=[*how.grain, *how.values],
        close=close,
        hidden=made.hidden,
        code_then=row["code_version"],
        code_now=provenance.code(),
        contract_then=row["contract_version"],
        contract_now=provenance.of_contract(series.metric),
        certain=then.certain,
    )


def known_at(
    lake: Lake,
    catalog: Catalog,
    metric: MetricContract,
    days: Collection[date],
    when: datetime,
    session: Callable[[], SparkSession],
) -> dict[date, pa.Table]:
    """The metric's numbers from everything that had arrived and been decided by ``when``, published or not; none for a day
    without rows.

    The arrival time of each row counts, even if its file was ingested later. Redactions always apply.

    :raises recompute.ReproduceError: for a derived metric.
    """
    lake = lake.cached()
    _require_silver(metric)
    ids = input_sets.known_at(lake, metric.source, when)
    return from_inputs(lake, catalog, metric, Slice(days, ids, when), session, others_at=when)


def from_inputs(
    lake: Lake,
    catalog: Catalog,
    metric: MetricContract,
    wanted: Slice,
    session: Callable[[], SparkSession],
    *,
    others_at: datetime,
) -> dict[date, pa.Table]:
    """The metric's numbers from a set of inputs, such as a named snapshot, under today's contracts; none for a day without rows.

    :param wanted: the days of the metric, and the inputs of its (first) source. Redactions always apply.
    :param others_at: rows of further sources and attributes of dimensions are those known by this time.
    :raises recompute.ReproduceError: for a derived metric.
    """
    _require_silver(metric)
    contract, spark = catalog.sources[metric.source], session()
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.dataset)):
        read = source_read(metric, contract)
        of_days = replace(wanted, days=source_days(metric, wanted.days))
        rows = rows_read.rows_known_at(spark, lake, metric, read, of_days, others_at)
        return metric_query.of_days(rows, metric, wanted.days)


def _require_silver(metric: MetricContract) -> None:
    if metric.is_derived:
        msg = (
            f"{metric.name} is made of published numbers of {', '.join(metric.derived_from)}, and not of rows: ask for "
            "these, or for a published version of it"
        )
        raise recompute.ReproduceError(msg)


def _told(series: Series, start: date, published: pa.Table | None, revision: int, adjustment: int | None) -> dict[str, Any]:
    """The published columns of a revision or an adjustment.

    :raises recompute.ReproduceError: if there is none.
    """
    rows = [] if published is None else published.select(["revision", "adjustment", "version_name"]).to_pylist()
    for position, row in enumerate(rows):
        if (row["revision"], row["adjustment"]) == (revision, adjustment):
            assert published is not None  # noqa: S101 (it has rows)
            return dict(published.slice(position, 1).to_pylist()[0])
    known = ", ".join(sorted({row["version_name"] for row in rows})) or "nothing"
    asked = f"revision {revision}" + (f" with adjustment {adjustment}" if adjustment is not None else "")
    msg = f"{series.name} has no {asked} of {series.period(start).name}; published: {known}"
    raise recompute.ReproduceError(msg)


def _stored(series: Series, published: pa.Table, revision: int, adjustment: int | None) -> pa.Table:
    """The content of a revision; with its adjustments up to the given one."""
    booked = pc.fill_null(pc.less_equal(published["adjustment"], adjustment or 0), True)
    rows = published.filter(pc.and_(pc.equal(published["revision"], revision), booked))
    return rows.select(series.content)
