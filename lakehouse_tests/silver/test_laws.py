"""The laws of silver on generated histories: merged == rebuilt == what rule R2 says, whatever the order and grouping."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from lakehouse.dispositions import account as dispositions_account
from lakehouse_tests.conftest import lake_settings
from lakehouse_tests.support.lake import Lake, content_id, contract, csv_file, csv_line, row_of
from lakehouse_tests.support.reference_model import Record, live_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from lakehouse_tests.support.lake import Row

pytestmark = pytest.mark.spark

DAYS = [date(2024, 1, day) for day in range(1, 5)]
KEYS = ["a", "b", "c"]
NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Step:
    """One file is delivered (again, under another name, where it was before), and some waiting days are updated."""

    file: int
    arrival: date
    updated: frozenset[date]


@dataclass(frozen=True)
class History:
    files: list[list[Record]]
    steps: list[Step]
    local_rows: int


@st.composite
def records(draw: st.DrawFn) -> Record:
    op = draw(st.sampled_from(["insert", "insert", "correct", "correct", "delete"]))
    days = st.sampled_from(DAYS)
    return Record(
        key=draw(st.sampled_from(KEYS)),
        op=op,  # type: ignore[arg-type]
        day=draw(st.none() | days) if op == "delete" else draw(days),
        amount=draw(st.integers(0, 2)),
        arrival=NOON + timedelta(hours=draw(st.integers(0, 5))),
        corrects=draw(st.none() | st.none() | st.sampled_from(KEYS)),
        sequence=draw(st.integers(0, 4)),
    )


@st.composite
def histories(draw: st.DrawFn) -> History:
    pool = draw(st.lists(records(), min_size=5, max_size=9))
    # Drawn from a pool: the same record stands in several files, or twice in one.
    files = draw(st.lists(st.lists(st.sampled_from(pool), min_size=1, max_size=5), min_size=3, max_size=4, unique_by=tuple))
    order = draw(st.permutations(range(len(files))))
    again = draw(st.lists(st.sampled_from(order), max_size=1))
    arrivals = st.sampled_from([date(2024, 2, day) for day in (1, 2, 3)])
    subset = st.frozensets(st.sampled_from(DAYS), max_size=3)
    steps = [Step(file, draw(arrivals), draw(subset)) for file in [*order, *again]]
    return History([[*file] for file in files], steps, draw(st.sampled_from([0, 20_000])))


def said(hour: int, key: str, op: Any, day: int | None, corrects: str | None = None) -> Record:
    return Record(key, op, DAYS[day] if day is not None else None, hour, NOON + timedelta(hours=hour), corrects, hour % 3)


#: Each key is a corner of R2, which few generated histories would meet.
CORNERS = [
    [
        said(1, "new id", "correct", 1, corrects="original comes late"),
        said(5, "retired behind", "insert", 0),
        said(1, "retires first", "correct", 1, corrects="revived"),
        said(4, "moved", "correct", 1),
        said(2, "deleted first", "delete", None),
        said(2, "inserted again", "delete", 2),
    ],
    [
        said(3, "original comes late", "insert", 0),
        said(3, "retires behind", "correct", 2, corrects="retired behind"),
        said(4, "revived", "insert", 2),
        said(1, "moved", "insert", 0),
        said(1, "deleted first", "insert", 3),
        said(3, "inserted again", "insert", 3),
    ],
    [
        said(2, "revived", "correct", 0),
        said(2, "moved", "insert", 3),
        said(5, "moved", "correct", 2),
        said(5, "inserted again", "correct", 3, corrects="inserted again"),
    ],
]


def corners(order: list[int], updated: list[list[date]]) -> History:
    steps = [Step(file, date(2024, 2, 1 + file), frozenset(days)) for file, days in zip(order, updated)]
    return History(CORNERS, steps, 20_000)


FORWARD = corners([0, 1, 2], [DAYS, DAYS, DAYS])
BACKWARD = corners([2, 1, 0], [DAYS[:1], DAYS[2:], []])


def content(rows: Iterable[Row]) -> dict[date, set[Row]]:
    """What the rows say, without where it comes from, by event day."""
    by_day: dict[date, set[Row]] = {day: set() for day in DAYS}
    for row in rows:
        by_day[row[1]].add(row[:3])
    return by_day


def check(history: History, lake: Lake, *, by_sequence: bool) -> None:
    lake.settings.local_rows = history.local_rows
    known: list[Record] = []
    delivered: list[str] = []

    def model() -> set[Row]:
        return {row_of(record) for record in live_rows(known, by_sequence=by_sequence).values()}

    def update(days: Iterable[date]) -> None:
        before = content(lake.silver())
        said = lake.update(frozenset(days)).changes
        after = content(lake.silver())
        assert said.keys() == {day for day in DAYS if before[day] != after[day]}, "impact is exact (R6)"

    for number, step in enumerate(history.steps):
        data = csv_file(map(csv_line, history.files[step.file]))
        name = content_id(data)
        lake.deliver(step.arrival, data, f".{number}.csv")
        report = lake.ingest(step.arrival)
        assert (len(report.ingested), len(report.redelivered)) == ((0, 1) if name in delivered else (1, 0))
        if name not in delivered:
            delivered.append(name)
            known += [replace(record, file=name, line=line) for line, record in enumerate(history.files[step.file], 2)]
        if days := step.updated & set(lake.pending()):
            update(days)
        if len(delivered) == 2:
            early, expected_early = list(delivered), model()

    update(lake.pending())
    expected = model()
    assert lake.silver() == expected, "merged as R2 says"
    assert lake.pending() == []
    assert lake.rebuilt(DAYS) == expected, "rebuilt as R2 says (R3)"
    version = lake.silver_version()
    assert lake.update(DAYS).rebuilt == set(DAYS)
    assert lake.silver_version() == version, "a rebuild without effect makes no commit"
    assert lake.rebuilt(DAYS, early) == expected_early, "as of an earlier ingestion (R10)"
    assert len(lake.bronze()) == len(known), "every record once (R1)"
    account = dispositions_account.rows(lake.settings, lake.contract)
    assert len(account) == len(known), "every record has one disposition (R4)"
    alive = {(row.record_key, row.event_date, row.ingestion_id, row.line_number) for row in account if row.lives}
    assert alive == {(row[0], row[1], *row[4:]) for row in expected}, "what is applied is what silver holds (R4)"


def cheap(count: int, *phases: Phase) -> Any:
    return examples(
        max_examples=count,
        deadline=None,
        phases=[Phase.explicit, Phase.generate, *phases],
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


SOURCES = pytest.mark.parametrize("by_sequence", [False, True], ids=["by arrival", "by sequence"])


def run(history: History, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, *, by_sequence: bool) -> None:
    order = {"order": {"sequence": "seq"}} if by_sequence else {}
    if not by_sequence:
        history = replace(history, files=[[replace(record, sequence=0) for record in file] for file in history.files])
    lake = Lake(lake_settings(tmp_path_factory.mktemp("lake")), contract(**order), spark)
    check(history, lake, by_sequence=by_sequence)


@SOURCES
@cheap(4)
@example(history=FORWARD)
@example(history=BACKWARD)
@given(history=histories())
def test_silver_is_a_function_of_bronze(
    history: History, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, by_sequence: bool
) -> None:
    run(history, spark, tmp_path_factory, by_sequence=by_sequence)


@pytest.mark.slow
@SOURCES
@cheap(60, Phase.shrink)
@given(history=histories())
def test_silver_is_a_function_of_bronze_at_length(
    history: History, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, by_sequence: bool
) -> None:
    run(history, spark, tmp_path_factory, by_sequence=by_sequence)
