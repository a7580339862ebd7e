"""The judgement of rows whose file a person has admitted as history. No Spark, no tables."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import judged_rows
from lakehouse_tests.support.lake import contract

ARRIVED = datetime(2024, 2, 20, 12, tzinfo=timezone.utc)
ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40), st.booleans(), st.booleans()), max_size=20)


def test_a_row_that_is_a_second_late_has_its_detail_and_one_in_time_has_none() -> None:
    source = contract(lateness={"watermark": "PT0S", "beyond": "quarantine"})
    moment = {"arrival_ts": ARRIVED, "arrival_date": ARRIVED.date(), "ingestion_id": "a", "change_op": "insert"}
    rows = [moment | {"line_number": late, "event_ts": ARRIVED - timedelta(seconds=late)} for late in (0, 1, 0)]
    judged = judged_rows.judged(source, pa.Table.from_pylist(rows, schema=arrow_schema(bronze_columns(source))))
    assert judged["standing"].to_pylist() == ["admitted", "quarantined", "admitted"]
    assert [detail is None for detail in judged["detail"].to_pylist()] == [True, False, True]


@pytest.mark.parametrize("beyond", ["quarantine", "drop"])
@given(rows=ROWS, history=st.sets(st.sampled_from("abc")))
def test_no_watermark_holds_the_rows_of_an_admitted_file_and_row_rules_still_do(
    beyond: str, rows: list[tuple[str, int, bool, bool]], history: set[str]
) -> None:
    rules = [{"name": "positive", "sql": "amount > 0", "severity": "quarantine"}]
    source = contract(lateness={"watermark": "P7D", "beyond": beyond}, quality={"row_rules": rules})
    table = pa.Table.from_pylist(
        [
            {
                "ingestion_id": file,
                "line_number": line,
                "arrival_ts": ARRIVED,
                "arrival_date": ARRIVED.date(),
                "event_ts": ARRIVED - timedelta(days=days),
                "change_op": "insert",
                "malformed_reason": "no amount" if malformed else None,
            }
            for line, (file, days, _, malformed) in enumerate(rows)
        ],
        schema=arrow_schema(bronze_columns(source)),
    ).append_column("fails_positive", pa.array([fails for _, _, fails, _ in rows], pa.bool_()))
    judged = judged_rows.judged(source, table, pa.array(sorted(history), pa.string()))

    def by_rule(file: str, days: int, fails: bool, malformed: bool) -> tuple[str, bool]:
        is_beyond = days > 7 and file not in history and not malformed
        if is_beyond and beyond == "drop":
            return "dropped", True
        return "quarantined" if (is_beyond or (fails and not malformed)) else "admitted", is_beyond

    assert list(zip(judged["standing"].to_pylist(), judged["beyond"].to_pylist())) == [by_rule(*row) for row in rows]
