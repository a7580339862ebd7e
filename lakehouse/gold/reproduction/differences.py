"""The cells in which a published number and the reproduced one differ, and the columns that can no longer be compared.

Only Arrow tables and the metric's contract are used; reproducing a number belongs to ``reproduce``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

    from lakehouse.contracts.series import Series

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


def between(stored: pa.Table, again: pa.Table, how: Compared, tolerance: float = ROUNDING) -> tuple[list[Difference], list[str]]:
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
