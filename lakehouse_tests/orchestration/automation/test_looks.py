"""Sensors by kind: what is wrong with one table stops no other, each look gets its turn, and earlier cursors are taken over."""

from __future__ import annotations

import shutil
import threading
import time
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, ScheduleInstigatorData, SensorInstigatorData
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts import Catalog, load_catalog
from lakehouse.lake import Lake
from lakehouse.operations import pauses
from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse.orchestration.automation import alert_sensor, landing_sensor, looks, ready, schedules
from lakehouse.orchestration.automation.looks import (
    LOOK_TAG,
    Cursor,
    Look,
    LookContext,
    LookKind,
    LooksCursor,
    sensor_of,
)
from lakehouse.orchestration.build import build_definitions, kinds, sensor_ages
from lakehouse.orchestration.dagster_internals import InstigatorType
from lakehouse.orchestration.resources import LakeTables
from lakehouse.settings import Settings
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.sensor_ticks import SensorTicks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakehouse.operations.alerts.run_rules import FailedLook

KEY = dg.AssetKey(["bronze", "a"])


def source(name: str) -> Any:
    return contract(dataset=name)


def catalog(*names: str) -> Catalog:
    return Catalog({name: source(name) for name in names})


@pytest.fixture
def fleet(tmp_path: Path) -> Lake:
    """A lake with a landing folder for each source."""
    return Lake(Settings(root=str(tmp_path / "lake"), settle_seconds=0))


def land(lake: Lake, name: str, day: date = date(2024, 1, 5)) -> None:
    folder = Path(lake.landing_of(name))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"arrival_date={day}.csv").write_text("id\n1\n")


def subjects(requests: Sequence[dg.RunRequest]) -> list[str]:
    """The looks of a single run."""
    [request] = requests
    return sorted(request.tags[LOOK_TAG].split(", "))


def test_the_number_of_sensors_schedules_and_jobs_does_not_depend_on_the_number_of_contracts(fleet: Lake) -> None:
    counts = []
    for names in (["a"], [f"s{number}" for number in range(30)]):
        repository = build_definitions(fleet.settings, catalog(*names)).get_repository_def()
        counts.append([len(repository.sensor_defs), len(repository.schedule_defs), len(repository.get_all_jobs())])
    assert counts[0] == counts[1]
    assert sum(counts[0]) <= 15


def test_files_of_two_sources_are_requested_in_one_tick(fleet: Lake, instance: dg.DagsterInstance) -> None:
    fleet.settings.settle_seconds = 60
    land(fleet, "a")
    land(fleet, "c")
    landing = SensorTicks(fleet, catalog("a", "b", "c"), "landing", instance)
    waits = "not stable yet: arrival_date=2024-01-05.csv"
    assert landing.skip_message() == f"bronze/a, bronze/c: {waits}, nothing to do for 1 of 3"
    landing.wait(60)
    assert subjects(landing.run_requests()) == ["landing_a", "landing_c"]


def test_a_table_whose_log_is_garbage_stops_no_other_source(fleet: Lake, instance: dg.DagsterInstance) -> None:
    for name in "abc":
        land(fleet, name)
    log = Path(fleet.root, "bronze", "b_decisions", "_delta_log")
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("garbage")
    stewards = SensorTicks(fleet, catalog("a", "b", "c"), "stewards", instance)
    said = stewards.skip_message()
    assert said.startswith("silver/b: ")
    assert said.endswith("nothing to do for 2 of 3")
    assert [*failed_in(stewards)] == ["stewards_b"]
    since = failed_in(stewards)["stewards_b"].since
    stewards.tick()
    assert failed_in(stewards)["stewards_b"].since == since
    log.rename(log.with_name("away"))
    assert stewards.skip_message() == "nothing to do for all 3"
    assert not failed_in(stewards)


