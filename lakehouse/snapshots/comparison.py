"""Comparison of two sets of rows of a source: rows, keys, and the total of each field.

Belongs here: the comparison of any two tables with the content columns of Silver, in one pass of Spark over both, and the same
for rows in memory. Reading the rows belongs to ``rows``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.delta.columns import content_columns, summable
from lakehouse.dispositions.winners import groups

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from pyspark.sql import Column, DataFrame

    from lakehouse.contracts.source import SourceContract

_DOUBLES = ("float", "double")
_WHOLE = ("byte", "short", "int", "integer", "long", "bigint")


@dataclass(frozen=True)
class FieldTotals:
    """One field in both sets: the number of rows with a value and, for numbers, their sum (None without a value)."""

    name: str
    filled: tuple[int, int]
    total: tuple[Decimal | float | None, Decimal | float | None] | None


@dataclass(frozen=True)
class RowsComparison:
    """Two sets of rows, before and after.

    :param rows: the number of rows of each.
    :param keys: the number of keys of each.
    :param only_before: the number of keys that only the first has.
    :param only_after: the number of keys that only the second has.
    :param changed: the number of keys of both whose rows differ, apart from their provenance.
    """

    rows: tuple[int, int]
    keys: tuple[int, int]
    only_before: int
    only_after: int
    changed: int
    fields: Sequence[FieldTotals]

    @property
    def equal(self) -> bool:
        """Whether both have the same content."""
        return not (self.only_before or self.only_after or self.changed)


def compare(before: DataFrame, after: DataFrame, contract: SourceContract) -> RowsComparison:
    """Compare the content of two sets of rows as multisets.

    :param before: with at least the content columns of Silver (see ``delta.columns``), like ``after``.
    """
    content = [name for name, _ in content_columns(contract)]
    sides = ("before", "after")
    fields = [(field.name, field.type) for field in contract.typed_fields]
    both = _side(before, content, 1, 0).unionByName(_side(after, content, 0, 1))
    sums: list[Column] = [F.sum(f"_{side}").alias(f"_{side}") for side in sides]
    for number, (name, kind) in enumerate(fields):
        for side in sides:
            filled = F.when(F.col(name).isNotNull(), F.col(f"_{side}"))
            sums.append(F.sum(filled).alias(f"filled_{side}_{number}"))
            sums += [F.sum(_value(name, kind, side)).alias(f"total_{side}_{number}")] if _is_number(kind) else []
    distinct = both.groupBy(*content).agg(*sums)
    added = [F.sum(name).alias(name) for name in distinct.columns if name not in content]
    of_keys = distinct.groupBy("record_key").agg(*added, F.max(F.expr("_before <> _after")).alias("_differs"))
    in_before, in_after = F.col("_before") > 0, F.col("_after") > 0
    counted = {
        "rows_before": F.sum("_before"),
        "rows_after": F.sum("_after"),
        "keys_before": F.count_if(in_before),
        "keys_after": F.count_if(in_after),
        "only_before": F.count_if(in_before & ~in_after),
        "only_after": F.count_if(in_after & ~in_before),
        "changed": F.count_if(in_before & in_after & F.col("_differs")),
    }
    totals = [F.sum(name).alias(name) for name in of_keys.columns if name.startswith(("filled_", "total_"))]
    row = of_keys.agg(*(column.alias(name) for name, column in counted.items()), *totals).collect()[0].asDict()
    return RowsComparison(
        rows=(row["rows_before"] or 0, row["rows_after"] or 0),
        keys=(row["keys_before"], row["keys_after"]),
        only_before=row["only_before"],
        only_after=row["only_after"],
        changed=row["changed"],
        fields=[
            FieldTotals(
                name,
                (row[f"filled_before_{number}"] or 0, row[f"filled_after_{number}"] or 0),
                (row[f"total_before_{number}"], row[f"total_after_{number}"]) if _is_number(kind) else None,
            )
            for number, (name, kind) in enumerate(fields)
        ],
    )


def compare_here(before: pa.Table, after: pa.Table, contract: SourceContract) -> tuple[RowsComparison, pa.Array]:
    """The comparison of :func:`compare` for rows in memory, and the keys that differ."""
    content = [name for name, _ in content_columns(contract)]
    both = pa.concat_tables([before.select(content), after.select(content)])
    is_after = np.arange(len(both)) >= len(before)
    key, place = groups(both["record_key"]), groups(*(both[name] for name in content))
    count = key.max(initial=-1) + 1
    signed = np.bincount(place, np.where(is_after, 1, -1))
    differs = np.bincount(key, signed[place] != 0, minlength=count) > 0
    in_before, in_after = (np.bincount(key[side], minlength=count) > 0 for side in (~is_after, is_after))
    fields = [(field.name, field.type) for field in contract.typed_fields]
    compared = RowsComparison(
        rows=(len(before), len(after)),
        keys=(int(in_before.sum()), int(in_after.sum())),
        only_before=int((in_before & ~in_after).sum()),
        only_after=int((in_after & ~in_before).sum()),
        changed=int((in_before & in_after & differs).sum()),
        fields=[
            FieldTotals(
                name,
                (len(before) - before[name].null_count, len(after) - after[name].null_count),
                (_total(before[name], kind), _total(after[name], kind)) if _is_number(kind) else None,
            )
            for name, kind in fields
        ],
    )
    return compared, pc.unique(both["record_key"].filter(pa.array(differs[key])))


def _total(values: pa.ChunkedArray, kind: str) -> Any:
    """The sum of a field; exact unless the field is a double."""
    return pc.sum(values.cast(pa.float64()) if kind in _DOUBLES else summable(values)).as_py()


def _side(rows: DataFrame, content: Sequence[str], before: int, after: int) -> DataFrame:
    return rows.select(*content, F.lit(before).alias("_before"), F.lit(after).alias("_after"))


def _is_number(kind: str) -> bool:
    return kind in _DOUBLES or kind in _WHOLE or kind.startswith("decimal")


def _value(name: str, kind: str, side: str) -> Column:
    """A field's value in the rows of one side; sums of it are exact unless the field is a double."""
    wide = "double" if kind in _DOUBLES else "decimal(38,0)" if kind in _WHOLE else kind
    return F.when(F.col(f"_{side}") > 0, F.col(name).cast(wide))
