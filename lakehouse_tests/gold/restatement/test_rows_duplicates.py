"""The independent count of rows that an earlier source has too."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.loader import completed
from lakehouse.delta import row_writer
from lakehouse.gold.restatement import lineage, silver_tables
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.united_lake import COLUMNS, TWO_DAYS, metric, source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.lake import Lake

ONE, TWO = date(2024, 1, 1), date(2024, 1, 2)
SOURCES = {name: source(name) for name in COLUMNS}
TABLES = {"web": "web", "mobile": "mobile", "partner": "partner_newest"}
#: By source the order of each row and its day.
Rows = dict[str, list[tuple[str | None, date]]]


def write(lake: Lake, rows: Mapping[str, Sequence[tuple[str | None, date]]]) -> None:
    for name, of_source in rows.items():
        columns = {
            "order_id": pa.array([order for order, _ in of_source], pa.string()),
            "event_date": pa.array([day for _, day in of_source], pa.date32()),
        }
        if of_source:
            row_writer.append(lake.table("silver", TABLES[name]), pa.table(columns), partition_by=["event_date"])


def test_a_row_is_counted_if_an_earlier_source_has_its_order_on_the_same_day(lake: Lake) -> None:
    write(
        lake,
        {
            "web": [("1", ONE), ("1", ONE), ("2", ONE), (None, ONE)],
            "mobile": [("1", ONE), ("2", TWO), (None, ONE), ("3", ONE), ("3", ONE)],
            "partner": [("1", ONE), ("3", ONE), ("4", TWO)],
        },
    )
    revenue = completed(metric(), SOURCES)
    assert silver_tables.count(lake, revenue, [ONE, TWO]) == Counter({ONE: 3, TWO: 0})
    assert lineage.count_silver_rows(lake, revenue, [ONE, TWO]) == {ONE: 7, TWO: 2}
    everything = completed(metric(TWO_DAYS), SOURCES)
    assert lineage.count_silver_rows(lake, everything, [ONE, TWO]) == {ONE: 10, TWO: 12}


@pytest.mark.merge
@law(100, in_each_run=10)
@given(
    rows=st.fixed_dictionaries(
        {name: st.lists(st.tuples(st.sampled_from(["1", "2", "3", None]), st.sampled_from([ONE, TWO]))) for name in TABLES}
    )
)
def test_keys_in_parts_are_counted_as_all_together(rows: Rows, tmp_path_factory: pytest.TempPathFactory) -> None:
    lake = lake_in(tmp_path_factory.mktemp("lake"))
    write(lake, rows)
    expected: Counter[date] = Counter()
    known: set[tuple[str | None, date]] = set()
    for of_source in (rows[name] for name in TABLES):  # in the order of the sources
        expected.update(day for order, day in of_source if order is not None and (order, day) in known)
        known |= set(of_source)
    for together in (2**20, 1):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(silver_tables, "_TOGETHER", together)
            found = silver_tables.count(lake, completed(metric(), SOURCES), [ONE, TWO])
        assert +found == +expected