def test_a_landing_folder_that_hangs_stops_no_other_source(
    fleet: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, tried = threading.Event(), []
    real = landing_sensor.bronze_landing.list_landing

    def hangs(lake: Lake, of: Any) -> Any:
        if of.dataset == "b":
            tried.append(1)
            answers.wait(60)
        return real(lake, of)

    monkeypatch.setattr(landing_sensor.bronze_landing, "list_landing", hangs)
    monkeypatch.setattr(landing_sensor, "_LISTING_SECONDS", 0.2)
    for name in "abc":
        land(fleet, name)
    landing = SensorTicks(fleet, catalog("a", "b", "c"), "landing", instance)
    for _ in range(2):
        assert subjects(landing.run_requests()) == ["landing_a", "landing_c"]
    assert len(tried) == 1, "a later look waits for the same list"
    [failed] = failed_in(landing).values()
    assert "was not listed within" in failed.error
    answers.set()
    [(thread, _)] = landing_sensor._listings.values()
    thread.join()
    assert subjects(landing.run_requests()) == ["landing_a", "landing_b", "landing_c"], "what came late is taken"
    assert len(tried) == 1
    assert not landing_sensor._listings


def test_a_look_that_hangs_is_passed_over_by_the_next_tick(
    fleet: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go, taken = threading.Event(), threading.Event(), list[str]()

    def take(context: LookContext, _: Lake) -> list[Any]:
        taken.append(context.name)
        if context.name == "b" and not go.is_set():
            begun.set()
            go.wait(60)
        return []

    sensor = sensor_of(fleet, LookKind("kind", "", [look(name, take) for name in "abc"]))
    hanging = threading.Thread(target=tick_of, args=(sensor, instance), daemon=True)
    hanging.start()
    assert begun.wait(10)
    monkeypatch.setattr(looks, "_HANGS_SECONDS", 0)
    cursor = LooksCursor.read(tick_of(sensor, instance).cursor)
    assert taken == ["a", "b", "a", "c"]
    assert cursor is not None
    assert cursor.failed["b"].error == "TimeoutError: a look has not ended for a minute or longer"
    go.set()
    hanging.join()
    taken.clear()
    tick_of(sensor, instance)
    assert taken == ["a", "b", "c"], "it has ended"


def test_each_look_gets_its_turn_when_a_tick_is_too_short_for_all(
    fleet: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "_TICK_SECONDS", 0)
    taken: list[str] = []

    def take(context: LookContext, _: Lake) -> list[Any]:
        taken.append(context.name)
        return []

    ticks = ticking(fleet, instance, [look(name, take) for name in "abc"])
    for _ in range(7):
        next(ticks)
    assert taken == [*"abcabca"]


def failed_in(ticks: SensorTicks) -> dict[str, FailedLook]:
    cursor = LooksCursor.read(ticks.cursor)
    assert cursor is not None
    return cursor.failed


def look(name: str, take: Any) -> Look:
    return Look(name, name, f"source/{name.rpartition('_')[2]}", "nothing", take)


def ticking(lake: Lake, instance: dg.DagsterInstance, of: list[Look], cursor: str | None = None) -> Iterator[Any]:
    """Ticks of a sensor with some looks, each with the cursor of the one before."""
    sensor = sensor_of(lake, LookKind("kind", "", of))
    while True:
        data = tick_of(sensor, instance, cursor)
        cursor = data.cursor
        yield data


def tick_of(sensor: dg.SensorDefinition, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorExecutionData:
    definitions = dg.Definitions(assets=[dg.AssetSpec(KEY)], sensors=[sensor])
    resources = {"tables": LakeTables()}
    context = dg.build_sensor_context(instance, cursor=cursor, definitions=definitions, resources=resources)
    return sensor.evaluate_tick(context)


STATES = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2), min_size=4, max_size=4)


@given(st.lists(st.tuples(STATES, st.sets(st.sampled_from("abcd"))), min_size=1, max_size=6))
def test_a_look_works_exactly_where_its_state_is_not_one_at_which_it_had_nothing_to_do(
    history: list[tuple[dict[str, int], set[str]]],
) -> None:
    """Looks have work at the states 1 and 2, and nothing to do at state 0; some fail."""
    now: dict[str, int] = {}
    failing: set[str] = set()
    worked: list[str] = []

    def take(context: LookContext, _: Lake) -> list[Any]:
        state = f"{now[context.name]}"
        if context.name in failing:
            msg = "broken"
            raise OSError(msg)
        if context.is_idle(state):
            context.keep(Cursor(state))
            return [dg.SkipReason("nothing")]
        worked.append(context.name)
        if state == "0":
            context.keep(Cursor(state))
            return [dg.SkipReason("nothing")]
        return [dg.SkipReason("waits")]

    with dg.DagsterInstance.ephemeral() as instance:
        ticks = ticking(Lake(Settings(root="unused")), instance, [look(name, take) for name in "abcd"])
        idle: set[str] = set()
        for states, broken in history:
            now, failing = states, broken
            worked.clear()
            data = next(ticks)
            sound = [name for name in "abcd" if name not in broken]
            assert worked == [name for name in sound if states[name] or name not in idle]
            idle = {name for name in sound if not states[name]} | (idle & broken)
            cursor = LooksCursor.read(data.cursor)
            assert cursor is not None
            assert cursor.failed.keys() == broken
            assert len(cursor.idle) <= 4


def test_the_cursor_of_a_thousand_idle_looks_has_ten_characters_for_each(fleet: Lake, instance: dg.DagsterInstance) -> None:
    def take(context: LookContext, _: Lake) -> list[Any]:
        context.keep(Cursor("state"))
        return [dg.SkipReason("nothing")]

    data = next(ticking(fleet, instance, [look(f"restate_metric_{number}", take) for number in range(1000)]))
    assert len(data.cursor) < 10_100
    assert data.skip_message == "nothing to do for all 1000"


def test_the_first_tick_takes_over_the_cursors_of_a_sensor_for_each_source(fleet: Lake, tmp_path: Path) -> None:
    seen = '{"seen": {"2024-01-05T00:00:00+00:00": "0123456789ab"}}'
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.add_instigator_state(sensor_state("landing_a", seen))
        befores: list[Cursor] = []

        def take(context: LookContext, _: Lake) -> list[Any]:
            befores.append(context.before)
            return []

        next(ticking(fleet, instance, [look("landing_a", take), look("landing_b", take)]))
    assert befores == [Cursor.read(seen), Cursor()]


def test_a_sensor_of_an_earlier_release_that_was_stopped_is_a_pause(fleet: Lake, tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.add_instigator_state(sensor_state("landing_a", "", InstigatorStatus.STOPPED))
        land(fleet, "a")
        land(fleet, "b")
        landing = SensorTicks(fleet, catalog("a", "b"), "landing", instance)
        assert subjects(landing.run_requests()) == ["landing_b"]
        [held] = pauses.paused(fleet).values()
        assert (held.contract, held.by) == ("source/a", "Dagster")
        assert held.reason == "a person had stopped landing_a"
        pauses.resume(fleet, "source/a", "anna", "again")
        assert subjects(landing.run_requests()) == ["landing_a", "landing_b"]
        landing.cursor = None
        landing.tick()
        assert not pauses.paused(fleet), "it is taken over once, also if the cursor is lost"


def test_a_schedule_of_an_earlier_release_that_was_stopped_is_a_pause(fleet: Lake, tmp_path: Path) -> None:
    taken: list[str] = []

    def take(context: LookContext, _: Lake) -> list[Any]:
        taken.append(context.name)
        return [dg.RunRequest(asset_selection=[KEY])]

    kind = LookKind("close", "", [look(name, take) for name in ("close_a", "close_b", "close_c")], cron="0 0 * * *")
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.add_instigator_state(sensor_state("close_b", "", InstigatorStatus.STOPPED, InstigatorType.SCHEDULE))
        for _ in range(2):
            with dg.build_schedule_context(instance, datetime(2024, 1, 1, tzinfo=timezone.utc)) as context:
                requests = schedules.schedule_of(fleet, kind).evaluate_tick(context).run_requests or []
            assert [request.run_key for request in requests] == ["close_a", "close_c"], "Dagster wants a key for each of several"
    assert taken == ["close_a", "close_c"] * 2
    assert [*pauses.paused(fleet)] == ["source/b"]


def test_what_a_look_knew_to_be_idle_is_forgotten_when_it_finds_work(fleet: Lake, instance: dg.DagsterInstance) -> None:
    """Also while another look of the sensor keeps nothing."""
    now, worked = {"a": "0", "b": "0"}, list[str]()

    def take(context: LookContext, _: Lake) -> list[Any]:
        state = now[context.name]
        if context.name == "b":
            return []
        if context.is_idle(state):
            context.keep(Cursor(state))
            return [dg.SkipReason("nothing")]
        worked.append(state)
        context.keep(Cursor(state, "" if state == "0" else "something"))
        return [dg.SkipReason("nothing" if state == "0" else "something")]

    ticks = ticking(fleet, instance, [look(name, take) for name in "ab"])
    for state in "0010":
        now["a"] = state
        next(ticks)
    assert worked == ["0", "1", "0"]


def test_nothing_is_started_for_a_paused_source_until_it_is_resumed(fleet: Lake, instance: dg.DagsterInstance) -> None:
    land(fleet, "a")
    land(fleet, "b")
    landing = SensorTicks(fleet, catalog("a", "b"), "landing", instance)
    pauses.pause(fleet, "source/a", "anna", "a new till")
    assert subjects(landing.run_requests()) == ["landing_b"]
    pauses.pause(fleet, "source/b", "anna", "a new till, too")
    assert "bronze/a: paused by anna on " in landing.skip_message()
    pauses.resume(fleet, "source/a", "anna", "it sends")
    assert subjects(landing.run_requests()) == ["landing_a"]


def test_while_pauses_cannot_be_read_the_last_known_ones_hold(fleet: Lake, instance: dg.DagsterInstance) -> None:
    land(fleet, "a")
    land(fleet, "b")
    landing = SensorTicks(fleet, catalog("a", "b"), "landing", instance)
    pauses.pause(fleet, "source/a", "anna", "a new till")
    assert subjects(landing.run_requests()) == ["landing_b"]
    log = Path(fleet.root, "ops", "pauses", "_delta_log")
    newest = max(log.glob("*.json"))
    shutil.move(newest, log / "kept")
    newest.write_text("garbage")
    assert subjects(landing.run_requests()) == ["landing_b"]
    assert failed_in(landing)["pauses"].subject == "ops/pauses"
    shutil.move(log / "kept", newest)
    assert subjects(landing.run_requests()) == ["landing_b"]
    assert not failed_in(landing)


def test_only_what_is_meant_is_paused(fleet: Lake) -> None:
    by_contract: dict[str | None, set[str]] = {}
    for kind in kinds(fleet, load_catalog(None)):
        for one in kind.looks:
            by_contract.setdefault(one.contract, set()).add(one.name)
    assert by_contract["source/sales"] == {"landing_sales", "reconcile_sales", "stewards_sales"}
    assert by_contract["metric/revenue"] == {
        f"{kind}_revenue{suffix}" for kind in ("restate", "close") for suffix in ("", "_weekly", "_monthly")
    }
    assert by_contract[None] == {"freshness_sales", "freshness_earthquakes"}


def test_a_failed_look_alerts_its_owner_until_it_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(Settings(root=str(tmp_path / "lake")))
    known = catalog("a", "b")
    log = Path(lake.root, "bronze", "b_decisions", "_delta_log")
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("garbage")
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        alerts, stewards = (SensorTicks(lake, known, name, instance) for name in ("alerts", "stewards"))
        monkeypatch.setattr(alert_sensor, "_ALERTS_AFTER", timedelta())
        assert alerts.skip_message() == "0 opened, 0 resolved, 0 open"
        instance.add_instigator_state(stored(stewards))
        assert alerts.skip_message() == "1 opened, 0 resolved, 1 open"
        assert alerts.skip_message() == "nothing has changed since the last look"
        [alert] = [record.alert for record in alert_log.all_of(lake)]
        assert (alert.kind, alert.subject) == (AlertKind.FAILED_LOOK, "silver/b")
        assert "Dagster cannot see what is to do for silver/b (stewards_b): " in alert.text
        assert alert.text.endswith("Nothing new is started for it until that is mended; others go on.")
        log.rename(log.with_name("away"))
        instance.update_instigator_state(stored(stewards))
        assert alerts.skip_message() == "0 opened, 1 resolved, 0 open"


def test_the_age_of_a_sensor_is_that_of_its_last_tick_unless_a_person_has_stopped_it(fleet: Lake, tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        read, hour_ago = sensor_ages(fleet, catalog("a"), instance), time.time() - 3600
        assert read() == {}
        instance.add_instigator_state(sensor_state("landing", "", ticked=hour_ago))
        instance.add_instigator_state(sensor_state("alerts", ""))
        instance.add_instigator_state(sensor_state("reconcile", "", InstigatorStatus.STOPPED, ticked=hour_ago))
        instance.add_instigator_state(sensor_state("landing_a", "", ticked=hour_ago))  # of an earlier release
        assert {name: round(age / 60) for name, age in read().items()} == {"landing": 60}


def stored(ticks: SensorTicks) -> InstigatorState:
    """What Dagster keeps after another tick."""
    ticks.tick()
    assert ticks.cursor is not None
    return sensor_state(ticks.name, ticks.cursor)


def sensor_state(
    name: str,
    cursor: str,
    status: InstigatorStatus = InstigatorStatus.DECLARED_IN_CODE,
    kind: InstigatorType = InstigatorType.SENSOR,
    ticked: float | None = None,
) -> InstigatorState:
    """What Dagster keeps of a sensor between its ticks."""
    location = InProcessCodeLocationOrigin(LoadableTargetOrigin(python_file="definitions.py"), location_name="lakehouse")
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(location, "__repository__"), name)
    of_sensor = SensorInstigatorData(ticked, cursor=cursor)
    data = of_sensor if kind is InstigatorType.SENSOR else ScheduleInstigatorData("0 0 * * *")
    return InstigatorState(origin, kind, status, data)


def test_what_found_no_place_is_the_first_at_the_next_tick(
    fleet: Lake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready, "_MOST", 2)
    for name in "abcde":
        land(fleet, name)
    landing = SensorTicks(fleet, catalog(*"abcde"), "landing", instance)
    served = [subjects(landing.run_requests()) for _ in range(3)]
    assert sorted({look for looks_of in served for look in looks_of}) == [f"landing_{name}" for name in "abcde"]
