"""What the schedules of a source request; none starts Spark."""

from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse.contracts import Catalog, load_catalog
from lakehouse.contracts.source import SourceContract
from lakehouse.lake import Lake
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.orchestration.automation import schedules
from lakehouse.orchestration.automation.schedules import schedule_of
from lakehouse.orchestration.build import build_definitions
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.settings import Settings

SALES = load_catalog(None).sources["sales"]
FRESH = dg.AssetCheckKey(dg.AssetKey(["arrivals", "sales"]), "arrivals_are_fresh")
#: 03:00 on the 10th of November in Berlin.
TICK = datetime(2024, 11, 10, 2, tzinfo=timezone.utc)


@pytest.fixture(name="lake")
def _lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    def refuse(_: LakeSpark) -> None:
        pytest.fail("somebody asked for a JVM")

    monkeypatch.setattr(LakeSpark, "spark_session", property(refuse))
    (tmp_path / "landing").mkdir()
    return Lake(Settings(root=str(tmp_path / "lake"), landing=str(tmp_path / "landing")))


def source_with(**changes: Any) -> SourceContract:
    return SourceContract.model_validate({**SALES.model_dump(), **changes})


def arrive(lake: Lake, *touched: int) -> None:
    """A file of the 5th of November that touched some days of it."""
    days = [date(2024, 11, day) for day in touched]
    now = datetime(2024, 11, 5, 6, tzinfo=timezone.utc)
    file = Ingestion("sales", "abc", "abcdef", date(2024, 11, 5), "first.csv", 9, None, "ingested", "run", now, rows=len(days))
    file.touched_days.extend(days)
    file.touched_rows.extend([1] * len(days))
    ingestions.record(lake, file)


def schedule(lake: Lake, contract: SourceContract, name: str) -> dg.ScheduleDefinition:
    [kind] = [kind for kind in schedules.kinds(lake, Catalog({"sales": contract})) if kind.name.startswith(name)]
    return schedule_of(lake, kind)


def tick(definition: dg.ScheduleDefinition, instance: dg.DagsterInstance, at: datetime = TICK) -> dg.RunRequest | str:
    """One tick, as the daemon evaluates it: its run request, or the reason why there is none."""
    with dg.build_schedule_context(instance, scheduled_execution_time=at) as context:
        said = definition.evaluate_tick(context)
    if said.skip_message is not None:
        return said.skip_message
    [request] = said.run_requests
    return request


def rolling(lake: Lake, instance: dg.DagsterInstance, at: datetime = TICK, **changes: Any) -> dg.RunRequest | str:
    clocks = {**SALES.clocks.model_dump(), "timezone": changes.pop("timezone", "Europe/Berlin")}
    return tick(schedule(lake, source_with(rolling_backfill=changes, clocks=clocks), "rolling"), instance, at)


def window(request: dg.RunRequest | str) -> tuple[str, str]:
    assert isinstance(request, dg.RunRequest), request
    assert request.asset_selection == [dg.AssetKey(["silver", "sales"])]
    tags = request.tags
    return tags["dagster/asset_partition_range_start"], tags["dagster/asset_partition_range_end"]


def test_there_is_no_rolling_backfill_where_the_contract_asks_for_none(lake: Lake) -> None:
    assert [kind.name for kind in schedules.kinds(lake, Catalog({"sales": SALES}))] == ["freshness"]
    asked = schedule(lake, source_with(rolling_backfill={"at": "15 4 * * *"}), "rolling")
    assert (asked.name, asked.cron_schedule, asked.execution_timezone) == ("rolling_0415_utc", "15 4 * * *", "UTC")


def test_sources_that_roll_at_the_same_time_share_a_schedule(lake: Lake) -> None:
    berlin = {**SALES.clocks.model_dump(), "timezone": "Europe/Berlin"}
    wanted = {
        "a": source_with(dataset="a", rolling_backfill={"at": "15 4 * * *"}),
        "b": source_with(dataset="b", rolling_backfill={"at": "15 04 * * *"}),
        "c": source_with(dataset="c", rolling_backfill={"at": "15 4 * * *"}, clocks=berlin),
        "d": source_with(dataset="d", rolling_backfill={"at": "0 4 * * 1-5"}),
    }
    found = {kind.name: [look.subject for look in kind.looks] for kind in schedules.kinds(lake, Catalog(wanted))}
    [weekly] = [name for name in found if found[name] == ["silver/d"]]
    assert weekly.startswith("rolling_")
    assert weekly.endswith("_utc")
    assert found == {
        "freshness": ["arrivals/a", "arrivals/b", "arrivals/c", "arrivals/d"],
        "rolling_0415_utc": ["silver/a", "silver/b"],
        "rolling_0415_europe_berlin": ["silver/c"],
        weekly: ["silver/d"],
    }


