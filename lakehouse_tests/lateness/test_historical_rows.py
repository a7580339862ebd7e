"""History is not late: what a first load or a backfill plan brings is in no measurement, alert or proposal. No Spark."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime, timedelta, timezone
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dispositions import checks
from lakehouse.lake import Lake
from lakehouse.lateness import historical_rows, measurement, tuning
from lakehouse.lateness.recommendation import recommend
from lakehouse.lateness.rules import is_late
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.operations.alerts import signals
from lakehouse.settings import Settings
from lakehouse_tests.support.api_client import write_source_rows
from lakehouse_tests.support.arrivals import append_claims
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.contracts.source import SourceContract

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FEBRUARY = [date(2024, 2, day) for day in range(1, 9)]
TUNED: dict[str, Any] = {
    "clocks": {
        "event": "event_time",
        "arrival": "arrived_at",
        "watermark": {"strategy": "bounded", "max_lateness": "PT1H", "tuning": {"rows": 100, "auto": True, "at_least": "PT30M"}},
    },
    "lateness": {"watermark": "P1D", "alert_above": 0.01, "beyond": "quarantine"},
    "owner": "anna",
}
#: A row's event day, its arrival day, and its file.
Arrival = tuple[date, date, str]


def arrive(
    lake: Lake, source: SourceContract, file: str, day: date, lags: Sequence[timedelta], backfill: str | None = None
) -> None:
    """A file that arrives at 23:00 of a day, one row for each lag: in all tables of the source."""
    arrived = datetime(day.year, day.month, day.day, 23, tzinfo=timezone.utc)
    watermark = source.lateness.watermark
    standings = ["quarantined" if is_late(lag, watermark) else "admitted" for lag in lags]
    rows = [
        (f"{file}:{line}", arrived - lag, arrived, "insert", standing)
        for line, (lag, standing) in enumerate(zip(lags, standings))
    ]
    write_source_rows(lake, source, rows, file=file)
    entry = Ingestion(
        *(source.dataset, file, f"hash of {file}", day, f"{file}.csv", 1, None, "ingested", "run", arrived),
        rows=len(lags),
        newest_arrival=arrived,
        newest_event=arrived - min(lags),
        backfill=backfill,
    )
    ingestions.record(lake, entry)


def lake_of(folder: Any, now: date = FEBRUARY[-1]) -> Lake:
    return Lake(
        Settings(
            root=f"{folder}/lake", landing=f"{folder}", now=datetime(now.year, now.month, now.day, 23, 30, tzinfo=timezone.utc)
        )
    )


def history_by_row(rows: Sequence[Arrival], planned: set[str]) -> list[bool]:
    """The model of ``SourceHistory.of``."""
    firsts: dict[date, date] = defaultdict(lambda: date.max)
    for event, arrival, _ in rows:
        firsts[event] = min(arrival, firsts[event])
    since = min((arrival for _, arrival, file in rows if file not in planned), default=date.min)
    return [file in planned or (event < since and arrival == firsts[event]) for event, arrival, file in rows]


@law(200, in_each_run=8)
@given(
    rows=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=12),
    planned=st.sets(st.integers(0, 7), max_size=3),
)
def test_what_is_history_follows_from_the_ledger_and_the_days_of_the_rows(rows: list[tuple[int, int]], planned: set[int]) -> None:
    """One file an arrival day; some of them a backfill plan brought."""
    arrivals = [(FEBRUARY[min(days)], FEBRUARY[days[1]], f"of {days[1]}") for days in rows]
    names = {f"of {number}" for number in planned}
    with TemporaryDirectory() as folder:
        lake = lake_of(folder)
        claims = [
            dict(zip(historical_rows.COLUMNS, row), record_key=f"{line}", line_number=line) for line, row in enumerate(arrivals)
        ]
        append_claims(lake, "events", claims)
        entries = [
            Ingestion(
                *("events", file, f"hash of {file}", day, f"{file}.csv", 1, None, "ingested", "run", lake_of(folder).now()),
                backfill="bf-1" if file in names else None,
            )
            for day, file in {(arrival, file) for _, arrival, file in arrivals}
        ]
        ingestions.record(lake, *entries)
        table = pa.table(dict(zip(historical_rows.COLUMNS, map(list, zip(*arrivals)))))
        assert historical_rows.of_source(lake, "events").of(table).to_pylist() == history_by_row(arrivals, names)


def test_five_years_that_come_first_move_no_percentile_no_proposal_and_no_alert(tmp_path: Any) -> None:
    """The first file brings five years; then come ordinary days."""
    lake, source = lake_of(tmp_path), contract(**TUNED)
    years = [number * DAY for number in range(1, 1826)]
    arrive(lake, source, "export", FEBRUARY[0], [timedelta(0), *years])
    assert list(signals.of_source(lake, source)) == []
    first = measurement.measure(lake, source, FEBRUARY[0], FEBRUARY[0])
    assert (first.rows, first.late, first.historical) == (1, 0, 1825)
    for day in FEBRUARY[1:]:
        arrive(lake, source, f"of {day}", day, [timedelta(0)] * 80)
    assert list(signals.of_source(lake, source)) == []
    measured = measurement.measure(lake, source, FEBRUARY[0], FEBRUARY[-1])
    assert max(measurement.together(measured.types)) == 0
    assert not measurement.late_dispositions(lake, source, FEBRUARY[0], FEBRUARY[-1])
    assert measurement.proposals(source, measured)[None].needed == timedelta(minutes=1)
    advice = recommend(lake, source, HOUR)
    assert advice is not None
    assert advice.proposal.watermark == timedelta(minutes=30), "the least that the contract allows"
    assert tuning.apply_daily(lake, source).startswith("events: 1 h -> 45 min"), "not longer: that would delay every close"
    assert sum(map(len, measurement.by_day(lake, source, *FEBRUARY[:: len(FEBRUARY) - 1]).values())) == measured.rows
    [tolerated] = [
        one for one in checks.check_rows(lake, source, {FEBRUARY[0]: 1826}, [FEBRUARY[0]]) if one.check == "lateness_tolerated"
    ]
    assert (tolerated.passed, tolerated.numbers["rows"], tolerated.numbers["beyond_cutoff"]) == (True, 1, 0)


def test_what_a_backfill_plan_brings_to_a_running_source_is_left_out_and_a_late_row_is_not(tmp_path: Any) -> None:
    lake, source = lake_of(tmp_path), contract(**TUNED, alerts={"lag": {"days": 4, "needs_rows": 10}})
    for day in FEBRUARY[:-1]:
        arrive(lake, source, f"of {day}", day, [HOUR / 2] * 100)
    before = recommend(lake, source, HOUR)
    curve, version = measurement.read_curve(lake, source), measurement.version(lake, source.dataset)
    arrive(lake, source, "acquired", FEBRUARY[-2], [number * DAY for number in range(2, 500)], backfill="bf-1")
    assert list(signals.of_source(lake, source)) == []
    after = recommend(lake, source, HOUR)
    assert before is not None
    assert after is not None
    assert after.proposal == before.proposal
    assert (after.measured.rows, after.measured.historical) == (before.measured.rows, 498)
    assert measurement.version(lake, source.dataset) != version
    known = measurement.read_curve(lake, source)
    assert curve is not None
    assert known is not None
    assert (known.first, known.days) == (curve.first, curve.days)
    arrive(lake, source, "a till that was offline", FEBRUARY[-1], [number * DAY for number in range(2, 7)] * 2)
    late = measurement.late_dispositions(lake, source, FEBRUARY[0], FEBRUARY[-1])
    assert sum(late.values()) == measurement.measure(lake, source, FEBRUARY[0], FEBRUARY[-1]).late == 10
    assert "lag" in {alert.kind.value for alert in signals.of_source(lake, source)}
