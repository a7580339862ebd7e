"""Two sets of rows are compared as a plain model compares them: as multisets, with exact sums."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, datetime, timezone
from decimal import Context, Decimal, localcontext
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.delta.columns import content_columns, ddl
from lakehouse.snapshots import commands
from lakehouse.snapshots.comparison import RowsComparison, compare, compare_here
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FIELDS = [("id", "string"), ("amount", "bigint"), ("price", "decimal(38,2)"), ("size", "double")]
SALES = contract(model={"fields": [{"name": name, "type": kind} for name, kind in FIELDS]})
NOON = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
#: A key, an amount, a price, a size.
_rows = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([None, -3, 2**62]),
        st.sampled_from([None, Decimal("0.01"), Decimal("9" * 35 + ".99")]),
        st.sampled_from([None, 0.5]),
    ),
    max_size=6,
)


def table(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    content = [(key, key, *values, NOON, date(2024, 1, 1), "till") for key, *values in rows]
    return spark.createDataFrame(content, ddl(content_columns(SALES)))


def totals(rows: list[tuple[Any, ...]], position: int) -> tuple[int, Any]:
    values = [row[position] for row in rows if row[position] is not None]
    with localcontext(Context(prec=60)):
        return len(values), sum(values) if values else None


_MOST = Decimal("9" * 35 + ".99")


@law(50)
# A key on one side only on either side; a row that is there twice; sums beyond 64 bits and beyond 38 digits.
@example(
    before=[("a", 2**62, _MOST, 0.5), ("a", 2**62, _MOST, 0.5), ("a", 2**62, _MOST, None), ("b", -3, None, None)],
    after=[("a", 2**62, _MOST, 0.5), ("a", 2**62, _MOST, None), ("c", None, Decimal("0.01"), 0.5)],
)
@example(before=[("a", None, None, None), ("b", -3, None, 0.5)], after=[("b", -3, None, 0.5), ("a", None, None, None)])  # equal
@given(before=_rows, after=_rows)
def test_it_counts_what_a_plain_model_counts(spark: SparkSession, before: list[Any], after: list[Any]) -> None:
    sides = [table(spark, side) for side in (before, after)]
    compared = compare(*sides, SALES)
    here, differing = compare_here(*(side.toArrow() for side in sides), SALES)
    assert here == compared, "in memory as by Spark"
    keys = [{row[0] for row in side} for side in (before, after)]
    of_key = [{key: Counter(row for row in side if row[0] == key) for key in keys[0] & keys[1]} for side in (before, after)]
    assert compared.rows == (len(before), len(after))
    assert compared.keys == (len(keys[0]), len(keys[1]))
    assert (compared.only_before, compared.only_after) == (len(keys[0] - keys[1]), len(keys[1] - keys[0]))
    assert compared.changed == sum(of_key[0][key] != of_key[1][key] for key in of_key[0])
    assert set(differing.to_pylist()) == (keys[0] ^ keys[1]) | {key for key in of_key[0] if of_key[0][key] != of_key[1][key]}
    assert compared.equal == (Counter(before) == Counter(after))
    for field, position in zip(compared.fields[1:], (1, 2, 3)):
        (filled_before, total_before), (filled_after, total_after) = totals(before, position), totals(after, position)
        assert (field.filled, field.total) == ((filled_before, filled_after), (total_before, total_after)), field.name
    assert compared.fields[0].total is None


def test_it_is_told_as_a_table_and_as_json(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = [("a", 1, Decimal("0.10"), 0.5)], [("a", 2, Decimal("0.10"), None), ("b", 3, None, None)]
    compared: RowsComparison = compare(table(spark, first), table(spark, second), SALES)
    commands.print_comparison(compared, "first", "second")
    text = " ".join(capsys.readouterr().out.split())
    assert "rows 1 2 +1" in text
    assert "amount, total 1 5 +4" in text
    assert "size, rows with a value 1 0 -1" in text
    assert "0 keys only in first, 1 only in second, 1 with other content." in text
    told = json.loads(commands.as_json_text(compared))
    assert (told["changed"], told["fields"]["price"]) == (1, {"filled": [1, 1], "total": ["0.10", "0.10"]})
    commands.print_comparison(compare(table(spark, first), table(spark, first), SALES), "first", "again")
    assert "Both have the same content." in capsys.readouterr().out