def test_zones_with_similar_names_have_schedules_of_their_own(lake: Lake) -> None:
    zones = {"a": "Etc/GMT+5", "b": "Etc/GMT-5", "c": "UTC"}
    clocks = {name: {**SALES.clocks.model_dump(), "timezone": zone} for name, zone in zones.items()}
    wanted = {name: source_with(dataset=name, rolling_backfill={}, clocks=clocks[name]) for name in zones}
    names = [kind.name for kind in schedules.kinds(lake, Catalog(wanted)) if kind.name.startswith("rolling")]
    assert len(set(names)) == 3


def test_one_run_recomputes_the_last_days_up_to_the_delay(lake: Lake, instance: dg.DagsterInstance) -> None:
    arrive(lake, 4, 8)
    request = rolling(lake, instance, days=7, delay=2)
    assert window(request) == ("2024-11-02", "2024-11-08")
    assert rolling(lake, instance, days=7, delay=2) == request, "a tick that is repeated asks for the same run"
    assert window(rolling(lake, instance, days=1, delay=2)) == ("2024-11-08", "2024-11-08")
    assert window(rolling(lake, instance, days=200, delay=0)) == ("2024-11-01", "2024-11-10"), "no day before the first"


def test_today_follows_the_calendar_of_the_source_and_the_clock_of_a_replay(lake: Lake, instance: dg.DagsterInstance) -> None:
    arrive(lake, 4, 8)
    before_midnight = datetime(2024, 11, 9, 23, 30, tzinfo=timezone.utc)  # the 10th in Berlin
    assert window(rolling(lake, instance, before_midnight, days=7, delay=2))[1] == "2024-11-08"
    assert window(rolling(lake, instance, before_midnight, days=7, delay=2, timezone="UTC"))[1] == "2024-11-07"
    lake.settings.now = datetime(2024, 11, 6, 12, tzinfo=timezone.utc)
    assert window(rolling(lake, instance, days=2, delay=1)) == ("2024-11-04", "2024-11-05")


def test_a_window_without_any_arrival_starts_nothing(lake: Lake, instance: dg.DagsterInstance) -> None:
    assert rolling(lake, instance, days=7) == "nothing of sales has arrived for 2024-11-02 to 2024-11-08"
    arrive(lake, 1)
    assert rolling(lake, instance, days=7) == "nothing of sales has arrived for 2024-11-02 to 2024-11-08"
    assert rolling(lake, instance, days=7, delay=300) == "nothing of sales has arrived for 2024-01-09 to 2024-01-15"


def test_nobody_looks_where_nothing_can_change_by_waiting(lake: Lake, instance: dg.DagsterInstance) -> None:
    assert "no row has ever waited" in str(tick(schedule(lake, SALES, "freshness"), instance))
    request = tick(schedule(lake, source_with(freshness={"max_age": "P1D"}), "freshness"), instance)
    assert isinstance(request, dg.RunRequest)
    assert (request.asset_selection, request.asset_check_keys) == ([], [FRESH])


def test_one_run_evaluates_the_checks_of_all_sources(lake: Lake, instance: dg.DagsterInstance) -> None:
    catalog = Catalog({name: source_with(dataset=name, freshness={"max_age": "P1D"}) for name in "ab"})
    [kind] = [kind for kind in schedules.kinds(lake, catalog) if kind.name == "freshness"]
    request = tick(schedule_of(lake, kind), instance)
    assert isinstance(request, dg.RunRequest)
    assert [key.asset_key.to_user_string() for key in request.asset_check_keys or ()] == ["arrivals/a", "arrivals/b"]


def test_the_requested_run_records_how_old_the_newest_arrival_is(lake: Lake, instance: dg.DagsterInstance) -> None:
    arrive(lake, 4)
    lake.settings.now = datetime(2024, 11, 6, 12, tzinfo=timezone.utc)
    definitions = build_definitions(
        lake.settings, Catalog({"sales": source_with(freshness={"max_age": "PT26H", "severity": "error"})})
    )
    job = definitions.resolve_implicit_global_asset_job_def()
    result = job.get_subset(asset_selection=set(), asset_check_selection={FRESH}).execute_in_process(instance=instance)
    [told] = result.get_asset_check_evaluations()
    assert (told.asset_check_key, told.passed, told.partition) == (FRESH, False, None)
    assert told.severity is dg.AssetCheckSeverity.ERROR
    assert told.metadata["age_hours"].value == 30.0
    assert "first.csv, arrived 1 d 6 h ago" in str(told.description)


def test_definitions_with_all_of_it_load(lake: Lake) -> None:
    source = source_with(
        freshness={"max_age": "P1D"}, rolling_backfill={}, quality={"nulls": {"amount": 0}, "row_count": {"min": 1}}
    )
    loaded = load_catalog(None)
    metrics = {name: one for name, one in loaded.metrics.items() if one.source == "sales"}
    definitions = build_definitions(lake.settings, Catalog({"sales": source}, metrics))
    dg.Definitions.validate_loadable(definitions)
    names = {one.name for one in definitions.resolve_all_asset_specs() and definitions.get_repository_def().schedule_defs}
    assert {"freshness", "rolling_0300_utc", "close", "maintenance"} <= names
