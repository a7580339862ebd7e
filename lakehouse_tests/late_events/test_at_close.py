"""``late_events.at_close``: a final number counts every row, however late it came, and says so."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.contracts.publication import AtClose
from lakehouse.contracts.series import Series
from lakehouse.delta import provenance
from lakehouse.gold.publication import late_at_close
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import reconciliation
from lakehouse.ledger import contract_archive
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.late_lake import CORNERS, LateLake, histories, late
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.windowed_lake import BEGINS, DAYS, FIRST, SLIDING, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake

CLOSED = datetime(2025, 2, 1, tzinfo=timezone.utc)
EVERY_DAY = [FIRST + timedelta(days=number) for number in range(-1, DAYS + 1)]
#: After them the watermark has passed the first day.
ON_TIME = [Event("a", 5), Event("b", 30), Event("next day", 25 * 60)]
TOO_LATE = [Event("beyond", 10, 100), Event("b", 31, 7)]


def close(sample: LateLake, definition: MetricContract, days: list[date], at: datetime = CLOSED) -> None:
    sample.lake.settings.now = at
    source, series = sample.sources["orders"], Series(definition)
    restatement_days.restate(sample.lake, source, series, sample.session, days, Run("close"))


def newest(sample: LateLake, definition: MetricContract, day: date = FIRST) -> dict[str, Any]:
    series = Series(definition)
    rows = locations.gold(sample.lake, series).read(None, {series.by: [day]}).to_pylist()
    return max(rows, key=lambda row: row["revision"])


@pytest.mark.merge
@pytest.mark.spark
def test_a_final_number_counts_the_rows_that_were_dropped_and_says_so(lake: Lake, spark: Any) -> None:
    strict_too = late({**TUMBLING, "metric": "strict"}, "drop", at_close="exclude")
    sample = LateLake(lake, spark, [late(TUMBLING, "recompute"), strict_too])
    hourly, strict = sample.metrics
    sample.deliver_at(0, *ON_TIME)
    sample.deliver_at(1, *TOO_LATE)
    assert [sample.numbers_of(definition)[BEGINS] for definition in sample.metrics] == [(2, 2), (2, 2)]
    for definition in sample.metrics:
        close(sample, definition, [FIRST])
    assert sample.numbers_of(hourly)[BEGINS] == (108, 3)
    assert sample.numbers_of(strict)[BEGINS] == (2, 2)
    closed, unlike = newest(sample, hourly), newest(sample, strict)
    assert (closed["state"], closed["reason"]) == ("final", "late_data")
    assert closed["restatement_reason"] == "late_data: 2 came too late, and count now that the day is closed"
    assert (unlike["state"], unlike["reason"]) == ("final", "daily_finalization")
    for definition in sample.metrics:
        [outcome] = reconciliation.check_published(lake, Series(definition), [FIRST])
        assert (outcome.passed, outcome.explanation) == (True, None)
    sample.deliver_at(2, Event("even later", 11, 1000))
    lake.settings.now = CLOSED
    for definition in sample.metrics:
        close(sample, definition, [FIRST], CLOSED + timedelta(hours=1))
    assert sample.numbers_of(hourly)[BEGINS] == (1108, 4), "a closed day counts what comes later, too"
    assert sample.numbers_of(strict)[BEGINS] == (2, 2)
    assert sample.unlike_published() == []


@pytest.mark.merge
@pytest.mark.spark
@law(25)
@example(history=CORNERS, action="update")
@given(history=histories(), action=st.sampled_from(["drop", "update", "recompute"]))
def test_any_history_closes_with_every_row(tmp_path_factory, spark, history, action) -> None:
    metrics = [late(TUMBLING, action, 30), late(SLIDING, "recompute", 60)]
    sample = LateLake(lake_in(tmp_path_factory.mktemp("lake")), spark, metrics)
    for arrived, events in history:
        sample.deliver_at(arrived, *events)
    sample.deliver_at(1000, Event("push", (DAYS + 1) * 24 * 60))
    for definition in sample.metrics:
        close(sample, definition, [*EVERY_DAY, FIRST + timedelta(days=DAYS + 1)])
        # The day of the newest row is not over for the watermark.
        last = BEGINS + timedelta(days=DAYS)
        seen = {start: numbers for start, numbers in sample.numbers_of(definition).items() if start < last}
        model = sample.expected(definition, closed=True)
        assert seen == {start: numbers for start, numbers in model.items() if start < last}
    assert sample.unlike_published() == []


@st.composite
def revisions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The revisions of a day, in their order: an open number becomes final once; contracts and dataset versions change."""
    count = draw(st.integers(1, 6))
    closes = draw(st.integers(0, count))
    version, rows = 1, list[dict[str, Any]]()
    for number in range(count):
        version += draw(st.sampled_from([0, 0, 0, 1]))
        rows.append(
            {
                "event_date": FIRST,
                "revision": number + 1,
                "adjustment": draw(st.sampled_from([None, None, 1])) if number > closes else None,
                "state": "final" if number >= closes else draw(st.sampled_from(["live", "preliminary"])),
                "dataset_version": version,
                "contract_version": draw(st.sampled_from(["now", "with", "without", "forgotten", None])),
            }
        )
    return rows


