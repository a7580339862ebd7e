"""Adjustments: the exact differences between a closed period's number and the number computed now (rule R9).

A closed number and its adjustments add up to what a restatement would have published, row by row of the grain; NULL counts as
zero. This module contains only the arithmetic; adjustments are published like revisions (see ``publication.revisions``).
"""

from __future__ import annotations

from collections import defaultdict
from decimal import Context, Inexact, localcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from lakehouse.contracts.series import Series

#: Python's default context rounds numbers with more than 28 digits.
EXACT = Context(prec=100, traps=[Inexact])


def between(series: Series, published: pa.Table | None, restated: pa.Table) -> pa.Table:
    """The rows that, added to a closed period and its adjustments, give ``restated``.

    :param published: all rows of the period: its newest revision and its adjustments.
    :returns: rows with the columns of ``restated`` for the grain values that differ; a single row of zeros if none differs.
    """
    names = series.numbers
    with localcontext(EXACT):
        before = booked(series, published)
        after = _sums(series, restated)
        differences = {
            grain: [new - old for new, old in zip(after[grain], before[grain])]
            for grain in [*after, *(grain for grain in before if grain not in after)]
        }
    changed = {grain: values for grain, values in differences.items() if any(values)}
    changed = changed or {tuple(None for _ in series.grain): [0 for _ in names]}
    rows = [dict(zip([*series.grain, *names], [*grain, *values])) for grain, values in changed.items()]
    return pa.Table.from_pylist(rows, schema=pa.schema([pa.field(item.name, item.type) for item in restated.schema]))


def booked(series: Series, published: pa.Table | None) -> dict[tuple[Any, ...], list[Any]]:
    """The newest number with its adjustments, per row of the grain, in the order of measures and row_count."""
    if published is None:
        return defaultdict(lambda: [0 for _ in series.numbers])
    newest = pc.max(published["revision"])  # a later number contains the adjustments of earlier revisions
    return _sums(series, published.filter(pc.equal(published["revision"], newest)))


def _sums(series: Series, rows: pa.Table) -> dict[tuple[Any, ...], list[Any]]:
    names, grain = series.numbers, series.grain
    sums: dict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [0 for _ in names])
    for row in rows.select([*grain, *names]).to_pylist():
        values = sums[tuple(row[name] for name in grain)]
        for position, name in enumerate(names):
            values[position] += row[name] or 0
    return sums
