"""A plan lists what would be done, from files and tables as they are, and writes nothing. No Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.bronze.file_completeness import ManifestEntry
from lakehouse.contracts import load_catalog
from lakehouse.dispositions import claims
from lakehouse.operations.backfills import planner
from lakehouse.operations.backfills.plan import Layer
from lakehouse.operations.backfills.planner import BackfillRequest, PlanProblemError
from lakehouse_tests.support.sales_files import FIRST_DAY, SECOND_DAY, deliver_sales
from lakehouse_tests.support.united_lake import UnitedLake

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.plan import BackfillPlan

CATALOG = load_catalog(None)
NOW = datetime(2024, 11, 20, tzinfo=timezone.utc)


def plan(lake: Lake, target: str = "sales", **more: Any) -> BackfillPlan:
    wish = BackfillRequest(target=target, first_day=FIRST_DAY, last_day=SECOND_DAY, reason="why", runner_id="anna", **more)
    return planner.plan(lake, CATALOG, wish, NOW)


def test_new_files_are_followed_down_to_the_months(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01", "s2@2024-11-04")
    deliver_sales(lake, SECOND_DAY, "s3@2024-11-02")
    deliver_sales(lake, date(2024, 11, 7), "s4@2024-11-07")  # outside of the range
    made = plan(lake, wave_size=2)
    assert [(file.arrival_date, file.rows, file.known) for file in made.files] == [(FIRST_DAY, 2, False), (SECOND_DAY, 1, False)]
    waves = {
        wave.table: sorted(day for one in made.waves if one.table == wave.table for day in one.partitions) for wave in made.waves
    }
    days = [date(2024, 11, day) for day in (1, 2, 4)]
    assert waves["bronze/sales"] == [FIRST_DAY, SECOND_DAY]
    assert waves["silver/sales"] == days
    assert waves["gold/revenue"] == days
    assert waves["gold/revenue_monthly"] == [date(2024, 11, 1)]
    assert [wave.layer for wave in made.waves] == sorted((wave.layer for wave in made.waves), key=list(Layer).index)
    assert len([wave for wave in made.waves if wave.table == "silver/sales"]) == 2
    assert not Path(lake.root).exists()


def test_the_same_request_at_another_time_is_another_plan(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01")
    wish = BackfillRequest(target="sales", first_day=FIRST_DAY, last_day=SECOND_DAY, reason="why", runner_id="anna")
    later = planner.plan(lake, CATALOG, wish, datetime(2024, 11, 21, tzinfo=timezone.utc))
    assert later.plan_id != plan(lake).plan_id


def test_files_that_break_their_manifest_are_refused_with_file_and_field(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01")
    name = f"arrival_date={FIRST_DAY}.csv"
    assert plan(lake, promised=[ManifestEntry("m.csv", name, {"rows": 1})]).new_files[0].file == name
    with pytest.raises(PlanProblemError, match=r"rows is 1, and m\.csv says 2"):
        plan(lake, promised=[ManifestEntry("m.csv", name, {"rows": 2})])
    with pytest.raises(PlanProblemError, match=r"sha256 is .* and m.csv says bbbb"):
        plan(lake, promised=[ManifestEntry("m.csv", name, {"sha256": "b" * 64})])
    with pytest.raises(PlanProblemError, match=r"gone\.csv: is not in landing"):
        plan(lake, promised=[ManifestEntry("m.csv", name), ManifestEntry("m.csv", "gone.csv")])


def test_a_broken_file_is_reported_and_not_planned(lake: Lake) -> None:
    Path(str(lake.settings.landing), f"arrival_date={FIRST_DAY}.csv").write_bytes(b"\x1f\x8b\x08broken")
    made = plan(lake)
    assert not made.files
    assert "it would be held" in made.notes[0]


def test_an_unknown_target_is_reported_with_the_known_ones(lake: Lake) -> None:
    with pytest.raises(PlanProblemError, match=r"known are .*revenue"):
        plan(lake, "nothing")
    with pytest.raises(PlanProblemError, match="a metric called revenue_v7"):
        plan(lake, "revenue", dataset_version=7)
    with pytest.raises(PlanProblemError, match="is a source: name one of its metrics"):
        plan(lake, "sales", dataset_version=2)


def test_a_file_that_changed_since_stops_the_run(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01")
    deliver_sales(lake, SECOND_DAY, "s2@2024-11-01")
    made = plan(lake)
    planner.still_as_planned(lake, CATALOG, made)
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-02")
    Path(str(lake.settings.landing), f"arrival_date={SECOND_DAY}.csv").unlink()
    with pytest.raises(PlanProblemError) as problem:
        planner.still_as_planned(lake, CATALOG, made)
    assert "2024-11-05.csv has other content" in f"{problem.value}"
    assert "2024-11-06.csv is no longer in landing" in f"{problem.value}"


def test_another_contract_stops_the_run(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01")
    other = plan(lake).model_copy(update={"contracts": {"sales": "another"}})
    with pytest.raises(PlanProblemError, match="the contract of sales was another and is"):
        planner.still_as_planned(lake, CATALOG, other)


def test_the_same_content_under_two_names_is_expected_once(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01", "s2@2024-11-01")
    content = Path(str(lake.settings.landing), f"arrival_date={FIRST_DAY}.csv").read_bytes()
    Path(str(lake.settings.landing), f"arrival_date={FIRST_DAY}-again.csv").write_bytes(content)
    made = plan(lake)
    assert [file.rows for file in made.files] == [2, 2]
    assert [file.rows for file in made.new_files] == [2]


def test_files_that_wait_for_others_are_reported_and_not_planned(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01")
    sales = CATALOG.sources["sales"]
    source = type(sales.source).model_validate({**sales.source.model_dump(), "complete_when": {"marker": "{arrival_date}.done"}})
    catalog = replace(CATALOG, sources={"sales": sales.model_copy(update={"source": source})})
    wish = BackfillRequest(target="sales", first_day=FIRST_DAY, last_day=SECOND_DAY, reason="why", runner_id="anna")
    waiting = planner.plan(lake, catalog, wish, NOW)
    assert not waiting.files
    assert "wait for the marker 2024-11-05.done" in waiting.notes[0]
    Path(str(lake.settings.landing), f"{FIRST_DAY}.done").touch()
    assert len(planner.plan(lake, catalog, wish, NOW).new_files) == 1


def test_the_key_log_is_read_once_for_all_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01")
    deliver_sales(lake, SECOND_DAY, "s2@2024-11-02")
    looked, real = [], claims.affected_event_days
    monkeypatch.setattr(claims, "affected_event_days", lambda *asked: looked.append(asked[2]) or real(*asked))
    assert [wave.partitions for wave in plan(lake).waves if wave.layer is Layer.SILVER] == [
        (date(2024, 11, 1), date(2024, 11, 2))
    ]
    assert len(looked) == 1


def test_rows_of_an_entity_in_several_sources_are_refused(lake: Lake) -> None:
    sample = UnitedLake(lake, None)
    wish = BackfillRequest(
        target="revenue", first_day=FIRST_DAY, last_day=SECOND_DAY, reason="why", runner_id="anna", where="store = 'north'"
    )
    with pytest.raises(PlanProblemError, match="revenue reads several sources, and 'where' chooses rows of one"):
        planner.plan(lake, sample.catalog, wish, NOW)


def test_the_days_of_a_plan_are_event_days_and_choose_the_arrival_days_that_bring_them(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01", "s2@2024-11-04")
    deliver_sales(lake, SECOND_DAY, "s3@2024-11-06")
    deliver_sales(lake, date(2024, 11, 9), "s4@2024-11-08")
    of_november = BackfillRequest(
        target="sales", first_day=date(2024, 11, 1), last_day=date(2024, 11, 3), reason="why", runner_id="anna", clock="event"
    )
    made = planner.plan(lake, CATALOG, of_november, NOW)
    assert [file.arrival_date for file in made.files] == [FIRST_DAY], "the file also brings the 4th: it is ingested as a whole"
    assert (made.clock, made.notes) == ("event", ())
    longer = planner.plan(lake, CATALOG, replace(of_november, last_day=date(2024, 11, 8)), NOW)
    assert [file.arrival_date for file in longer.files] == [FIRST_DAY, SECOND_DAY, date(2024, 11, 9)]
    of_arrival = replace(of_november, first_day=date(2024, 11, 9), last_day=date(2024, 11, 9))
    [note] = planner.plan(lake, CATALOG, of_arrival, NOW).notes
    assert "1 new files arrived on these days: --arrival-from and --arrival-through select them" in note
    assert planner.plan(lake, CATALOG, replace(of_arrival, clock="arrival"), NOW).new_files[0].arrival_date.day == 9


def test_a_plan_says_how_many_rows_the_watermark_holds_and_what_admitting_them_changes(lake: Lake) -> None:
    """Sales that arrive more than seven days after the event wait for a steward."""
    later = date(2024, 11, 20)
    deliver_sales(lake, FIRST_DAY, "s4@2024-11-04")
    deliver_sales(lake, later, "s1@2024-11-19", "s2@2024-11-02", "s3@2024-11-03")
    wish = BackfillRequest(target="sales", first_day=FIRST_DAY, last_day=later, reason="why", runner_id="anna")
    made = planner.plan(lake, CATALOG, wish, NOW)
    assert ([file.beyond for file in made.files], made.admit_history) == ([0, 2], False)
    assert [file.rows for file in made.files] == [1, 3]
    admitted = planner.plan(lake, CATALOG, replace(wish, admit_history=True), NOW)
    assert ([file.beyond for file in admitted.files], admitted.admit_history) == ([0, 2], True)

    def silver_days(of: BackfillPlan) -> set[date]:
        return {day for wave in of.waves if wave.layer is Layer.SILVER for day in wave.partitions}

    assert silver_days(admitted) - silver_days(made) == {date(2024, 11, 2), date(2024, 11, 3)}


def test_history_is_admitted_in_plans_of_files_only(lake: Lake) -> None:
    with pytest.raises(PlanProblemError, match="--admit-history admits rows of files, and revenue is a metric"):
        plan(lake, "revenue", admit_history=True)
    with pytest.raises(PlanProblemError, match="takes no --manifest and no --admit-history"):
        plan(lake, where="store = 'north'", write_mode="overwrite", admit_history=True)
