"""A watermark that changes by arrival day: each row is judged by the one of its day, whenever it is judged (R5). No Spark."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lakehouse.contracts.source_rules import Lateness
from lakehouse.dispositions import row_frames
from lakehouse.impact import analysis
from lakehouse_tests.support.api_client import catalog, write_source_rows
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract, csv_file
from lakehouse_tests.support.numbers_without_spark import metric

if TYPE_CHECKING:
    from pathlib import Path

DAYS = st.dates(date(2024, 1, 1), date(2024, 12, 31))
CHANGES = st.dictionaries(DAYS, st.integers(0, 30), max_size=5).map(lambda found: sorted(found.items()))


@given(changes=CHANGES, arrival_day=DAYS)
def test_the_newest_change_on_or_before_the_day_holds(changes: list[tuple[date, int]], arrival_day: date) -> None:
    change_rows = [{"since": day, "watermark": timedelta(days=days)} for day, days in changes]
    bounds = Lateness.model_validate({"watermark": "P7D", "changes": change_rows})
    held = timedelta(days=7)
    for day, days in changes:
        if day <= arrival_day:
            held = timedelta(days=days)
    assert bounds.on(arrival_day) == bounds.as_of(None, arrival_day).watermark == held


@pytest.mark.parametrize(
    "changes",
    [
        [{"since": "2024-02-01", "watermark": "P1D"}, {"since": "2024-01-01", "watermark": "P1D"}],
        [{"since": "2024-02-01", "watermark": "P1D"}, {"since": "2024-02-01", "watermark": "P2D"}],
        [{"since": "2024-02-01", "watermark": "-P1D"}],
    ],
)
def test_changes_out_of_order_are_a_mistake(changes: list[dict[str, str]]) -> None:
    with pytest.raises(ValidationError):
        Lateness.model_validate({"watermark": "P7D", "changes": changes})


def test_a_replay_judges_each_row_by_the_watermark_of_its_day(tmp_path: Path) -> None:
    """The same rows, two days late, on both sides of the change."""
    lateness: dict[str, Any] = {"watermark": "P7D", "beyond": "quarantine"}
    lateness["changes"] = [{"since": "2024-02-10", "watermark": "P1D"}]
    source = contract(lateness=lateness)
    lake = lake_in(tmp_path)
    outcomes = {}
    for day in (9, 10):
        arrival = datetime(2024, 2, day, 12, tzinfo=timezone.utc)
        event = arrival - timedelta(days=2)
        path = tmp_path / "landing" / f"arrival_date=2024-02-{day:02}.csv"
        path.write_bytes(csv_file([f"k{day},1,{event.isoformat()},{arrival.isoformat()},insert,,0"]))
        outcomes[day] = analysis.of_file(lake, catalog(metric(), source=source), "events", path.name)
    assert (len(outcomes[9].rows), outcomes[9].out) == (1, {})
    assert (len(outcomes[10].rows), outcomes[10].out) == (0, {"quarantined": 1})


def test_rows_of_bronze_are_judged_by_the_watermark_of_their_day(tmp_path: Path) -> None:
    lateness = {"watermark": "P7D", "beyond": "quarantine", "changes": [{"since": "2024-02-10", "watermark": "P1D"}]}
    source, lake = contract(lateness=lateness), lake_in(tmp_path)
    arrivals = [datetime(2024, 2, day, 12, tzinfo=timezone.utc) for day in (9, 10)]
    write_source_rows(lake, source, [(f"{one.day}", one - timedelta(days=2), one, "insert", "admitted") for one in arrivals])
    (judged,) = row_frames.judged(lake, source, no_session, {"ingestion_id": ["file1"]})
    assert dict(zip(judged["record_key"].to_pylist(), judged["standing"].to_pylist())) == {"9": "admitted", "10": "quarantined"}


def no_session() -> Any:
    pytest.fail("lateness needs no Spark")
