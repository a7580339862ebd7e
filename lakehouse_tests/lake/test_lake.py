from datetime import datetime, timedelta, timezone

from lakehouse.lake import Lake, SimulatedClock
from lakehouse.settings import Settings

FIXED = datetime(2024, 1, 1, tzinfo=timezone.utc)


def test_the_time_is_that_of_the_clock_passed_in_else_the_fixed_one_else_the_real_one() -> None:
    lake, clock = Lake(Settings(now=FIXED)), SimulatedClock(FIXED)
    replayed = lake.at(clock)
    copy = replayed.with_settings(root="elsewhere")
    clock.set(FIXED + timedelta(days=1))
    assert replayed.now() == copy.now() == FIXED + timedelta(days=1)
    assert lake.now() == FIXED, "a lake with another clock is a copy"
    assert abs(Lake(Settings(now=None)).now() - datetime.now(timezone.utc)) < timedelta(minutes=1)


def test_a_stage_has_tables_and_landing_of_its_own_and_shares_the_clock_and_open_tables() -> None:
    lake = Lake(Settings(root="/data", landing="/in")).at(SimulatedClock(FIXED)).cached()
    stage = lake.stage("october")
    assert (stage.table("silver", "sales").address, stage.landing_of("sales")) == (
        "/data/stages/october/silver/sales",
        "/data/stages/october/landing/sales",
    )
    assert (stage.now(), stage.cache) == (FIXED, lake.cache)
    assert lake.landing_of("sales") == "/in"


def test_tables_are_kept_open_where_a_caller_wants_it() -> None:
    lake = Lake(Settings(root="/data", storage_options={"region": "eu"}))
    kept = lake.cached()
    assert lake.cache is None
    assert kept.cached() is kept, "one that keeps tables open already goes on with these"
    assert dict(kept.storage_options) == dict(lake.storage_options) == {"region": "eu"}


def test_ticks_are_further_apart_in_an_object_store_unless_they_are_set() -> None:
    assert [Lake(Settings(root=root)).tick_seconds for root in ("/data", "s3://bucket/lake")] == [4, 15]
    assert Lake(Settings(root="s3://bucket/lake", sensor_seconds=4)).tick_seconds == 4
