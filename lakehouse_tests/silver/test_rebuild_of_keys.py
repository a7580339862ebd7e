"""A rebuild request for some keys: their rows are judged again, those of others are not. None of this starts Spark."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse import locations
from lakehouse.bronze.ingest import Ingest
from lakehouse.ledger import rebuild_requests
from lakehouse.silver import rebuild as silver_rebuild
from lakehouse_tests.support.lake import HEADER, contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake

FIRST, LAST = date(2024, 2, 1), date(2024, 2, 9)
#: Under the first contract no row is too late, under the second every row that came more than five days after its event.
BEFORE = contract()
AFTER = contract(lateness={"watermark": "P5D", "beyond": "quarantine"})


def no_session() -> Any:
    pytest.fail("nothing of this needs Spark")


@pytest.fixture
def lake(lake: Lake) -> Lake:
    """Rows of four keys on four days, of which those before the 5th came late."""
    rows = [("a", 1), ("b", 1), ("a2", 3), ("b", 4), ("a", 8)]
    lines = [
        f"{key},1,2024-02-{day:02}T12:00:00Z,2024-02-10T06:00:00Z,insert,,{number}" for number, (key, day) in enumerate(rows)
    ]
    Path(str(lake.settings.landing), "arrival_date=2024-02-10.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    Ingest(lake, BEFORE, no_session, "run").day(date(2024, 2, 10))
    return lake


def judgements(lake: Lake) -> set[tuple[str, int, str]]:
    log = locations.key_log(lake, "events").read(["record_key", "event_date", "standing"])
    assert log is not None
    return {(row["record_key"], row["event_date"].day, row["standing"]) for row in log.to_pylist()}


def plan(lake: Lake, first: date = FIRST, **wanted: Any) -> silver_rebuild.PlannedRebuild:
    days = silver_rebuild.RebuildRange(first, LAST, **wanted)
    return silver_rebuild.plan_rebuild(lake, AFTER, no_session, days, reason="why", runner_id="anna")


def test_only_rows_of_the_keys_are_judged_again_and_only_their_days_rebuilt(lake: Lake) -> None:
    before = judgements(lake)
    planned = plan(lake, keys=pa.array(["a", "a2"]))
    assert planned.rows_judged_otherwise == 2
    assert [day.day for day in planned.days] == [1, 3, 8]
    changed = judgements(lake) - before
    assert {row[:2] for row in changed} == {("a", 1), ("a2", 3)}
    [request, *_] = rebuild_requests.all_of(lake, "events")
    assert [day.day for day in request.touched_days] == [1, 3, 8]
    assert plan(lake, keys=pa.array(["a", "a2"])).rows_judged_otherwise == 0


def test_the_rows_of_the_keys_end_as_under_a_request_for_all(lake: Lake) -> None:
    plan(lake, keys=pa.array(["a", "a2"]))
    of_keys = {row for row in judgements(lake) if row[0] != "b"}
    assert plan(lake).rows_judged_otherwise == 2, "those of b"
    assert {row for row in judgements(lake) if row[0] != "b"} == of_keys


def test_a_range_limits_the_days_of_the_keys(lake: Lake) -> None:
    assert [day.day for day in plan(lake, date(2024, 2, 2), keys=pa.array(["a", "a2"])).days] == [3, 8]
    assert plan(lake, keys=pa.array([], pa.string())).days == []
    assert plan(lake, keys=pa.array(["nobody"])).days == []