@pytest.fixture(name="archive", scope="module")
def _archive(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake that has stored a contract of before there was the key, and a later one."""
    lake = lake_in(tmp_path_factory.mktemp("lake"))
    for version, terms in (("without", {"allowed_lateness": "PT5M"}), ("with", {"at_close": "include"})):
        contract_archive.record(lake, "metric", "hourly", version, json.dumps({"late_events": terms}), CLOSED)
    return lake


@law(500, in_each_run=100)
@given(rows=revisions(), now=st.sampled_from(list(AtClose)))
def test_a_closed_number_keeps_the_rule_of_the_contract_that_closed_it(archive, rows, now) -> None:
    """Against a plain reading: of the final revisions of the newest dataset version, the first one's contract decides."""
    metric = late(TUMBLING, "recompute", at_close=now.value)
    named = {"now": provenance.of_contract(metric)}
    versions = [named.get(row["contract_version"], row["contract_version"]) for row in rows]
    table = pa.Table.from_pylist([{**row, "contract_version": version} for row, version in zip(rows, versions)], schema=_SCHEMA)
    final = [row for row in rows if row["state"] == "final" and row["adjustment"] is None]
    of_version = [row for row in final if row["dataset_version"] == final[-1]["dataset_version"]]
    includes = {"now": now is AtClose.INCLUDE, "with": True}
    closed = {FIRST} if of_version and includes.get(of_version[0]["contract_version"], False) else set()
    assert late_at_close.counting_every_row(archive, Series(metric), table) == closed
    becoming = {FIRST} if not final and now is AtClose.INCLUDE else set()
    assert late_at_close.counting_every_row(archive, Series(metric), table, [FIRST]) == closed | becoming


_SCHEMA = pa.schema(
    [
        ("event_date", pa.date32()),
        ("revision", pa.int32()),
        ("adjustment", pa.int32()),
        ("state", pa.string()),
        ("dataset_version", pa.int32()),
        ("contract_version", pa.string()),
    ]
)


def test_a_contract_of_before_there_was_the_key_leaves_late_rows_out_and_keeps_its_hash() -> None:
    stored = {"metric": "total", "late_events": {"allowed_lateness": "PT5M", "action": "drop"}}
    assert contract_archive.readable(stored)["late_events"]["at_close"] == "exclude"
    include, exclude = (late(TUMBLING, "drop", at_close=word) for word in ("include", "exclude"))
    assert late(TUMBLING, "drop") == include, "a new contract includes them"
    assert provenance.of_contract(include) != provenance.of_contract(exclude)
    dumped = exclude.model_dump(mode="json")
    del dumped["late_events"]["at_close"]
    again = type(exclude).model_validate(contract_archive.readable(dumped))
    assert provenance.of_contract(again) == provenance.of_contract(exclude)
